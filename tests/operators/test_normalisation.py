from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontend.onnx_runner import make_model, run_reference, whole_build
from tests.frontend.onnx_runner import run as run_model
from tests.kernels import alternating_machines
from tests.layout import block, unblock
from tests.operators.harness import (
    HOST,
    MACHINES,
    Built,
    assert_close,
    each_machine,
    normal,
    onnx_node,
    run,
)
from tvmconv.graph.emit.plain_moves import row_transposition
from tvmconv.operators.lrn import lrn, lrn_blocked
from tvmconv.operators.moments import row_moments
from tvmconv.operators.moments_short_rows import short_row_moments
from tvmconv.operators.softmax import log_softmax, softmax
from tvmconv.operators.softmax_rows import softmax_rows
from tvmconv.operators.softmax_short_rows import softmax_short_rows

CASES = [((2, 1000), 1), ((3, 1001), 1), ((1, 5), 1), ((2, 19, 7, 9), 1), ((2, 19, 7, 9), 2)]


@pytest.mark.parametrize("shape,axis", CASES, ids=str)
@each_machine
def test_softmax(shape, axis, machine):
    x = normal(*shape) * 4
    y = run(lambda t: softmax(t, axis), x, machine=machine)
    assert_close(y, onnx_node("Softmax", [x], axis=axis))


@pytest.mark.parametrize("shape,axis", CASES, ids=str)
def test_log_softmax(shape, axis):
    x = normal(*shape) * 4
    y = run(lambda t: log_softmax(t, axis), x, machine=HOST)
    assert_close(y, onnx_node("LogSoftmax", [x], axis=axis))


def test_softmax_of_large_and_infinite_values():
    x = np.array([[1e4, 1e4 - 1, -np.inf, 0.0] * 8], np.float32)
    y = run(softmax, x, machine=HOST)
    assert_close(y, onnx_node("Softmax", [x], axis=1))


# one vector, an overlapping one, several independent ones, some more; groups of rows and the rest
SHAPES = [(35, 9), (35, 5), (16, 1), (3, 16), (17, 33), (2, 127), (2, 1001)]


@pytest.mark.parametrize("logarithm", [False, True])
@alternating_machines("shape", SHAPES, MACHINES)
def test_softmax_of_rows(shape, logarithm, machine):
    x = normal(*shape) * 4
    x[0, ::3] = -np.inf
    x[1] += 3e4
    y = run(lambda t: softmax_rows(t, machine.lanes, logarithm), x, machine=machine)
    wide = x.astype(np.float64) - x.max(axis=1, keepdims=True)
    expected = wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))
    if logarithm:
        np.testing.assert_allclose(y, expected, rtol=3e-7, atol=1e-6)
    else:
        np.testing.assert_allclose(y, np.exp(expected), rtol=3e-6, atol=1e-37)


# rows of two and three, of pieces that overlap, of columns; groups that overlap
@pytest.mark.parametrize("logarithm", [False, True])
@alternating_machines(
    "shape", [(37, 3, 1), (35, 5, 1), (16, 2, 1), (21, 8, 2), (40, 7, 3), (17, 1, 5)], MACHINES
)
def test_softmax_of_short_rows_and_few_columns(shape, logarithm, machine):
    x = normal(*shape) * 4
    x[0, ::3] = -np.inf if shape[1] > 1 else 1.0
    x[1] += 3e4
    x[2, 0, 0] = np.nan
    flat = x.reshape(shape[0], -1)
    mark = row_transposition(flat.shape[1])
    y = run(
        lambda t: softmax_short_rows(t, shape[2], machine.lanes, logarithm, mark),
        flat,
        machine=machine,
    )
    wide = x.astype(np.float64) - x.max(axis=1, keepdims=True)
    expected = wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))
    if logarithm:
        np.testing.assert_allclose(y.reshape(shape), expected, rtol=3e-7, atol=1e-6)
    else:
        np.testing.assert_allclose(y.reshape(shape), np.exp(expected), rtol=3e-6, atol=1e-37)


@alternating_machines("shape", [(37, 2), (35, 3), (16, 5), (40, 11), (50, 16)], MACHINES)
def test_moments_of_short_rows(shape, machine):
    x = normal(*shape)
    x[1] += 1e4
    mark = row_transposition(shape[1])
    x[2], x[3, 0], x[4, 1] = 7.0, np.nan, np.inf
    built = Built(lambda t: short_row_moments(t, 1e-5, machine.lanes, mark), [x], machine)
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        expected = wide.mean(axis=1), 1 / np.sqrt(wide.var(axis=1) + 1e-5)
    assert np.isnan(built()[0][3])
    assert np.isnan(built()[1][3:5]).all()
    for actual, wanted in zip(built(), expected, strict=True):
        rows = np.isfinite(wanted)
        np.testing.assert_allclose(actual[rows], wanted[rows], rtol=2e-6, atol=1e-6)


def test_softmax_of_rows_without_numbers():
    x = np.ones((4, 21), np.float32)
    x[0, 20], x[1, 3], x[2] = np.nan, np.inf, -np.inf
    y = run(lambda t: softmax_rows(t, HOST.lanes, False), x, machine=HOST)
    assert np.isnan(y[[0, 2]]).all() and np.isnan(y[1, 3])
    np.testing.assert_allclose(y[3], 1 / 21, rtol=1e-6)


def test_softmax_of_few_columns_is_one_of_rows():
    nodes = [
        helper.make_node("Softmax", ["x"], ["y"], axis=1),
        helper.make_node("LogSoftmax", ["x"], ["z"], axis=2),
    ]
    x = normal(2, 70, 67, 1) * 4
    model = make_model(nodes, {"x": x.shape}, ["y", "z"], {})
    few = make_model(nodes[:1], {"x": (2, 70, 3)}, ["y"], {})
    for built, feed in ((model, x), (few, x[:, :, :3, 0])):
        results = run_model(built, {"x": feed}, whole_build)
        for actual, wanted in zip(results, run_reference(built, {"x": feed}), strict=True):
            assert_close(actual, wanted)


def test_softmax_calls_no_library():
    built = Built(softmax, [np.zeros((4, 1000), np.float32)], HOST)
    assert built.library_calls() == []


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("channels", [7, 35, 64])
def test_lrn(channels, size):
    x = normal(2, channels, 5, 6) * 3
    arguments = {"size": size, "alpha": 0.05, "beta": 0.75, "bias": 1.5}
    expected = onnx_node("LRN", [x], **arguments)
    plain = run(lambda t: lrn(t, **arguments), x, machine=HOST)
    assert_close(plain, expected)
    blocked = run(
        lambda t: lrn_blocked(t, channels, **arguments), block(x, HOST.lanes, 3.0), machine=HOST
    )
    assert_close(unblock(blocked, channels), expected)


def test_a_row_of_one_value_is_its_own_mean():
    x = np.array([[2.0], [np.inf], [-np.inf], [np.nan], [3e38]], np.float32)
    mean, inverse = Built(lambda t: row_moments(t, 0.25), [x], HOST)()
    np.testing.assert_array_equal(mean, x[:, 0])
    np.testing.assert_array_equal(inverse, np.full(5, 2, np.float32))
