"""Attention as one function, compared with float64 NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.operators.harness import HOST, MACHINES, each_machine, normal, run
from tvmconv.costs.cpu.attention import attention_tile
from tvmconv.machines.record import Machine
from tvmconv.operators.attention import attention
from tvmconv.operators.attention_form import Attention, AttentionTile, Operand, Step
from tvmconv.tir.annotations import TRANSPOSE

# heads, rows, depth, columns, width, tasks of a head; partial tiles, panels and squares
SIZES = [(2, 13, 20, 37, 19, 3), (3, 10, 16, 32, 32, 1), (1, 9, 7, 3, 5, 2)]


def form_of(heads: int, rows: int, depth: int, columns: int, width: int, transposed: bool):
    """An attention of tensors with heads in the middle, or of transposed keys and values."""

    def operand(number: int, rows: int, columns: int, last: bool) -> Operand:
        """A matrix whose columns are the last axis, or whose rows are."""
        size = heads * (columns if last else rows)
        if last:
            return Operand(number, ((heads, columns),), (rows, size), (columns, 1))
        return Operand(number, ((heads, rows),), (rows, 1), (columns, size))

    stored = ((heads, depth * columns),), ((heads, columns * width),)
    key, value = operand(1, depth, columns, False), operand(2, columns, width, True)
    if transposed:
        key = Operand(1, stored[0], (depth, columns), (columns, 1))
        value = Operand(2, stored[1], (columns, 1), (width, columns))
    before = (Step("add", (heads, rows, columns), (1, rows, columns), 3),)
    query = operand(0, rows, depth, True)
    return Attention(query, key, value, (heads,), 0.3, before, (), (1, 0, 2))


def computed(form: Attention, tile: AttentionTile, arrays, machine: Machine):
    """The result for arrays of any shapes."""

    def expression(*tensors):
        return attention(form, tile, *tensors, transposed=TRANSPOSE)

    return run(expression, *(array.reshape(-1) for array in arrays), machine=machine)


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
    stored = [x.transpose(1, 2, 0) if transposed else x for x in (k, v)]
    y = computed(form, tile, [q, *stored, bias], machine)
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
    y = computed(form, tile, [q, k, v, bias], HOST)
    assert np.isnan(y[1:3]).all() and np.isfinite(np.delete(y, [1, 2], axis=0)).all()
    np.testing.assert_allclose(y[3], v[0], rtol=1e-6)


@each_machine
def test_steps_on_scores_and_weights(machine: Machine):
    heads, rows, columns = 2, 9, 37
    q, k, v = (normal(n, heads, 8) for n in (rows, columns, columns))
    generator = np.random.default_rng(3)
    mask = generator.random((1, rows, columns)) > 0.3
    factor, fill = normal(heads, 1, 1), generator.random((heads, 1, columns)) > 0.7
    mask[:, 2], fill[1, 0] = False, False
    dims = (heads, rows, columns)
    keep = Step("keep", dims, mask.shape, 4, -np.inf)
    before = (
        Step("multiply", dims, factor.shape, 3),
        Step("add", dims, value=2.0),
        keep,
        Step("fill", dims, fill.shape, 5, -1e4),
    )
    after = (
        Step("fill_nan", dims, value=0.0),
        Step("keep", dims, mask.shape, 4, 0.5),
        Step("multiply", dims, value=2.0),
    )
    form = replace(form_of(heads, rows, 8, columns, 8, False), before=before, after=after)
    tile = AttentionTile(4, 2, 1, machine.lanes)
    y = computed(form, tile, [q, k, v, factor, mask, fill], machine)
    scores = np.einsum("mhd,nhd->hmn", q.astype(np.float64) * 0.3, k) * factor + 2
    scores = np.where(fill, -1e4, np.where(mask, scores, -np.inf))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = np.where(mask, weights / weights.sum(-1, keepdims=True), 0.5) * 2
    np.testing.assert_allclose(y, np.einsum("hmn,nhw->mhw", weights, v), rtol=1e-4, atol=1e-5)


def test_a_row_without_columns_is_filled():
    q, k, v = normal(8, 1, 4), normal(6, 1, 4), normal(6, 1, 4)
    mask = np.ones((8, 6), bool)
    mask[3] = False
    form = form_of(1, 8, 4, 6, 4, False)
    before = (Step("keep", (1, 8, 6), mask.shape, 3, -np.inf),)
    tile = AttentionTile(4, 1, 1, HOST.lanes)
    y = computed(replace(form, before=before), tile, [q, k, v, mask], HOST)
    assert np.isnan(y[3]).all() and np.isfinite(np.delete(y, 3, axis=0)).all()
    after = (Step("fill_nan", (1, 8, 6), value=0.0),)
    y = computed(replace(form, before=before, after=after), tile, [q, k, v, mask], HOST)
    assert (y[3] == 0).all() and np.isfinite(y).all()


def test_scores_that_leave_l1_make_tiles_shorter():
    few, many = (attention_tile(form_of(6, n, 64, n, 64, False), MACHINES[-1]) for n in (577, 1500))
    assert many.rows < few.rows
