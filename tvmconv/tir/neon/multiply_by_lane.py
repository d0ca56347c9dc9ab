"""Loads broadcast scalars as lanes of one vector."""

from __future__ import annotations

from math import prod
from typing import Any

from tvm import ir, sym, tirx

from tvmconv.tir.general.rewrite import function_pass, map_nodes

_ELEMENT = "float32"


def MultiplyByLane(lanes: int) -> Any:
    """A pass that loads neighboring broadcast scalars as one vector.

    Pattern: a scalar broadcast to ``n = lanes`` lanes of FP32. It is loaded from an FP32 buffer
    whose size is a multiple of ``n``, at an index ``n * q + r`` with a constant ``r``.

    Rewrite: the vector at ``n * q`` is loaded and its lane ``r`` shuffled into all lanes.

    Why here: AArch64 multiplies a vector by one lane of another (``fmla v.4s, v.4s, v.s[r]``), so
    that one load serves the FMAs of ``n`` channels. LLVM emits this instruction for a shuffle, but
    does not merge separate scalar loads. The remainder ``r`` is constant once the loop over
    channels is unrolled and indices are simplified.
    """
    return function_pass("neon.MultiplyByLane", lambda func: _by_lane(func, lanes))


def _by_lane(func: Any, count: int) -> Any:
    analyzer = sym.Analyzer()

    def look(broadcast: Any) -> Any:
        load = broadcast.value
        if not isinstance(load, ir.expr.TensorLoad) or not _fits(broadcast, load.source, count):
            return broadcast
        (index,) = load.indices
        known = analyzer.modular_set(index)
        if int(known.coeff) % count:
            return broadcast
        lane, dtype = int(known.base) % count, str(index.ty.dtype)
        first = analyzer.simplify(index - tirx.IntImm(dtype, lane))
        place = tirx.Ramp(first, tirx.IntImm(dtype, 1), count)
        return tirx.Shuffle([tirx.BufferLoad(load.source, [place])], [lane] * count)

    return map_nodes(func, (tirx.Broadcast, look))


def _fits(broadcast: Any, buffer: Any, lanes: int) -> bool:
    """Whether a flat buffer consists of whole vectors, so that each can be loaded."""
    if str(buffer.dtype) != _ELEMENT or len(buffer.shape) != 1:
        return False
    if not all(isinstance(extent, tirx.IntImm) for extent in (*buffer.shape, broadcast.lanes)):
        return False
    # TVM's shuffles have as many lanes as the vector that they read
    return int(broadcast.lanes) == lanes and prod(int(e) for e in buffer.shape) % lanes == 0
