"""TVM's own tuner (``tvm.s_tir.meta_schedule``)."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import tvm.s_tir
from tvm.s_tir.meta_schedule import builder, runner, tir_integration, tune_tir

_INTRINSICS = "tvm.s_tir.tensor_intrin"


def load_cpu_intrinsics() -> None:
    """Register the tensor intrinsics of CPUs only.

    ``tvm.s_tir.tensor_intrin`` parses hundreds of functions for GPUs as TVMScript. This takes over
    ten seconds in every process that makes a tuning context, builders included. A package of the
    same name with only the CPU's modules replaces it. Call this before making such a context.
    """
    if _INTRINSICS in sys.modules:
        return
    package = ModuleType(_INTRINSICS)
    package.__path__ = [str(Path(tvm.s_tir.__file__).parent / "tensor_intrin")]
    package.__package__ = _INTRINSICS
    sys.modules[_INTRINSICS] = package
    tvm.s_tir.tensor_intrin = package
    for name in ("x86", "arm_cpu"):
        import_module(f"{_INTRINSICS}.{name}")
