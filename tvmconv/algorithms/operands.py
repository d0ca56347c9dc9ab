"""Arguments and the last block of every convolution's tensor expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tvmconv.algorithms.base import FloatArray
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.device import Device
from tvmconv.machines.multiply import packs_with_saturation
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Index, Tensor

# bytes of the dwords that integer instructions multiply
DWORD_BYTES = 4


def input_shape(workload: Conv2dWorkload, machine: Device) -> tuple[int, ...]:
    """``(N, C/c, H, W, c)``, or the plain shape if the layout has no channel blocks."""
    if workload.is_matrix:
        return workload.data_shape[:2]
    if workload.data_layout == "NCHW":
        return workload.data_shape
    planes, channels, height, width = workload.data_shape
    if workload.data_layout == "NHWC":
        return (planes, height, width, channels)
    return (planes, machine.blocks(channels), height, width, machine.channel_block)


def output_shape(workload: Conv2dWorkload, machine: Device) -> tuple[int, ...]:
    """``(N, K/c, OH, OW, c)``, or ``(N, K)`` of a fully connected layer."""
    planes, channels, height, width = workload.result_shape
    if workload.is_matrix:
        return (planes, channels)
    return (planes, machine.blocks(channels), height, width, machine.channel_block)


def count_of_numbers(workload: Conv2dWorkload) -> int:
    """How many numbers the steps of the epilogue have; see :mod:`tvmconv.operators.requantise`."""
    if not workload.types.is_requantised:
        return 0
    from tvmconv.operators.requantise import NUMBERS, steps_after_bias

    return NUMBERS * (len(steps_after_bias(workload.epilogue)) + 1)


@dataclass(frozen=True)
class Operands:
    """Placeholders (``te.Tensor``) of one convolution, and the epilogue of its sums.

    ``bias`` and ``residual`` are None if the epilogue has no such step. ``zero``, ``scale`` and
    ``numbers`` are for integer layers, see :class:`~tvmconv.algorithms.base.Algorithm`.
    """

    workload: Conv2dWorkload
    machine: Machine
    data: Tensor
    weight: Tensor
    bias: Tensor | None
    residual: Tensor | None
    zero: Tensor | None = None
    scale: Tensor | None = None
    numbers: Tensor | None = None

    @classmethod
    def of(
        cls,
        workload: Conv2dWorkload,
        machine: Machine,
        packed_weight: tuple[int, ...],
        packed_type: str = "",
        *,
        plain_output: bool = False,
    ) -> Operands:
        """Placeholders for a weight of this packed shape, and type if not the workload's.

        With ``plain_output`` the residual is ``(N, K, OH, OW)``, as :meth:`plain_output` is.
        """
        from tvmconv.operators.fixed_point import SCALES
        from tvmconv.tvm_api import te

        w, t, shape = workload, workload.types, output_shape(workload, machine)
        kind, numbers = t.quantisation.requantise, count_of_numbers(w)
        rescaled_by, scales = "float32", shape[1::3]
        if kind == "fixed":
            rescaled_by, scales = "int32", (shape[1], SCALES, shape[4])

        def optional(name: str, shape: tuple[int, ...], dtype: str, given: bool) -> Tensor | None:
            return te.placeholder(shape, dtype, name=name) if given else None

        return cls(
            w,
            machine,
            te.placeholder(input_shape(w, machine), t.data, name="data"),
            te.placeholder(packed_weight, packed_type or t.weight, name="weight"),
            bias=optional("bias", shape[1::3], t.accumulator, w.has("bias")),
            residual=optional(
                "residual", w.result_shape if plain_output else shape, t.output, w.has("add")
            ),
            zero=optional("zero", (DWORD_BYTES,), t.data, t.quantisation.data_zero_point),
            scale=optional("scale", scales, rescaled_by, kind != "none"),
            numbers=optional("numbers", (numbers,), rescaled_by, numbers > 0),
        )

    def product(self, value: Expr, weight: Expr) -> Expr:
        """``value * weight`` in the accumulator's type."""
        accumulator = self.workload.types.accumulator
        return value.astype(accumulator) * weight.astype(accumulator)

    @property
    def bias_first(self) -> bool:
        """Whether the sums of :meth:`summed` begin with the bias; else :meth:`finished` adds it.

        This saves an addition for each vector of accumulators, and integer sums have no order.
        Matrix instructions have accumulators in another order than outputs.
        """
        if self.bias is None or self.scale is None:
            return False
        return not multiply_of(self.workload, self.machine).is_matrix

    def summed(
        self, value: Expr, axis: Sequence[Expr], place: tuple[Index, ...], more: Expr | None = None
    ) -> Expr:
        """The sum over reduction axes for the output at ``place``, from bias and ``more`` on."""
        from tvmconv.tvm_api import te

        first = more
        if self.bias is not None and self.bias_first:
            bias = self.bias[place[1], place[4]]
            first = bias if more is None else bias + more
        return te.sum(value, axis=axis) if first is None else te.sum_from(first, value, axis)

    def finished(self, value: Expr, place: tuple[Index, ...], begun: bool = False) -> Expr:
        """The epilogue of the sum for the output at ``place``.

        All steps have the accumulator's type. The result is rounded once to the output's type.
        ``begun`` marks sums of :meth:`summed`.
        """
        from tvmconv.operators.epilogue import apply_epilogue
        from tvmconv.operators.fixed_point import rescaled_in_integers
        from tvmconv.operators.requantise import rescaled

        bias = self.bias[place[1], place[4]] if self.bias is not None else None
        residual = self._residual_at(place) if self.residual is not None else None
        if self.scale is None:
            types = self.workload.types
            residual = None if residual is None else residual.astype(types.accumulator)
            result = apply_epilogue(value, self.workload.epilogue, bias, residual)
            return result.astype(types.output)
        total = value if bias is None or (begun and self.bias_first) else value + bias
        steps, output = self.workload.epilogue, self.workload.types.output
        scale, numbers = self.scale, self.numbers
        packs = packs_with_saturation(self.machine)
        is_whole = self.workload.types.quantisation.whole_range
        if self.workload.types.quantisation.requantise == "fixed":
            assert numbers is not None

            def part(number: int) -> Expr:
                return scale[place[1], number, place[4]]

            return rescaled_in_integers(
                total, steps, output, part, numbers, residual, packs=packs, is_whole=is_whole
            )
        factor = scale[place[1], place[4]]
        return rescaled(
            total, steps, output, factor, numbers, residual, packs=packs, is_whole=is_whole
        )

    def _residual_at(self, place: tuple[Index, ...]) -> Expr:
        """The residual for the output at ``place``; zero in surplus lanes of a plain one."""
        from tvmconv.tvm_api import tirx

        assert self.residual is not None
        if len(self.residual.shape) == len(place):
            return self.residual[place]
        (n, kb, h, x, k), channels = place, self.workload.out_channels
        channel = kb * self.machine.channel_block + k
        value = self.residual[n, channel, h, x]
        if channels % self.machine.channel_block == 0:
            return value
        return tirx.if_then_else(channel < channels, value, tirx.const(0, self.residual.dtype))

    def output(
        self, sums: Callable[..., Expr], begun: bool = False, *, name: str = "output"
    ) -> Tensor:
        """Block ``output``: the epilogue of ``sums`` at every index, see :meth:`finished`."""
        from tvmconv.tvm_api import te

        return te.compute(
            output_shape(self.workload, self.machine),
            lambda n, kb, h, x, k: self.finished(sums(n, kb, h, x, k), (n, kb, h, x, k), begun),
            name=name,
        )

    def plain_output(self, sums: Callable[..., Expr]) -> Tensor:
        """Blocks ``finished``, as :meth:`output`, and ``output``, which is ``(N, K, OH, OW)``."""
        from tvmconv.tvm_api import te

        finished, lanes = self.output(sums, name="finished"), self.machine.channel_block
        return te.compute(
            self.workload.result_shape,
            lambda n, k, h, x: finished[n, k // lanes, h, x, k % lanes],
            name="output",
        )

    def row_output(self, sums: Tensor, begun: bool = False) -> Tensor:
        """Blocks ``output`` and ``unflatten`` of sums ``(N, K/c, 1, OH*OW, c)``, or larger ones."""
        from tvmconv.tvm_api import te

        planes, blocks, height, width, lanes = output_shape(self.workload, self.machine)

        def finish(n: Expr, kb: Expr, h: Expr, x: Expr, k: Expr) -> Expr:
            place = (n, kb, x // width, x % width, k)
            return self.finished(sums[n, kb, h, x, k], place, begun)

        rows = te.compute((planes, blocks, 1, height * width, lanes), finish, name="output")
        return self.unflattened(lambda n, kb, q, k: rows[n, kb, 0, q, k])

    def unflattened(self, rows: Callable[..., Expr], pitch: int = 0) -> Tensor:
        """Block ``unflatten``: the output of ``(N, K/c, OH*OW, c)``, or of rows of ``pitch``."""
        from tvmconv.tvm_api import te

        width = pitch or self.workload.out_width
        return te.compute(
            output_shape(self.workload, self.machine),
            lambda n, kb, h, x, k: rows(n, kb, h * width + x, k),
            name="unflatten",
        )

    def arguments(self, output: Tensor) -> list[Tensor]:
        """All tensors in argument order."""
        rest = (self.zero, self.bias, self.scale, self.numbers, self.residual)
        return [self.data, self.weight, *(t for t in rest if t is not None), output]


def split_outputs(weight: FloatArray, *split: int) -> FloatArray:
    """``(K, ...)`` to ``(*split, ...)``, with zeros after the last output channel."""
    padded = np.zeros((prod(split), *weight.shape[1:]), weight.dtype)
    padded[: weight.shape[0]] = weight
    return padded.reshape(*split, *weight.shape[1:])
