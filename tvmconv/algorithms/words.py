"""How integer layers read data and weights: as words of as many elements as a product takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvmconv.algorithms.operands import Operands
from tvmconv.algorithms.padding import inside_image
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.dot import DotProduct, dot_of_bytes, dot_of_shorts
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Index, Tensor

# name of the block that widens data
WIDEN = "widen"


def dot_of(workload: Conv2dWorkload, machine: Machine) -> DotProduct:
    """The instruction that multiplies an integer workload's data by its weights."""
    small = workload.types.weight == "int8"
    return dot_of_bytes(machine) if small else dot_of_shorts(machine)


def word_size(workload: Conv2dWorkload, machine: Machine) -> int:
    """Channels of one step of a reduction: 1 of floating types."""
    return dot_of(workload, machine).width if workload.types.is_integer else 1


def channels_read(workload: Conv2dWorkload, machine: Machine) -> int:
    """Channels of a block that a reduction reads: whole words, one block at most."""
    size = word_size(workload, machine)
    return -(-min(machine.channel_block, workload.in_channels) // size) * size


def widened_shape(workload: Conv2dWorkload, machine: Machine) -> tuple[int, ...] | None:
    """Shape of the copy of 8-bit data as 16-bit integers, padding included.

    ``(N, C/c, H, W, c)`` of the rows and columns that windows cover; ``N`` counts padding along the
    depth, too. None where the processor multiplies the data as it is. A widening load for every
    broadcast word took twice as long as the multiplications that it feeds.
    """
    w = workload
    if not w.types.is_integer or dot_of(w, machine).element == w.types.data:
        return None
    height = (w.out_height - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1
    width = (w.out_width - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w + 1
    depth = (w.out_depth - 1) * w.stride_d + (w.kernel_d - 1) * w.dilation_d + 1
    channels = machine.blocks(w.in_channels), machine.channel_block
    return (w.batch * depth, channels[0], height, width, channels[1])


def is_negated(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether that copy has the opposite sign, for differences (``negative_dot``)."""
    return dot_of(workload, machine).name == "vpmaddwd"


def widened_bytes(workload: Conv2dWorkload, machine: Machine) -> int:
    """Bytes of that copy; 0 without one."""
    shape = widened_shape(workload, machine)
    return 2 * prod(shape) if shape else 0


def widened(given: Operands) -> Tensor | None:
    """Block ``widen``, the copy of :func:`widened_shape`, in which padding has its value."""
    from tvmconv.tvm_api import te

    w, shape = given.workload, widened_shape(given.workload, given.machine)
    if shape is None:
        return None
    depth = shape[0] // w.batch

    def value(n: Expr, cb: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        row, column = y - w.pad_top, x - w.pad_left
        plane, tests = n, []
        if w.is_volume:
            tap = n % depth - w.pad_front
            tests = [tap >= 0, tap < w.in_depth] if w.pad_front or w.pad_back else []
            plane = n // depth * w.in_depth + tap
        zero = None if given.zero is None else given.zero[0]
        read = given.data[plane, cb, row, column, c]
        wide = inside_image(read, row, column, w, tests, zero).astype("int16")
        return -wide if is_negated(w, given.machine) else wide

    return te.compute(shape, value, name=WIDEN)


@dataclass(frozen=True)
class Factors:
    """Reads the two factors of a step of a reduction, of floating types or as words.

    Parameters
    ----------
    given
        The convolution's operands. Of integer types a packed weight has the elements of a word as
        its last axis.
    """

    given: Operands

    @property
    def _dot(self) -> DotProduct | None:
        workload = self.given.workload
        return dot_of(workload, self.given.machine) if workload.types.is_integer else None

    def value(self, tensor: Tensor, place: tuple[Index, ...]) -> Expr:
        """Step ``place[-1]`` of the channels of a pixel, in the data or a copy of it."""
        if self._dot is None:
            return tensor[place]
        *outer, step = place
        return self._read(tensor, (*outer, step * self._dot.width))

    def weight(self, *place: Index) -> Expr:
        """The packed weight at a place less the axis of a word."""
        weight = self.given.weight
        return weight[place] if self._dot is None else self._read(weight, (*place, 0))

    @property
    def zero(self) -> Expr | None:
        """What padding holds; None for zero itself."""
        zero = self.given.zero
        return None if zero is None else self._read(zero, (0,))

    def product(self, value: Expr, weight: Expr) -> Expr:
        """What a step adds to a sum."""
        from tvmconv.operators.products import dot, negative_dot

        if self._dot is None:
            return self.given.product(value, weight)
        negated = is_negated(self.given.workload, self.given.machine)
        return (negative_dot if negated else dot)(value, weight, self._dot.name)

    def packed_product(self, values: Sequence[Expr], *place: Index) -> Expr:
        """What a step adds whose word is made of unsigned values, the first in the low bits.

        Where products are subtracted (:func:`is_negated`) the weight has the opposite sign.
        """
        from tvmconv.operators.products import side_by_side

        assert self._dot is not None
        return self.product(side_by_side(values, self._dot.width), self.weight(*place))

    def _read(self, tensor: Tensor, place: tuple[Index, ...]) -> Expr:
        from tvmconv.operators.products import pair, word

        assert self._dot is not None
        widens = itemsize(str(tensor.dtype)) < itemsize(self._dot.element)
        return (pair if widens else word)(tensor[place])
