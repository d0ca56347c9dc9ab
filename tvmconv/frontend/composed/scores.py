"""Attention on heads: products, masks and softmax, which all attention operators share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmconv.core.stored_types import numpy_type
from tvmconv.frontend.composed.parts import Parts


@dataclass(frozen=True)
class Attention:
    """Results of :func:`attend`.

    ``stages`` are the scores, the scores after ``softcap``, with their bias, and after softmax.
    """

    y: str
    stages: tuple[str, str, str, str]


def attend(
    p: Parts,
    query: str,
    key: str,
    value: str,
    biases: list[str],
    *,
    scale: float,
    softcap: float = 0.0,
    zero_masked: bool = False,
    double: bool = False,
) -> Attention:
    """softmax(scale * query key' + biases) value, on tensors (batch, heads, rows, width).

    There may be fewer heads of keys and values: each serves adjacent heads of queries. Rows whose
    biases are all -inf become zeros if ``zero_masked``. Softmax computes in float64 if ``double``.
    """
    batch, heads, rows, width = p.expect_rank(query, 4)
    _, groups, columns, depth = p.expect_rank(key, 4)
    if groups < 1 or heads % groups:
        raise p.error(f"{groups} heads of keys do not divide {heads} heads of queries")
    p.expect_shape(key, (batch, groups, columns, width))
    p.expect_shape(value, (batch, groups, columns, p.expect_rank(value, 4)[3]))
    # each head of keys sees its queries as rows of one matrix
    stacked = (batch, groups, heads // groups * rows)
    whole = (batch, heads, rows)
    left = p.reshape(p.scaled(query, scale), (*stacked, depth))
    product = p.op("MatMul", left, p.transpose(key, 0, 1, 3, 2), main=True)
    raw = p.reshape(product, (*whole, columns))
    capped = p.scaled(p.op("Tanh", p.scaled(raw, 1 / softcap)), softcap) if softcap else raw
    bias = merged(p, biases)
    logits = p.op("Add", capped, bias) if bias else capped
    if p.shape(logits) != (*whole, columns):
        raise p.error(f"a mask of shape {p.shape(bias)} does not fit {(*whole, columns)}")
    dtype = p.dtype(logits)
    weights = p.cast(p.softmax(p.cast(logits, "float64") if double else logits), dtype)
    if bias and zero_masked:
        weights = _without_masked_rows(p, weights, bias)
    y = p.op("MatMul", p.reshape(weights, (*stacked, columns)), value)
    return Attention(p.reshape(y, (*whole, p.shape(y)[-1])), (raw, capped, logits, weights))


def merged(p: Parts, biases: list[str]) -> str:
    """The sum of masks; constant ones first, so that they are one constant."""
    known = sorted(biases, key=lambda name: p.array(name) is None)
    total = ""
    for name in known:
        total = p.op("Add", total, name) if total else name
    return total


def _without_masked_rows(p: Parts, weights: str, bias: str) -> str:
    values = p.array(bias)
    if values is not None and not np.isneginf(values.max(axis=-1, initial=-np.inf)).any():
        return weights
    top = p.reduced("ReduceMax", bias, len(p.shape(bias)) - 1)
    masked = p.op("Equal", top, p.scalar(-np.inf, bias))
    return p.op("Where", masked, p.scalar(0, weights), weights)


def frontier(
    p: Parts, size: tuple[int, int], offset: int, window: tuple[int, int], like: str,
    masked: float = -np.inf,
) -> str:  # fmt: skip
    """The constant bias with which row i reads column j from i + offset - left to ... + right.

    It is zero there, else ``masked``. ``size`` is rows and columns, ``window`` left and right; -1
    means unbounded.
    """
    rows, columns = size
    dtype = numpy_type(p.dtype(like))
    p.check_memory(rows * columns * (10 + dtype.itemsize))
    distance = np.arange(columns) - (np.arange(rows)[:, None] + offset)
    allowed = np.ones((rows, columns), bool)
    left, right = window
    if left >= 0:
        allowed &= distance >= -left
    if right >= 0:
        allowed &= distance <= right
    return p.constant(np.where(allowed, dtype.type(0), dtype.type(masked)))


def mask_bias(p: Parts, allowed: str, like: str, masked: float = -np.inf) -> str:
    """The bias of a mask of booleans."""
    return p.op("Where", allowed, p.scalar(0, like), p.scalar(masked, like))


def split_heads(p: Parts, x: str, heads: int) -> str:
    """(batch, rows, heads * width) as (batch, heads, rows, width)."""
    batch, rows, size = p.expect_rank(x, 3)
    if heads < 1 or size % heads:
        raise p.error(f"{heads} heads do not divide {size}")
    return p.transpose(p.reshape(x, (batch, rows, heads, size // heads)), 0, 2, 1, 3)


def join_heads(p: Parts, x: str) -> str:
    """The inverse of :func:`split_heads`."""
    batch, heads, rows, width = p.shape(x)
    return p.reshape(p.transpose(x, 0, 2, 1, 3), (batch, rows, heads * width))
