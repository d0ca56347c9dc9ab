"""How integer layers read data and weights: as words of as many elements as a product takes."""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.algorithms.operands import Operands
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.dot import DotProduct, dot_of_bytes, dot_of_shorts
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Index, Tensor


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
        from tvmconv.operators.products import dot

        if self._dot is None:
            return self.given.product(value, weight)
        return dot(value, weight, self._dot.name)

    def _read(self, tensor: Tensor, place: tuple[Index, ...]) -> Expr:
        from tvmconv.operators.products import pair, word

        assert self._dot is not None
        widens = itemsize(str(tensor.dtype)) < itemsize(self._dot.element)
        return (pair if widens else word)(tensor[place])
