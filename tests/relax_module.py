"""Relax modules compiled as networks are, to be called."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tvm import relax

from tvmconv.artifact.record import record_program
from tvmconv.compile.network import compile_program
from tvmconv.core.decision import KernelCall
from tvmconv.core.tensor import TensorInfo
from tvmconv.machines.record import Machine
from tvmconv.model import CompiledModel


def compiled(
    module: Any,
    machine: Machine,
    inputs: Sequence[TensorInfo] = (),
    outputs: Sequence[TensorInfo] = (),
    calls: Sequence[KernelCall] = (),
    name: str = "",
    sha256: str = "",
) -> CompiledModel:
    """The model of a module's function ``main``; inputs are named as its parameters."""
    function = module["main"]
    result = function.ret_ty
    results = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    inputs = inputs or [_tensor(var.name, var.ty) for var in function.params]
    outputs = outputs or [_tensor(f"y{i}", kind) for i, kind in enumerate(results)]
    lowered = SimpleNamespace(mod=module, calls=calls)
    code = compile_program(lowered, machine, inputs, outputs, name=name)
    manifest = record_program(code.program, machine, model_name=name, model_sha256=sha256)
    return CompiledModel(manifest, code)


def _tensor(name: str, kind: Any) -> TensorInfo:
    return TensorInfo(name, tuple(int(n) for n in kind.shape.values), str(kind.dtype))
