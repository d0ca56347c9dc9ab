"""Direct convolution by products of bytes that are added in 16 bits, exactly.

AVX2 has no instruction that adds products of bytes to 32 bits. ``vpmaddubsw`` takes twice as many
products as ``vpmaddwd``, but saturates; weights that could make it do so are split by
:mod:`tvmconv.algorithms.excess`, and their excess takes steps of its own. Data are read as they
lie, weights have one byte. Where a step reads is a table behind the weights: all steps have one
loop, whatever tap or channel they belong to.
"""

from __future__ import annotations

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray, images_only
from tvmconv.algorithms.direct import flattened
from tvmconv.algorithms.excess import WORD, excess_steps, split, words
from tvmconv.algorithms.operands import Operands, output_shape
from tvmconv.algorithms.words import copied, copied_shape, copied_steps
from tvmconv.core.config import Config
from tvmconv.core.datatypes import DataTypes
from tvmconv.core.errors import WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.dot import dot_of_bytes
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

_INSTRUCTION = "vpmaddubsw"
# what has to be widened to 16 bits otherwise
_PAIRS = "vpmaddwd"


def regular_steps(workload: Conv2dWorkload, machine: Machine) -> int:
    """Steps of a sum of any weights: words of channels, times taps."""
    return _channels(workload, machine) // WORD * workload.kernel_h * workload.kernel_w


def _channels(workload: Conv2dWorkload, machine: Machine) -> int:
    """Input channels that are read, in whole words."""
    if workload.in_channels < machine.channel_block:
        return -(-workload.in_channels // WORD) * WORD
    return machine.blocks(workload.in_channels) * machine.channel_block


class DirectBytes(Algorithm):
    """Dense convolution of ``uint8`` by ``int8``.

    Knob read by the expression: ``excess``, steps for what is cut off weights. Kernels are exact
    for all weights that need no more.
    """

    name = "direct_bytes"
    types: tuple[DataTypes, ...] = ()
    integers = True
    blocks = ("conv2d", "output")

    def unsupported(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Floating types are none of its."""
        if not workload.types.is_integer:
            return f"it computes in 8 bits, not {workload.types}"
        return super().unsupported(workload, machine)

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Dense layers of bytes, where the processor has no exact products of them."""
        if dot_of_bytes(machine).name != _PAIRS:
            return f"{machine.name} has exact products of bytes or no {_INSTRUCTION}"
        if workload.types.weight != "int8":
            return f"it multiplies bytes, and weights are {workload.types.weight}"
        if workload.data_layout != "NCHWc":
            return "it reads channel-blocked input, not plain NCHW"
        if workload.groups > 1:
            return "it computes dense layers, not groups"
        return images_only(workload)

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class; blocks ``conv2d`` (reduction) and ``output``, ``widen`` for a copy.

        A read behind the last index of a dimension is one of the next row, block or tap.
        """
        from tvmconv.operators.products import dot, word
        from tvmconv.tvm_api import te, tirx

        w = flattened(workload)
        packed = self.packed_weight_shape(workload, machine, config)
        given = Operands.of(workload, machine, packed)
        copies = workload.has_padding
        source = copied(given, workload.types.data) if copies else given.data
        steps = copied_steps(w) if copies else (1, 1)
        down, right = w.stride_h // steps[0], w.stride_w // steps[1]
        width = copied_shape(w, machine)[3] if copies else w.in_width
        places, starts = self._tables(workload, machine, config)
        # no word has more excess than one
        step = te.reduce_axis((0, 2 * regular_steps(workload, machine)), "step")

        def multiply(n: Expr, kb: Expr, h: Expr, x: Expr, k: Expr) -> Expr:
            first, stop = (word(given.weight[starts, kb + i, 0]) for i in (0, 1))

            def present(value: Expr) -> Expr:
                return tirx.if_then_else(step < stop - first, value, tirx.const(0, "int32"))

            pixel = h * down * width + x * right
            place = present(word(given.weight[places, first + step, 0]))
            value = word(source[n, 0, 0, 0, pixel * machine.channel_block + place * WORD])
            product = dot(value, present(word(given.weight[first + step, k, 0])), _INSTRUCTION)
            return te.sum(product, axis=step)

        shape = output_shape(workload, machine)
        if w == workload:
            return given.arguments(given.output(self.reduction(shape, multiply)))
        rows = (*shape[:2], 1, shape[2] * shape[3], shape[4])
        total = self.reduction(rows, multiply)

        def finish(n: Expr, kb: Expr, h: Expr, x: Expr, k: Expr) -> Expr:
            place = (n, kb, x // workload.out_width, x % workload.out_width, k)
            return given.finished(total[n, kb, h, x, k], place)

        finished = te.compute(rows, finish, name="output")
        output = te.compute(
            shape,
            lambda n, kb, h, x, k: finished[n, kb, 0, h * workload.out_width + x, k],
            name="unflatten",
        )
        return given.arguments(output)

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(rows, k, 4)``: words of weights, one row a step, and two tables of ``int32``.

        The steps of an output block follow each other; blocks may have different numbers of them.
        The tables hold where each step reads, and the first step of each block and of one more.
        """
        _, starts = self._tables(workload, machine, config)
        lanes = machine.channel_block
        return (starts + -(-(machine.blocks(workload.out_channels) + 1) // lanes), lanes, WORD)

    @staticmethod
    def _tables(workload: Conv2dWorkload, machine: Machine, config: Config) -> tuple[int, int]:
        """Rows of the packed weight with which its two tables begin."""
        steps = regular_steps(workload, machine) + config.int("excess")
        rows = machine.blocks(workload.out_channels) * steps
        return rows, rows + -(-rows // machine.channel_block)

    def excess_held(self, config: Config) -> int | None:
        """The knob."""
        return config.int("excess")

    def suited(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> Config:
        """With as many steps as the weights need, if it has fewer."""
        needed = excess_steps(weight, machine.channel_block)
        return config.replace(excess=max(needed, config.int("excess")))

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """Split and re-order an OIHW weight; raises :class:`WorkloadError` for too much excess."""
        shape = self.packed_weight_shape(workload, machine, config)
        lanes, most = shape[1], config.int("excess")
        if (needed := excess_steps(weight, lanes)) > most:
            raise WorkloadError(
                f"{workload}: excess={most} steps are too few for weights that need {needed}"
            )
        places = self._places(workload, machine)
        given = words(weight, lanes, _channels(workload, machine))
        given = given.reshape(-1, len(places), lanes, WORD // 2, 2)
        rows, table, starts = [], [], [0]
        for safe, rest in zip(*split(given), strict=True):
            found = np.flatnonzero(rest.any(axis=(1, 2, 3)))
            rows += [safe, rest[found]]
            table += [places, places[found]]
            starts.append(starts[-1] + len(places) + len(found))
        packed = np.zeros(shape, np.int8)
        for row, values in (
            (0, np.concatenate(rows)),
            (self._tables(workload, machine, config)[0], np.concatenate(table)),
            (self._tables(workload, machine, config)[1], np.array(starts, np.int32)),
        ):
            flat = values.reshape(-1).view(np.int8)
            packed[row:].reshape(-1)[: len(flat)] = flat
        return packed  # type: ignore[return-value]

    @staticmethod
    def _places(workload: Conv2dWorkload, machine: Machine) -> np.ndarray:
        """Where each regular step reads, in words from an output's first pixel."""
        w, lanes = workload, machine.channel_block
        size = copied_shape(w, machine)[2:4] if w.has_padding else (w.in_height, w.in_width)
        row, column, channel = np.meshgrid(
            np.arange(w.kernel_h) * w.dilation_h,
            np.arange(w.kernel_w) * w.dilation_w,
            np.arange(0, _channels(w, machine), WORD),
            indexing="ij",
        )
        pixel = (channel // lanes * size[0] + row) * size[1] + column
        return ((pixel * lanes + channel % lanes) // WORD).ravel().astype(np.int32)

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """The copy of data with padding."""
        return int(np.prod(copied_shape(workload, machine))) if workload.has_padding else 0

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Padded channels and excess are multiplied, too."""
        steps = regular_steps(workload, machine) + config.int("excess")
        pixels = workload.out_planes * workload.out_height * workload.out_width
        outputs = machine.blocks(workload.out_channels) * machine.channel_block
        return pixels * outputs * steps * WORD

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """Integers have none."""
        return 0.0
