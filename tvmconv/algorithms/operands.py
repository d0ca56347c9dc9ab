"""What every convolution's expression has around its own blocks: arguments and the last block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from tvmconv.algorithms.base import FloatArray
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Index, Tensor


def input_shape(workload: Conv2dWorkload, machine: Machine) -> tuple[int, ...]:
    """``(N, C/c, H, W, c)``, or ``(N, C, H, W)`` where the layout is ``NCHW``."""
    if workload.data_layout == "NCHW":
        return workload.data_shape
    planes, channels, height, width = workload.data_shape
    return (planes, machine.blocks(channels), height, width, machine.channel_block)


def output_shape(workload: Conv2dWorkload, machine: Machine) -> tuple[int, ...]:
    """``(N, K/c, OH, OW, c)``."""
    planes, channels, height, width = workload.result_shape
    return (planes, machine.blocks(channels), height, width, machine.channel_block)


@dataclass(frozen=True)
class Operands:
    """Placeholders (``te.Tensor``) of one convolution, and what becomes of its sums.

    Parameters
    ----------
    workload, machine
        What is computed, and where.
    data, weight
        The input and the packed weight.
    bias, residual
        None where the epilogue has no such step.
    """

    workload: Conv2dWorkload
    machine: Machine
    data: Tensor
    weight: Tensor
    bias: Tensor | None
    residual: Tensor | None

    @classmethod
    def of(
        cls, workload: Conv2dWorkload, machine: Machine, packed_weight: tuple[int, ...]
    ) -> Operands:
        """Placeholders for a weight of this packed shape."""
        from tvmconv.tvm_api import te

        w, t, shape = workload, workload.types, output_shape(workload, machine)
        return cls(
            w,
            machine,
            te.placeholder(input_shape(w, machine), t.data, name="data"),
            te.placeholder(packed_weight, t.weight, name="weight"),
            te.placeholder(shape[1::3], t.accumulator, name="bias") if w.has("bias") else None,
            te.placeholder(shape, t.output, name="residual") if w.has("add") else None,
        )

    def product(self, value: Expr, weight: Expr) -> Expr:
        """``value * weight`` in the accumulator's type."""
        accumulator = self.workload.types.accumulator
        return value.astype(accumulator) * weight.astype(accumulator)

    def finished(self, value: Expr, place: tuple[Index, ...]) -> Expr:
        """The epilogue of one sum that belongs at ``place``, an index of the output."""
        from tvmconv.operators.epilogue import apply_epilogue

        return apply_epilogue(
            value,
            self.workload.epilogue,
            self.bias[place[1], place[4]] if self.bias is not None else None,
            self.residual[place] if self.residual is not None else None,
        )

    def output(self, sums: Callable[..., Expr]) -> Tensor:
        """Block ``output``: the epilogue of ``sums`` at every index of the output."""
        from tvmconv.tvm_api import te

        return te.compute(
            output_shape(self.workload, self.machine),
            lambda n, kb, h, x, k: self.finished(sums(n, kb, h, x, k), (n, kb, h, x, k)),
            name="output",
        )

    def arguments(self, output: Tensor) -> list[Tensor]:
        """All tensors in argument order."""
        optional = [tensor for tensor in (self.bias, self.residual) if tensor is not None]
        return [self.data, self.weight, *optional, output]


def split_outputs(weight: FloatArray, *split: int) -> FloatArray:
    """``(K, ...)`` to ``(*split, ...)``, zeros behind the last output channel."""
    padded = np.zeros((prod(split), *weight.shape[1:]), weight.dtype)
    padded[: weight.shape[0]] = weight
    return padded.reshape(*split, *weight.shape[1:])
