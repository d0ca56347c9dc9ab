"""TfIdfVectorizer of integers: windows are compared with the n-grams of the pool."""

from __future__ import annotations

import numpy as np

from tvmconv.frontend.composed.parts import Parts, composes

_MODES = ("TF", "IDF", "TFIDF")


@composes(
    "", "TfIdfVectorizer",
    attrs="max_gram_length max_skip_count min_gram_length mode ngram_counts ngram_indexes "
    "pool_int64s pool_strings weights",
)  # fmt: skip
def _tfidf(p: Parts) -> str:
    """How often each n-gram of the pool occurs, in the columns that the attributes tell."""
    attrs = p.node.attrs
    if attrs.get("pool_strings", ()) or p.dtype(p.node.inputs[0]) not in ("int32", "int64"):
        raise p.error("strings are not supported", "do this step outside the model")
    pool, starts, columns = (
        np.asarray(p.node.ints(name, ()), np.int64)
        for name in ("pool_int64s", "ngram_counts", "ngram_indexes")
    )
    low, high, skips = (
        int(attrs.get(name, 0)) for name in ("min_gram_length", "max_gram_length", "max_skip_count")
    )
    mode = attrs.get("mode", "")
    if mode not in _MODES or not 1 <= low <= high or skips < 0 or not len(columns):
        raise p.error(f"mode={mode!r}, gram lengths {low} to {high} and {skips} skips do not fit")
    x, shape = p.node.inputs[0], p.expect_rank(p.node.inputs[0], 1, 2)
    rows = p.reshape(x, (1, *shape)) if len(shape) == 1 else x
    ends = [*starts[1:].tolist(), len(pool)]
    counts = []
    for length, (start, end) in enumerate(zip(starts.tolist(), ends, strict=True), 1):
        if not 0 <= start <= end or (end - start) % length:
            raise p.error(f"ngram_counts={starts.tolist()} do not fit {len(pool)} entries")
        grams = pool[start:end].reshape(-1, length)
        if len(grams):
            used = low <= length <= high
            counts.append(_counts(p, rows, grams, skips if length > 1 else 0, used=used))
    found = p.concat(1, *counts) if counts else ""
    if not found or p.shape(found)[1] != len(columns) or columns.min() < 0:
        raise p.error(f"ngram_indexes has {len(columns)} values, which do not fit the pool")
    y = _weighted(p, found, mode, len(columns))
    width = int(columns.max()) + 1
    order = np.full(width, len(columns))
    order[columns] = np.arange(len(columns))
    if (order == len(columns)).any():
        # columns of no n-gram are zero
        y = p.concat(1, y, p.constant(np.zeros((p.shape(y)[0], 1), np.float32)))
    y = p.op("Gather", y, p.constant(order), axis=1)
    return p.reshape(y, (width,)) if len(shape) == 1 else y


def _counts(p: Parts, rows: str, grams: np.ndarray, skips: int, *, used: bool) -> str:
    """The numbers of occurrences of n-grams of one length, whose items may be apart."""
    batch, size = p.shape(rows)
    length = grams.shape[1]
    totals = ""
    for step in range(1, skips + 2):
        places = size - (length - 1) * step
        if places < 1 or not used:
            break
        match = ""
        for index in range(length):
            item = p.slice(rows, 1, index * step, index * step + places)
            values = p.constant(grams[:, index].astype(p.dtype(rows)).reshape(1, 1, -1))
            same = p.op("Equal", p.reshape(item, (batch, places, 1)), values)
            match = p.op("And", match, same) if match else same
        count = p.reduced("ReduceSum", p.cast(match, "float32"), 1, keepdims=0)
        totals = p.op("Add", totals, count) if totals else count
    return totals or p.constant(np.zeros((batch, len(grams)), np.float32))


def _weighted(p: Parts, counts: str, mode: str, size: int) -> str:
    if mode == "TF":
        return counts
    weights = np.asarray(p.node.attrs.get("weights", ()) or np.ones(size), np.float32)
    if weights.shape != (size,):
        raise p.error(f"{len(weights)} weights do not fit {size} n-grams")
    if mode == "IDF":
        one = p.constant(np.ones((), np.float32))
        counts = p.op("Min", counts, one)
    return p.op("Mul", counts, p.constant(weights))
