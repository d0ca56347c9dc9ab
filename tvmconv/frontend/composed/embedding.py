"""EmbedLayerNormalization: the sum of embeddings, normalized."""

from __future__ import annotations

import numpy as np

from tvmconv.frontend.composed.normalization import layer_norm
from tvmconv.frontend.composed.parts import Parts, composes
from tvmconv.frontend.operators import MICROSOFT


@composes(
    MICROSOFT, "EmbedLayerNormalization", attrs="epsilon mask_index_type", types="int32 int64"
)
def _embed(p: Parts) -> list[str]:
    """The normalized embeddings, the number of entries of each row of the mask, and the sum."""
    ids, segments, words, positions, kinds, scale, shift, mask, places = (
        p.node.input(index) for index in range(9)
    )
    if not (words and positions and scale and shift) or bool(segments) != bool(kinds):
        raise p.error(f"its inputs {list(p.node.inputs)} are not complete")
    batch, length = p.expect_rank(ids, 2)
    width = p.expect_rank(words, 2)[1]
    total = p.op("Gather", words, ids, axis=0)
    if places:
        p.expect_shape(places, (batch, length), (1, length))
        place = p.op("Gather", positions, places, axis=0)
    else:
        if p.expect_rank(positions, 2)[0] < length:
            raise p.error(f"{positions!r} has {p.shape(positions)[0]} rows, but {length} are read")
        place = p.slice(positions, 0, 0, length)
    total = p.op("Add", total, place)
    if segments:
        p.expect_shape(segments, (batch, length))
        total = p.op("Add", total, p.op("Gather", kinds, segments, axis=0))
    p.expect_shape(scale, (width,))
    p.expect_shape(shift, (width,))
    y = layer_norm(p, total, scale, shift, (2,), float(p.node.attrs.get("epsilon", 1e-12)))[0]
    return [y, _entries(p, mask, batch) if p.wants(1) else "", total]


def _entries(p: Parts, mask: str, batch: int) -> str:
    if not mask or int(p.node.attrs.get("mask_index_type", 1)) == 0:
        return p.constant(np.zeros(batch, np.int32))
    p.expect_rank(mask, 2)
    p.expect_integers(mask)
    ones = p.cast(p.op("Equal", mask, p.constant(np.ones((), p.dtype(mask)))), "int32")
    return p.reduced("ReduceSum", ones, 1, keepdims=0)
