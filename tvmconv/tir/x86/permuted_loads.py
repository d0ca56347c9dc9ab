"""Neighboring elements that a vector reads in another order: one load and one permutation."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tvm import ir, sym, tirx

from tvmconv.tir.general.rewrite import function_pass, map_nodes

# a scalar expression (None for zero), and the constant that each lane adds to it
_Places = tuple[Any, list[int]]

_SUMS: dict[Any, Callable[[Any, Any], Any]] = {tirx.Add: operator.add, tirx.Sub: operator.sub}
_CONSTANTS: dict[Any, Callable[[int, int], int]] = {
    tirx.Mul: operator.mul,
    tirx.FloorDiv: operator.floordiv,
    tirx.FloorMod: operator.mod,
}


def PermutedLoads() -> Any:
    """A pass that loads a group of elements once and permutes the lanes of the vector.

    Pattern: a vector of elements at ``base + offsets`` with constant offsets that do not follow
    each other. They are in one aligned group of at most as many elements as the vector has lanes.
    The buffer consists of whole groups.

    Rewrite: the group is loaded as a vector, whose lanes are shuffled.

    Why here: the offsets are constants after loops are unrolled. LLVM would load each element by
    itself. A shuffle of one vector is one ``vpermps``.
    """
    return function_pass("x86.PermutedLoads", _permuted)


def _permuted(func: Any) -> Any:
    analyzer = sym.Analyzer()

    def look(load: Any) -> Any:
        if len(load.indices) != 1 or isinstance(load.indices[0], tirx.Ramp):
            return load
        index = load.indices[0]
        lanes = int(index.ty.dtype.lanes)
        places = _places(index) if lanes > 1 else None
        if places is None or places[0] is None:
            return load
        base, offsets = places
        lowest = min(offsets)
        group = 1 << (max(offsets) - lowest).bit_length()
        known = analyzer.modular_set(base)
        if group > lanes or lanes % group or int(known.coeff) % group:
            return load
        (length,) = load.source.shape
        if not isinstance(length, tirx.IntImm) or int(length) % group:
            return load
        lane = (int(known.base) + lowest) % group
        if lane + max(offsets) - lowest >= group:
            return load
        integer = str(index.ty.dtype).partition("x")[0]
        first = analyzer.simplify(base + tirx.IntImm(integer, lowest - lane))
        place = tirx.Ramp(first, tirx.IntImm(integer, 1), group) if group > 1 else first
        order = [lane + offset - lowest for offset in offsets]
        # TVM's shuffles have as many lanes as the vectors that they read
        parts = [tirx.BufferLoad(load.source, [place])] * (lanes // group)
        return tirx.Shuffle(parts, order)

    return map_nodes(func, (ir.expr.TensorLoad, look))


def _places(index: Any) -> _Places | None:
    """An index of a vector as a scalar and constants; None if it has another form."""
    if isinstance(index, tirx.Broadcast):
        value, lanes = index.value, int(index.lanes)
        if isinstance(value, tirx.IntImm):
            return None, [int(value)] * lanes
        return value, [0] * lanes
    if isinstance(index, tirx.Ramp):
        if not isinstance(index.stride, tirx.IntImm):
            return None
        steps = [int(index.stride) * lane for lane in range(int(index.lanes))]
        if isinstance(index.base, tirx.IntImm):
            return None, [int(index.base) + step for step in steps]
        return index.base, steps
    kind = type(index)
    if kind not in _SUMS and kind not in _CONSTANTS:
        return None
    first, second = _places(index.a), _places(index.b)
    if first is None or second is None:
        return None
    pairs = list(zip(first[1], second[1], strict=True))
    if kind in _SUMS:
        combine = _SUMS[kind]
        scalar = first[0] if second[0] is None else second[0]
        if second[0] is not None and (first[0] is not None or kind is tirx.Sub):
            scalar = combine(0 if first[0] is None else first[0], second[0])
        return scalar, [combine(a, b) for a, b in pairs]
    if first[0] is not None or second[0] is not None or (kind is not tirx.Mul and 0 in second[1]):
        return None
    return None, [_CONSTANTS[kind](a, b) for a, b in pairs]
