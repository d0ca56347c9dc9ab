"""Fast convolutional networks from ONNX, on Apache TVM.

``check`` tells whether a model can be built, ``build`` compiles it, and ``load`` opens a saved
one. ``tune`` searches faster kernels for later builds. They are imported on first use, so that
importing the package (and the command line's ``--help``) does not load TVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tvmconv.core.errors import TvmconvError
from tvmconv.core.interrupts import uninterrupted
from tvmconv.core.version import __version__

if TYPE_CHECKING:
    import tvmconv.errors as errors
    import tvmconv.transform as transform
    from tvmconv.building import build
    from tvmconv.dynamic import DynamicModel
    from tvmconv.frontend.check import check
    from tvmconv.machines.listing import targets
    from tvmconv.model import CompiledModel, load
    from tvmconv.tuning.model_tuning import tune

__all__ = [
    "CompiledModel",
    "DynamicModel",
    "TvmconvError",
    "__version__",
    "build",
    "check",
    "errors",
    "load",
    "targets",
    "transform",
    "tune",
]

_LAZY = {
    "build": ("tvmconv.building", "build"),
    "check": ("tvmconv.frontend.check", "check"),
    "CompiledModel": ("tvmconv.model", "CompiledModel"),
    "DynamicModel": ("tvmconv.dynamic", "DynamicModel"),
    "errors": ("tvmconv.errors", None),
    "load": ("tvmconv.model", "load"),
    "targets": ("tvmconv.machines.listing", "targets"),
    "transform": ("tvmconv.transform", None),
    "tune": ("tvmconv.tuning.model_tuning", "tune"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(
            f"module 'tvmconv' has no attribute {name!r}. It has {', '.join(_LAZY)}; the models "
            "that build and load return have methods such as run, explain and save."
        )
    module, attribute = _LAZY[name]
    # an interrupted import of TVM cannot be repeated
    with uninterrupted():
        value = import_module(module)
    value = getattr(value, attribute) if attribute else value
    globals()[name] = value
    return value
