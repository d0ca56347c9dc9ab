"""Elements that a vector reads at a constant distance: whole vectors, and permutations."""

from __future__ import annotations

from typing import Any

from tvm import ir, sym, tirx

from tvmconv.tir.general.picked_lanes import picked_lanes, window_of, windows
from tvmconv.tir.general.rewrite import function_pass, map_nodes

# distances of neighbors. Longer ones use few elements of a vector
LONGEST = 8


def StridedLoads() -> Any:
    """A pass that loads neighbors and permutes them where a vector reads every n-th element.

    Pattern: a vector load of elements at a constant distance of 2 to 8, or -8 to -1. The vector has
    more than two elements for each vector that is read.

    Rewrite: all elements between the first and the last one are loaded as vectors, of which the
    last overlaps the previous one. Each further vector takes one shuffle.

    Why here: the ramps are final after VectorizeLoop. LLVM would load each element by itself, and
    insert it.
    """
    return function_pass("x86.StridedLoads", _strided)


def _strided(func: Any) -> Any:
    analyzer = sym.Analyzer()

    def look(load: Any) -> Any:
        index = load.indices[0] if len(load.indices) == 1 else None
        if not isinstance(index, tirx.Ramp) or not isinstance(index.stride, tirx.IntImm):
            return load
        stride, lanes = int(index.stride), int(index.lanes)
        if stride in (0, 1) or abs(stride) > LONGEST or lanes & (lanes - 1):
            return load
        if 2 * abs(stride) > lanes or str(load.source.dtype) == "bool":
            return load
        places = [stride * lane for lane in range(lanes)]
        low, count = min(places), abs(stride) * (lanes - 1) + 1
        kind, starts = str(index.base.ty.dtype), windows(count, lanes)
        loaded = []
        for start in starts:
            first = analyzer.simplify(index.base + tirx.IntImm(kind, low + start))
            place = tirx.Ramp(first, tirx.IntImm(kind, 1), lanes)
            loaded.append(tirx.BufferLoad(load.source, [place]))
        return picked_lanes(loaded, [window_of(place - low, starts) for place in places])

    return map_nodes(func, (ir.expr.TensorLoad, look))
