"""What the import of TVM leaves out in processes that are tvmconv's own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_IMPORTERS, _LEFT_OUT = ("tvm", "tvm_ffi"), "torch"
# whose frames stand between an import and the module that it is for; compiled ones have none
_BETWEEN = ("importlib.", "tvmconv.core.interrupts")


class _WithoutTorch(MetaPathFinder):
    """Finds no torch for modules of TVM, which import it wherever it is installed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == _LEFT_OUT and _importer().partition(".")[0] in _IMPORTERS:
            raise ModuleNotFoundError(f"TVM does without {name} in this process", name=name)
        return None


def _importer() -> str:
    """The module whose import statement a finder was called for."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(_BETWEEN):
        frame = frame.f_back
    return str(frame.f_globals["__name__"])


def import_tvm_without_torch() -> None:
    """Let TVM be imported without torch from now on, which takes a third of the time.

    Functions of TVM then take no torch dtypes, so that this is for processes in which no user's
    code runs. Whoever else imports torch gets it.
    """
    if not any(isinstance(finder, _WithoutTorch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WithoutTorch())
