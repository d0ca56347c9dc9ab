"""Attention as one function, compared with float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.harness import HOST, each_machine, normal, run
from tvmconv.machines.record import Machine
from tvmconv.operators.attention import attention
from tvmconv.operators.attention_form import Attention, AttentionTile, Operand
from tvmconv.tir.annotations import TRANSPOSE

# heads, rows, depth, columns, width, tasks of a head; partial tiles, panels and squares
SIZES = [(2, 13, 20, 37, 19, 3), (3, 10, 16, 32, 32, 1), (1, 9, 7, 3, 5, 2)]
ZEROS = (0, 0, 0)


def form_of(heads: int, rows: int, depth: int, columns: int, width: int, transposed: bool):
    """An attention of tensors with heads in the middle, or of transposed keys and values."""
    key = Operand(1, (heads, depth, columns), (0, 1, 2) if transposed else (1, 2, 0), ZEROS)
    value = Operand(2, (heads, columns, width), (0, 2, 1) if transposed else (1, 0, 2), ZEROS)
    query = Operand(0, (heads, rows, depth), (1, 0, 2), ZEROS)
    biases = ((3, (heads, rows, columns)),)
    return Attention(query, key, value, (heads,), (heads,), 0.3, biases, (1, 0, 2))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("transposed", [False, True])
@each_machine
def test_attention(sizes: tuple[int, ...], transposed: bool, machine: Machine):
    heads, rows, depth, columns, width, parts = sizes
    q, k, v = (
        normal(rows, heads, depth),
        normal(columns, heads, depth),
        normal(columns, heads, width),
    )
    bias = normal(1, rows, columns)
    bias[:, :, 1::3] = -np.inf
    bias[:, 2] = -np.inf
    form = form_of(heads, rows, depth, columns, width, transposed)
    tile = AttentionTile(4, 2, 2, machine.lanes, parts)
    stored = [np.ascontiguousarray(x.transpose(1, 2, 0)) if transposed else x for x in (k, v)]

    def expression(*tensors):
        return attention(form, tile, *tensors, transposed=TRANSPOSE)

    y = run(expression, q, *stored, bias, machine=machine)
    scores = np.einsum("mhd,nhd->hmn", q.astype(np.float64) * 0.3, k) + bias
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("hmn,nhw->mhw", weights / weights.sum(-1, keepdims=True), v)
    # a row without columns is NaN, as in onnxruntime
    assert np.isnan(y[2]).all()
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=2e-6)


def test_infinite_scores():
    q, k, v = normal(8, 1, 4), normal(6, 1, 4), normal(6, 1, 4)
    bias = np.zeros((8, 6), np.float32)
    bias[1, 3], bias[2, 5], bias[3, 0] = np.inf, np.nan, 1e30
    form = form_of(1, 8, 4, 6, 4, False)
    tile = AttentionTile(4, 1, 1, HOST.lanes)
    y = run(lambda *t: attention(form, tile, *t, transposed=TRANSPOSE), q, k, v, bias, machine=HOST)
    assert np.isnan(y[1:3]).all() and np.isfinite(np.delete(y, [1, 2], axis=0)).all()
    np.testing.assert_allclose(y[3], v[0], rtol=1e-6)
