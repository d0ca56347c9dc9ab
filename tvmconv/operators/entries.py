"""Entries of a sort: elements with their positions, as one number or as the position alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvmconv.tvm_api import tirx

_NAN = 0x7FC00000
_SIGN = 0x80000000
_ALL = 0xFFFFFFFF
_WIDE = ("float64", "int64", "uint64")


@dataclass(frozen=True)
class Entries:
    """Entries of one row.

    ``dtype`` is the type of an entry, and ``lowest`` an entry that comes after all others. ``make``
    gives the entry of an element, and ``position`` the other way round. ``before`` is whether an
    entry comes before another one. For equal elements, neither or the first does. ``order`` gives a
    position's 32-bit number; entries with higher numbers come first. It is None if elements have 64
    bits.
    """

    dtype: str
    lowest: Any
    make: Callable[[Any], Any]
    position: Callable[[Any], Any]
    before: Callable[[Any, Any], Any]
    order: Callable[[Any], Any] | None = None

    def limit(self, last: Any) -> Any:
        """The number that :attr:`order` must exceed to come before an entry."""
        order = tirx.Cast("int64", last // tirx.const(1 << 32, "uint64"))
        return tirx.Select(last == self.lowest, tirx.const(-1, "int64"), order)

    def merged(self, sides: tuple[Any, Any], rest: tuple[Any, Any]) -> tuple[Any, Any]:
        """Whether the next entry of two runs is the right one's, as a number, and the entry.

        Numbers need no branch, which would be predicted wrong every other time. ``sides`` are the
        first entries of the runs, and ``rest`` whether they exist.
        """
        if self.order is None:
            (left, right), (has_left, has_right) = sides, rest
            takes = tirx.all(has_right, tirx.any(tirx.Not(has_left), self.before(right, left)))
            return tirx.Cast("int32", takes), tirx.Select(takes, right, left)
        left, right = (
            tirx.bitwise_and(side, tirx.reinterpret("uint64", -tirx.Cast("int64", has)))
            for side, has in zip(sides, rest, strict=True)
        )
        return tirx.Cast("int32", right > left), tirx.max(left, right)

    def shifted(self, above: Any, here: Any, new: Any) -> Any:
        """The entry at a place after an insertion, from the entries ``here`` and ``above``."""
        if self.order is not None:
            return tirx.max(here, tirx.min(above, new))
        at_or_below = tirx.Select(self.before(new, here), new, here)
        return tirx.Select(self.before(new, above), above, at_or_below)


def entries_of(element: Callable[[Any], Any], size: int, dtype: Any, largest: bool) -> Entries:
    """Entries for the elements of a row, which ``element`` gives by position."""
    dtype = str(dtype)
    if dtype in _WIDE:
        return _positions(element, size, dtype, largest)
    return _numbers(element, dtype, largest)


def number_entry(value: Any, position: Any, dtype: str = "float32") -> Any:
    """One number for an element: larger for larger elements, then for smaller positions."""
    high = tirx.Cast("uint64", _ordered(value, dtype)) * tirx.const(1 << 32, "uint64")
    return high + (tirx.const(_ALL, "uint64") - tirx.Cast("uint64", position))


def position_of(entry: Any) -> Any:
    """The position in a number of :func:`number_entry`."""
    return tirx.Cast("int32", tirx.const(_ALL, "uint32") - tirx.Cast("uint32", entry))


def _numbers(element: Callable[[Any], Any], dtype: str, largest: bool) -> Entries:
    """The order of an element above the complement of its position: all entries differ."""

    def order(position: Any) -> Any:
        number = _ordered(element(position), dtype)
        return number if largest else tirx.const(_ALL, "uint32") - number

    def make(position: Any) -> Any:
        high = tirx.Cast("uint64", order(position)) * tirx.const(1 << 32, "uint64")
        return high + (tirx.const(_ALL, "uint64") - tirx.Cast("uint64", position))

    lowest = tirx.const(0, "uint64")
    return Entries("uint64", lowest, make, position_of, lambda a, b: a > b, order)


def _ordered(value: Any, dtype: str) -> Any:
    """A number of 32 bits in the order of the elements; NaN is the largest, zeros are equal."""
    sign = tirx.const(_SIGN, "uint32")
    if dtype.startswith("uint") or dtype == "bool":
        return tirx.Cast("uint32", value)
    if dtype.startswith("int"):
        return tirx.reinterpret("uint32", tirx.Cast("int32", value)) + sign
    value = value if dtype == "float32" else tirx.Cast("float32", value)
    bits = tirx.reinterpret("uint32", value)
    bits = tirx.Select(value == tirx.const(0.0, "float32"), tirx.const(0, "uint32"), bits)
    bits = tirx.Select(value != value, tirx.const(_NAN, "uint32"), bits)
    return tirx.Select(bits >= sign, tirx.const(_ALL, "uint32") - bits, bits + sign)


def _positions(element: Callable[[Any], Any], size: int, dtype: str, largest: bool) -> Entries:
    """Positions, whose elements are compared; -1 comes after all."""

    def before(left: Any, right: Any) -> Any:
        # buffers may hold anything where no entry is
        mine, other = (element(tirx.min(tirx.max(e, 0), size - 1)) for e in (left, right))
        ahead = goes_before(mine, other, dtype, largest)
        return tirx.all(left >= 0, tirx.any(right < 0, ahead))

    lowest = tirx.const(-1, "int32")
    return Entries("int32", lowest, lambda p: tirx.Cast("int32", p), lambda e: e, before)


def goes_before(left: Any, right: Any, dtype: Any, largest: bool) -> Any:
    """Whether an element comes before another one that differs from it; NaN counts as largest."""
    ordered = left > right if largest else left < right
    if not str(dtype).startswith(("float", "bfloat")):
        return ordered
    first, second = (left, right) if largest else (right, left)
    return tirx.any(ordered, tirx.all(tirx.isnan(first), tirx.Not(tirx.isnan(second))))
