"""TVM's own tuner (``tvm.s_tir.meta_schedule``)."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import tvm.s_tir
from tvm.s_tir.meta_schedule import builder, database, runner, tune_tir

from tvmconv.tvm_api.s_tir import Trace
from tvmconv.tvm_api.tirx import FloatImm, IntImm

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


def rpc_config(host: str, port: int, key: str, session_seconds: float) -> runner.RPCConfig:
    """The devices of a tracker that have a key."""
    return runner.RPCConfig(host, port, key, session_timeout_sec=int(session_seconds))


def trace_data(trace: Trace) -> list[Any]:
    """A trace as plain data; numbers of TVM become Python's."""
    data: list[Any] = _plain(trace.as_json())
    return data


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, IntImm | FloatImm) else value
