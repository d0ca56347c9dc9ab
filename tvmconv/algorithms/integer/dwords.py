"""How integer layers read data and weights: as packed dwords of the multiply instruction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tvmconv.algorithms.multiply import multiply_of
from tvmconv.algorithms.operands import DWORD_BYTES, Operands
from tvmconv.algorithms.padding import inside_image
from tvmconv.core.datatypes import itemsize
from tvmconv.core.errors import WorkloadError
from tvmconv.core.tensor import Array
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.multiply import Multiply, multiply_of_bytes
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Index, Tensor

# name of the block that widens data
WIDEN = "widen"


def dword_size(workload: Conv2dWorkload, machine: Machine) -> int:
    """Channels of one reduction step: 1 for floating-point types."""
    return multiply_of(workload, machine).width


def channels_read(workload: Conv2dWorkload, machine: Machine) -> int:
    """Channels of a block that a reduction reads: whole dwords, one block at most."""
    size = dword_size(workload, machine)
    return -(-min(block_read(workload, machine), workload.in_channels) // size) * size


def block_read(workload: Conv2dWorkload, machine: Machine) -> int:
    """Channels of a block as a reduction reads it: the layout's block, or a longer dword group."""
    return max(machine.channel_block, dword_size(workload, machine))


def copied_shape(workload: Conv2dWorkload, machine: Machine) -> tuple[int, ...]:
    """Shape of a padded copy of the data, ``(N, C/c, H, W, c)``.

    The copy has the rows and columns that windows cover, and omits rows and columns that a stride
    skips (:func:`copied_steps`). ``N`` includes padding along the depth. One row is added if the
    lines of all blocks would map to one or two sets of L1. Without it, 3x3 with 256 channels of
    14x14 took 1.07 times as long.
    """
    w = workload
    down, right = copied_steps(w)
    height = ((w.out_height - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h) // down + 1
    width = ((w.out_width - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w) // right + 1
    depth = (w.out_depth - 1) * w.stride_d + (w.kernel_d - 1) * w.dilation_d + 1
    block = block_read(w, machine)
    channels = -(-w.in_channels // block), block
    if w.pad_bottom and height * width * block % (machine.l1d_way_bytes // 2) == 0:
        height += 1
    return (w.batch * depth, channels[0], height, width, channels[1])


def widened_shape(workload: Conv2dWorkload, machine: Machine) -> tuple[int, ...] | None:
    """Shape of the copy of 8-bit data as 16-bit integers, or in blocks of longer dword groups.

    None if the CPU multiplies the data as stored. A widening load for every broadcast dword took
    twice as long as the multiplications that use it.
    """
    multiply = multiply_of(workload, machine)
    if multiply.element == workload.types.data and multiply.width <= machine.channel_block:
        return None
    return copied_shape(workload, machine)


def copied_steps(workload: Conv2dWorkload) -> tuple[int, int]:
    """Strides of the rows and columns in the copy; windows of size 1 skip some."""
    w = workload
    return w.stride_h if w.kernel_h == 1 else 1, w.stride_w if w.kernel_w == 1 else 1


def is_negated(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether the widened copy is negated, for subtraction (``negative_dot``)."""
    return multiply_of(workload, machine).is_negated


def widened_bytes(workload: Conv2dWorkload, machine: Machine) -> int:
    """Bytes of the widened copy; 0 without one."""
    shape = widened_shape(workload, machine)
    return itemsize(multiply_of(workload, machine).element) * prod(shape) if shape else 0


def widened(given: Operands) -> Tensor | None:
    """Block ``widen``, the copy of :func:`widened_shape`; None without one."""
    if widened_shape(given.workload, given.machine) is None:
        return None
    if block_read(given.workload, given.machine) > given.machine.channel_block:
        return joined_dwords(given)
    return copied(given, "int16", is_negated(given.workload, given.machine))


def copied(given: Operands, dtype: str, negated: bool = False) -> Tensor:
    """Block ``widen``, the copy of :func:`copied_shape` with padding, negated if required."""
    zero = None if given.zero is None else given.zero[0]

    def read(plane: Expr, cb: Expr, row: Expr, column: Expr, c: Expr) -> Expr:
        return given.data[plane, cb, row, column, c]

    def finish(value: Expr) -> Expr:
        return -value.astype(dtype) if negated else value.astype(dtype)

    return _copy(given, copied_shape(given.workload, given.machine), read, zero, finish)


def joined_dwords(given: Operands) -> Tensor:
    """Block ``widen``, the copy of :func:`copied_shape` with the dwords of two blocks adjacent.

    Its items are int32 dwords, two along the last axis. If channels end with the first dword, the
    second one repeats another, and packed weights are zero there.
    """
    from tvmconv.operators.products import word

    *outer, channels = copied_shape(given.workload, given.machine)
    dwords = channels // DWORD_BYTES
    last = given.machine.blocks(given.workload.in_channels) - 1

    def read(plane: Expr, cb: Expr, row: Expr, column: Expr, i: Expr) -> Expr:
        from tvmconv.tvm_api import tirx

        block = cb * dwords + i
        block = tirx.min(block, last) if (last + 1) % dwords else block
        return word(given.data[plane, block, row, column, 0])

    zero = None if given.zero is None else word(given.zero[0])
    return _copy(given, (*outer, dwords), read, zero)


def _copy(
    given: Operands,
    shape: tuple[int, ...],
    read: Callable[..., Expr],
    zero: Expr | None,
    finish: Callable[[Expr], Expr] = lambda value: value,
) -> Tensor:
    """Block ``widen``: the result of ``read`` at each index, or ``zero`` in the padding."""
    from tvmconv.tvm_api import te

    w = given.workload
    depth = shape[0] // w.batch
    down, right = copied_steps(w)

    def value(n: Expr, cb: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        row, column = y * down - w.pad_top, x * right - w.pad_left
        plane, tests = n, []
        if w.is_volume:
            tap = n % depth - w.pad_front
            tests = [tap >= 0, tap < w.in_depth] if w.pad_front or w.pad_back else []
            plane = n // depth * w.in_depth + tap
        found = read(plane, cb, row, column, c)
        return finish(inside_image(found, row, column, w, tests, zero))

    return te.compute(shape, value, name=WIDEN)


@dataclass(frozen=True)
class Factors:
    """Reads the two factors of a reduction step, as floating-point values or as dwords.

    For integer types, the last axis of a packed weight has the elements of a dword.
    """

    given: Operands

    @property
    def _multiply(self) -> Multiply:
        return multiply_of(self.given.workload, self.given.machine)

    def value(self, tensor: Tensor, place: tuple[Index, ...], moved: bool = False) -> Expr:
        """The value of step ``place[-1]`` of a position, in the data or a copy of it.

        ``moved`` marks copies whose loops a schedule moves to their reader.
        """
        if not self._multiply.is_packed:
            return tensor[place]
        *outer, step = place
        # joined dwords are two items of a copy
        items = self._multiply.width // (DWORD_BYTES if str(tensor.dtype) == "int32" else 1)
        return self._read(tensor, (*outer, step * items), moved)

    def word(self, tensor: Tensor, place: tuple[Index, ...]) -> Expr:
        """The integer dword that begins at an index."""
        return self._read(tensor, place)

    def weight(self, *place: Index) -> Expr:
        """The packed weight at an index without the axis of a dword."""
        weight = self.given.weight
        if not self._multiply.is_packed:
            return weight[place]
        moved = str(weight.dtype) != self.given.workload.types.weight
        return self._read(weight, (*place, 0), moved)

    @property
    def zero(self) -> Expr | None:
        """The value of padding; None for zero."""
        zero = self.given.zero
        return None if zero is None else self._read(zero, (0,))

    def product(self, value: Expr, weight: Expr) -> Expr:
        """The product that a step adds to an accumulator."""
        from tvmconv.operators.products import dot, negative_dot

        if not self._multiply.is_packed:
            return self.given.product(value, weight)
        negated = is_negated(self.given.workload, self.given.machine)
        return (negative_dot if negated else dot)(value, weight, self._multiply.name)

    def packed_product(self, values: Sequence[Expr], *place: Index) -> Expr:
        """The product of a dword that packs unsigned values, the first in the low bits.

        If products are subtracted (:func:`is_negated`), the weight must be negated.
        """
        from tvmconv.operators.products import side_by_side

        return self.product(side_by_side(values, self._multiply.width), self.weight(*place))

    def _read(self, tensor: Tensor, place: tuple[Index, ...], moved: bool = False) -> Expr:
        from tvmconv.operators.products import pair, word

        widens = itemsize(str(tensor.dtype)) < itemsize(self._multiply.element)
        if widens:
            return pair(tensor[place])
        *outer, first = place
        others = range(1, self._multiply.width) if moved else ()
        return word(tensor[place], *(tensor[(*outer, first + i)] for i in others))


def has_colliding_weights(weight: Array, groups: int, machine: Machine) -> bool:
    """Whether the machine's INT8 products would overflow for int8 weights (K, C/g, ...).

    ``smull`` adds two products in 16 bits, for channels 0 and 2, and for 1 and 3, of a block. In
    depthwise layers it adds the products of two taps. The sum of two INT8 products is at most
    2 * 128 * 128 = 2**15, and at least -2 * 128 * 127. Only -128 by -128 twice reaches the maximum,
    which overflows. One weight of -128 with any other weight is exact.
    """
    if not multiply_of_bytes(machine).adds_pairs:
        return False
    lowest = weight == np.iinfo(np.int8).min
    if groups == len(weight) > 1 == weight.shape[1]:
        # taps of one channel
        return bool((lowest.reshape(groups, -1).sum(axis=1) > 1).any())
    if groups > 1:
        # blocks begin at different channels in each group
        return bool((lowest.sum(axis=1) > 1).any())
    padded = np.zeros((len(weight), -(-weight.shape[1] // 4) * 4, *weight.shape[2:]), bool)
    padded[:, : weight.shape[1]] = lowest
    pairs = padded.reshape(len(weight), -1, 2, 2, *weight.shape[2:])
    return bool(pairs.all(axis=2).any())


def arranged(packed: Array, workload: Conv2dWorkload, machine: Machine) -> Array:
    """Packed dwords (..., outputs of a block, elements of a dword) in the instruction's order.

    For ``smull`` the first two elements of all dwords of a block come before the last two. Raises
    :class:`WorkloadError` if the instruction is not exact for these weights.
    """
    if not multiply_of(workload, machine).adds_pairs:
        return packed
    pairs = packed.reshape(*packed.shape[:-1], 2, 2)
    if (pairs == np.iinfo(np.int8).min).all(axis=-2).any():
        raise WorkloadError(
            f"weights of {workload} overflow 16 bits: channels 0 and 2, or 1 and 3, of a block of "
            "4 are both -128. Expected at most one of them. Use int16 weights."
        )
    return np.ascontiguousarray(np.moveaxis(pairs, -2, -3)).reshape(packed.shape)
