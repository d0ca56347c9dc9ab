"""Runs a program on numpy's memory, one compiled function at a time, as generated C does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import tvm

from tests.operators.harness import HOST
from tvmconv.compile.network import scheduled
from tvmconv.frontend import LoadedModel, read_model, to_relax
from tvmconv.graph.lower import lower
from tvmconv.machines.record import Machine
from tvmconv.program.collect import collect
from tvmconv.program.program import ALIGNMENT, Operand, Place, Program
from tvmconv.runtime.memory import empty_aligned
from tvmconv.tir.pipeline import compile_function

# all bytes 255: NaN in every floating type, -1 in integers
POISON = 255


@dataclass(frozen=True)
class Collected:
    """A network's program and its functions by symbol."""

    program: Program
    functions: dict[str, Any]
    machine: Machine

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Outputs in order."""
        program, code = self.program, self._compiled()
        arena = _poisoned(program.arena_bytes)
        constants = _poisoned(program.constant_bytes)
        for constant in program.constants:
            data = np.frombuffer(constant.data.tobytes(), np.uint8)
            constants[constant.offset : constant.offset + data.size] = data
        outputs = [_poisoned(info.bytes) for info in program.outputs]
        inputs = []
        for info in program.inputs:
            inputs.append(_poisoned(info.bytes))
            assert feeds[info.name].shape == info.shape
            inputs[-1][:] = np.frombuffer(feeds[info.name].astype(info.dtype).tobytes(), np.uint8)

        def memory(operand: Operand) -> np.ndarray:
            whole = {
                Place.INPUT: lambda: inputs[operand.index],
                Place.OUTPUT: lambda: outputs[operand.index],
                Place.CONSTANT: lambda: constants,
                Place.ARENA: lambda: arena,
            }[operand.place]()
            assert operand.offset % ALIGNMENT == 0
            assert 0 <= operand.offset <= operand.offset + operand.bytes <= whole.size
            return whole[operand.offset : operand.offset + operand.bytes]

        before = [block.copy() for block in (constants, *inputs)]
        for call in program.calls:
            operands = [memory(operand) for operand in call.operands]
            symbol = call.record.kernel
            if not symbol:
                source, target = operands
                target[:] = source
                continue
            kinds = [parameter.ty for parameter in self.functions[symbol].params]
            tensors = [_tensor(m, kind) for m, kind in zip(operands, kinds, strict=True)]
            code[symbol](*tensors)
        for block, old in zip((constants, *inputs), before, strict=True):
            np.testing.assert_array_equal(block, old)
        return [
            raw.view(info.dtype).reshape(info.shape)
            for raw, info in zip(outputs, program.outputs, strict=True)
        ]

    def _compiled(self) -> Any:
        if not self.functions:
            return {}
        return compile_function(tvm.IRModule(dict(self.functions)), self.machine)


def collected(model: onnx.ModelProto, machine: Machine = HOST) -> Collected:
    """The program of an ONNX model."""
    return collected_from(read_model(model), machine)


def collected_from(loaded: LoadedModel, machine: Machine = HOST) -> Collected:
    """The program of a model that was read."""
    lowered = lower(to_relax(loaded), machine)
    program, module = collect(
        scheduled(lowered.mod, machine),
        loaded.inputs,
        loaded.outputs,
        lowered.calls,
        lowered.decisions,
    )
    functions = {str(f.attrs["global_symbol"]): f for f in module.functions.values()}
    return Collected(program, functions, machine)


def _poisoned(size: int) -> np.ndarray:
    block = empty_aligned((size,), "uint8")
    block[:] = POISON
    return block


def _tensor(memory: np.ndarray, kind: Any) -> Any:
    """A TVM tensor in the same memory."""
    shape = tuple(int(size) for size in kind.shape)
    if not memory.size:
        return tvm.runtime.empty(shape, str(kind.dtype))
    array = memory.view(str(kind.dtype)).reshape(shape)
    return tvm.runtime.from_dlpack(array)
