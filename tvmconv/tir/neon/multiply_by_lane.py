"""Scalars that multiply vectors, read as lanes of one vector."""

from __future__ import annotations

from math import prod
from typing import Any

from tvmconv.tir.general.rewrite import function_pass

_ELEMENT = "float32"


def MultiplyByLane(lanes: int) -> Any:
    """A pass that reads neighbouring scalars that are spread over vectors as one vector.

    Pattern: with vectors of ``n = lanes`` float32, a scalar spread over ``n`` lanes, read from a
    float32 buffer of a constant multiple of ``n`` elements at an index ``n * q + r`` with a
    constant ``r``.

    Rewrite: the vector at ``n * q`` is loaded and its lane ``r`` shuffled into all lanes.

    Why here: AArch64 multiplies a vector by one lane of another (``fmla v.4s, v.4s, v.s[r]``), so
    that one load serves the multiply-adds of ``n`` channels. LLVM emits that for a shuffle, but
    makes no vector load of scalar ones that stand apart. The remainder ``r`` is constant once the
    loop over the channels is unrolled and indices are simplified.
    """

    def rewrite(func: Any) -> Any:
        return _by_lane(func, lanes)

    return function_pass("neon.MultiplyByLane", rewrite)


def _by_lane(func: Any, count: int) -> Any:
    import tvm_ffi
    from tvm import ir, sym, tirx

    found, analyzer = False, sym.Analyzer()

    def look(broadcast: Any) -> Any:
        nonlocal found
        load = broadcast.value
        if not isinstance(load, ir.expr.TensorLoad) or not _fits(broadcast, load.source, count):
            return broadcast
        (index,) = load.indices
        known = analyzer.modular_set(index)
        if int(known.coeff) % count:
            return broadcast
        found = True
        lane, dtype = int(known.base) % count, str(index.ty.dtype)
        first = analyzer.simplify(index - tirx.IntImm(dtype, lane))
        place = tirx.Ramp(first, tirx.IntImm(dtype, 1), count)
        return tirx.Shuffle([tirx.BufferLoad(load.source, [place])], [lane] * count)

    body = tvm_ffi.structural_map(func.body, (tirx.Broadcast, look))
    return func.with_body(body) if found else func


def _fits(broadcast: Any, buffer: Any, lanes: int) -> bool:
    """Whether whole vectors of a flat buffer may be read wherever one of their elements may."""
    from tvm import tirx

    if str(buffer.dtype) != _ELEMENT or len(buffer.shape) != 1:
        return False
    if not all(isinstance(extent, tirx.IntImm) for extent in (*buffer.shape, broadcast.lanes)):
        return False
    # TVM shuffles into no more lanes than it reads
    return int(broadcast.lanes) == lanes and prod(int(e) for e in buffer.shape) % lanes == 0
