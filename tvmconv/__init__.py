"""Fast convolutional networks from ONNX, on Apache TVM.

``build`` compiles a model, ``load`` opens a saved one. Both are imported on first use, so
that importing the package (and the command line's ``--help``) does not load TVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tvmconv.errors import TvmconvError
from tvmconv.interrupts import guard_imports

if TYPE_CHECKING:
    import tvmconv.transform as transform
    from tvmconv.building import build
    from tvmconv.runtime.module import CompiledModel, load

guard_imports()

__version__ = "0.1.0"
__all__ = ["CompiledModel", "TvmconvError", "__version__", "build", "load", "transform"]

_LAZY = {
    "build": ("tvmconv.building", "build"),
    "CompiledModel": ("tvmconv.runtime.module", "CompiledModel"),
    "load": ("tvmconv.runtime.module", "load"),
    "transform": ("tvmconv.transform", None),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tvmconv' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    value = import_module(module)
    value = getattr(value, attribute) if attribute else value
    globals()[name] = value
    return value
