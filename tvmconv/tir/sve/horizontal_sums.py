"""Horizontal sums and maxima: accumulate scalable vectors, then reduce their segments.

A part of :func:`tvmconv.tir.sve.vectorize_pixels.VectorizePixels`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.general.rewrite import local_buffer, uses
from tvmconv.tir.general.stack_buffers import on_stack
from tvmconv.tir.sve.expressions import Pixels
from tvmconv.tir.sve.vectors import FLAGS, FLOATS, MOST_SEGMENTS, SEGMENT, intrinsic, length, number


def is_fold(loop: Any) -> bool:
    """Whether a loop only accumulates sums or maxima of four values."""
    return _parts(loop) is not None


def folded(loop: Any, groups: Sequence[Pixels], tiles: Callable[[Any], Any]) -> Any:
    """The statements for a loop of which :func:`is_fold` holds.

    Raises ``NoScalableForm`` if scalable vectors cannot compute the addend. ``groups`` are the
    vectors of a tile. ``tiles`` makes a loop over tiles from a body.
    """
    found = _parts(loop)
    assert found is not None
    operation, added = found
    store, sums, allocations = loop.body, [], []
    start = 0.0 if operation is tirx.Add else float(tirx.min_value("float32").value)
    for vector, group in enumerate(groups):
        partial = local_buffer((1,), FLOATS, f"partial_{vector}")
        allocations.append(on_stack(partial))
        first = tirx.Broadcast(tirx.FloatImm("float32", start), length())
        before = tirx.BufferStore(partial, first, [number(0)])
        old = tirx.BufferLoad(partial, [number(0)])
        new = tirx.Select(group.mask(), operation(old, group.value(added)), old)
        sums.append((before, tirx.BufferStore(partial, new, [number(0)]), old))
    total = sums[0][2]
    for _, _, other in sums[1:]:
        total = operation(total, other)
    kept = local_buffer((MOST_SEGMENTS * SEGMENT,), "float32", "partial_segments")
    whole = intrinsic(FLAGS, "ptrue", number(31))
    address = tirx.address_of(tirx.BufferLoad(kept, [number(0)]))
    segment, partial_of = _segment_of(kept)
    last = operation(tirx.BufferLoad(store.buffer, list(store.indices)), partial_of)
    return tirx.SeqStmt(
        [
            *allocations,
            on_stack(kept),
            *(before for before, _, _ in sums),
            tiles(tirx.stmt_seq(*[step for _, step, _ in sums])),
            tirx.Evaluate(
                tirx.call_llvm_intrin("void", "llvm.aarch64.sve.st1", total, whole, address)
            ),
            tirx.For(
                segment,
                number(0),
                tirx.vscale(),
                tirx.ForKind.SERIAL,
                tirx.BufferStore(store.buffer, last, list(store.indices)),
            ),
        ]
    )


def _segment_of(buffer: Any) -> tuple[Any, Any]:
    """A variable, and the segment of a buffer at that index."""
    segment = ir.Var("segment", number(0).ty)
    place = tirx.Ramp(segment * SEGMENT, number(1), SEGMENT)
    return segment, tirx.BufferLoad(buffer, [place])


def _parts(loop: Any) -> tuple[Any, Any] | None:
    """The operation of a reduction, and the value that each segment contributes."""
    store = loop.body
    if not isinstance(store, tirx.BufferStore) or uses(store.indices[0], loop.loop_var):
        return None
    value = store.value
    if not isinstance(value, tirx.Add | tirx.Max) or str(value.ty.dtype) != f"float32x{SEGMENT}":
        return None
    old = value.a
    same = isinstance(old, ir.expr.TensorLoad) and old.source.same_as(store.buffer)
    if not same or not tvm_ffi.structural_equal(old.indices, store.indices):
        return None
    return type(value), value.b
