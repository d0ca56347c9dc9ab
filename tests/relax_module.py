"""Relax modules compiled as networks are, to be called."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tvm import relax

from tvmconv.artifact.record import record_program
from tvmconv.compile.network import compile_program
from tvmconv.core.tensor import TensorInfo
from tvmconv.machines.record import Machine
from tvmconv.model import CompiledModel


def compiled(module: Any, machine: Machine) -> CompiledModel:
    """The model of a module's function ``main``; inputs are named as its parameters."""
    function = module["main"]
    result = function.ret_ty
    results = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    inputs = [_tensor(var.name, var.ty) for var in function.params]
    outputs = [_tensor(f"y{i}", kind) for i, kind in enumerate(results)]
    code = compile_program(SimpleNamespace(mod=module), machine, inputs, outputs)
    return CompiledModel(record_program(code.program, machine), code)


def _tensor(name: str, kind: Any) -> TensorInfo:
    return TensorInfo(name, tuple(int(n) for n in kind.shape.values), str(kind.dtype))
