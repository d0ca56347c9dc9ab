"""RotaryEmbedding of ONNX's and of onnxruntime's operator set."""

from __future__ import annotations

import numpy as np

from tvmconv.core.stored_types import numpy_type
from tvmconv.frontend.composed.parts import Parts, composes
from tvmconv.frontend.composed.scores import join_heads, split_heads
from tvmconv.frontend.operators import MICROSOFT


def rotated(p: Parts, x: str, cosine: str, sine: str, *, interleaved: bool) -> str:
    """Pairs of the first channels of (batch, heads, rows, width) rotated by angles.

    ``cosine`` and ``sine`` have shape (batch or 1, 1, rows, pairs). Channels beyond the pairs stay.
    """
    batch, heads, rows, width = p.shape(x)
    pairs = p.shape(cosine)[-1]
    if not 1 <= pairs <= width // 2:
        raise p.error(f"it rotates {2 * pairs} of {width} channels")
    turned = p.slice(x, 3, 0, 2 * pairs)
    # the two numbers of a pair are along an axis of their own, so that neighbors stay vectors
    axis, pair, column, sign = (
        (4, (pairs, 2), (pairs, 1), (2,)) if interleaved else (3, (2, pairs), (1, pairs), (2, 1))
    )
    numbers = p.reshape(turned, (batch, heads, rows, *pair))
    cosine, sine = (p.reshape(t, (p.shape(t)[0], 1, rows, *column)) for t in (cosine, sine))
    signs = p.constant(np.array([-1, 1], numpy_type(p.dtype(sine))).reshape(sign))
    swapped = p.op("Mul", p.op("Mul", sine, signs), p.slice(numbers, axis, 1, -3, -1))
    y = p.op("Add", p.op("Mul", cosine, numbers), swapped)
    y = p.reshape(y, (batch, heads, rows, 2 * pairs))
    return y if 2 * pairs == width else p.concat(3, y, p.slice(x, 3, 2 * pairs, width))


def angles(p: Parts, table: str, places: str, batch: int, rows: int) -> str:
    """The rows of a table of (positions, pairs) at places, in the form of :func:`rotated`.

    ``places`` is a name of int64 of shape (batch, rows), or of shape (1,) for the first place, or
    empty for places from zero on.
    """
    count, pairs = p.expect_rank(table, 2)
    if not places:
        if count < rows:
            raise p.error(f"{table!r} has {count} rows, but {rows} are read")
        return p.reshape(p.slice(table, 0, 0, rows), (1, 1, rows, pairs))
    p.expect_integers(places)
    if p.shape(places) == (1,):
        places = p.op("Add", places, p.constant(np.arange(rows, dtype=p.dtype(places))))
        places = p.reshape(places, (1, rows))
    p.expect_shape(places, (batch, rows), (1, rows))
    found = p.op("Gather", table, places, axis=0)
    return p.reshape(found, (p.shape(places)[0], 1, rows, pairs))


@composes("", "RotaryEmbedding", attrs="interleaved num_heads rotary_embedding_dim", inputs=3)
def _rotary(p: Parts) -> str:
    x, cosine, sine, places = (p.node.input(index) for index in range(4))
    heads = _heads(p, x)
    batch, _, rows, width = p.shape(heads)
    pairs = int(p.node.attrs.get("rotary_embedding_dim", 0) or width) // 2
    tables = []
    for table in (cosine, sine):
        if places:
            p.expect_shape(places, (batch, rows))
            p.expect_shape(table, (p.shape(table)[0], pairs))
            tables.append(angles(p, table, places, batch, rows))
        else:
            p.expect_shape(table, (batch, rows, pairs))
            tables.append(p.reshape(table, (batch, 1, rows, pairs)))
    return _joined(p, x, heads, *tables)


@composes(
    MICROSOFT, "RotaryEmbedding", inputs=4,
    attrs="interleaved is_packed_batching num_heads rotary_embedding_dim scale",
)  # fmt: skip
def _rotary_microsoft(p: Parts) -> str:
    attrs = p.node.attrs
    if p.flag("is_packed_batching") or float(attrs.get("scale", 1.0)) != 1.0:
        raise p.error("is_packed_batching=1 and a scale are not supported")
    x, places, cosine, sine = p.node.inputs[:4]
    pairs = p.expect_rank(cosine, 2)[1]
    if len(p.shape(x)) == 3 and not attrs.get("rotary_embedding_dim", 0):
        # all channels of a head are rotated, so that the table tells the heads' size
        heads = split_heads(p, x, max(p.shape(x)[2] // max(2 * pairs, 1), 1))
    else:
        heads = _heads(p, x)
    batch, _, rows, _ = p.shape(heads)
    tables = [angles(p, table, places, batch, rows) for table in (cosine, sine)]
    return _joined(p, x, heads, *tables)


def _heads(p: Parts, x: str) -> str:
    if len(p.expect_rank(x, 3, 4)) == 4:
        return x
    return split_heads(p, x, p.heads("num_heads", p.shape(x)[2]))


def _joined(p: Parts, x: str, heads: str, cosine: str, sine: str) -> str:
    y = rotated(p, heads, cosine, sine, interleaved=p.flag("interleaved"))
    return join_heads(p, y) if len(p.shape(x)) == 3 else y
