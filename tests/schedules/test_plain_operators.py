"""Operators on plain tensors whose schedules go by axes: values on shapes around vectors."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te, tirx, topi

from tests.kernels import nodes
from tests.operators.harness import HOST, Built, assert_close, normal, run
from tvmconv.operators.scan import running_total
from tvmconv.operators.softmax import log_softmax, softmax

# equal sizes after the axis; groups of columns with a remainder; few columns
SHAPES = [((2, 16, 16), 1), ((1, 9, 70), 1), ((3, 5, 4, 33), 1), ((20, 3), 0)]


@pytest.mark.parametrize("shape,axis", SHAPES, ids=str)
@pytest.mark.parametrize("function", [softmax, log_softmax])
def test_softmax_along_an_axis_before_the_last(function, shape, axis):
    x = normal(*shape)
    spread = np.exp(x.astype("float64"))
    wanted = spread / spread.sum(axis, keepdims=True)
    if function is log_softmax:
        wanted = np.log(wanted)
    assert_close(run(lambda t: function(t, axis), x, machine=HOST), wanted, 2e-6)


PERMUTATIONS = [
    ((20, 33), (1, 0)),
    ((1, 5, 4, 35), (0, 2, 3, 1)),
    ((2, 3, 4, 17), (3, 1, 0, 2)),
    ((70, 5), (1, 0)),
    ((3, 2, 3), (2, 1, 0)),
    ((200, 9), (1, 0)),
    ((2, 71, 3), (0, 2, 1)),
    ((3, 71), (1, 0)),
    ((40, 2), (1, 0)),
    ((9, 70), (1, 0)),
    # lines of several axes, and lines of a few bytes that follow each other
    ((3, 8, 8, 3), (3, 2, 1, 0)),
    ((3, 7, 4, 5, 3), (4, 3, 1, 0, 2)),
    ((5, 130), (1, 0)),
]


@pytest.mark.parametrize("shape,order", PERMUTATIONS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64", "bool"])
def test_transpositions(shape, order, dtype):
    x = (normal(*shape) * 50).astype(dtype)
    y = run(lambda t: topi.transpose(t, order), x, machine=HOST)
    np.testing.assert_array_equal(y, x.transpose(order))


@pytest.mark.parametrize(
    "shape,order,dtype",
    [
        ((150, 140), (1, 0), "float32"),
        ((150, 128), (1, 0), "float32"),
        ((20, 140, 2), (1, 0, 2), "float32"),
        ((70, 256), (1, 0), "float32"),
        ((70, 192), (1, 0), "int64"),
        ((128, 3, 4, 41), (1, 3, 0, 2), "float32"),
        ((2, 40, 9, 2), (0, 2, 1, 3), "float32"),
        ((37, 20, 2), (1, 0, 2), "int8"),
        ((20, 37, 4), (1, 0, 2), "int8"),
        ((6, 5, 3, 8), (2, 0, 1, 3), "uint8"),
        ((1, 1, 1), (0, 2, 1), "float32"),
        ((21, 37, 4), (1, 0, 2), "float32"),
        ((3, 21, 16, 3), (2, 1, 0, 3), "float32"),
        ((2, 150, 130, 5), (0, 2, 1, 3), "float16"),
        ((9, 7, 10, 24), (1, 2, 0, 3), "uint8"),
        # lines that follow each other, and are as long as a vector over them, or longer
        ((3, 7, 7), (0, 2, 1), "int8"),
        ((9, 7, 5), (0, 2, 1), "int8"),
        ((19, 64, 5, 4), (1, 0, 3, 2), "int8"),
        ((19, 64, 6, 5), (1, 0, 3, 2), "float16"),
    ],
    ids=str,
)
def test_transpositions_of_distant_lines_and_of_short_whole_ones(shape, order, dtype):
    x = (normal(*shape) * 50).astype(dtype)
    y = run(lambda t: topi.transpose(t, order), x, machine=HOST)
    np.testing.assert_array_equal(y, x.transpose(order))


@pytest.mark.parametrize("shape", [(2, 3), (3, 70), (2, 9, 5), (1, 4, 70)], ids=str)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_running_sums(shape, exclusive, reverse, dtype):
    x = (normal(*shape) * 9).astype(dtype)
    order = slice(None, None, -1 if reverse else 1)
    wanted = np.cumsum(x[:, order], 1)[:, order] - (x if exclusive else 0)
    y = run(lambda t: running_total(t, dtype, exclusive, 16, reverse), x, machine=HOST)
    np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=2e-5)


def test_a_width_that_is_no_multiple_of_a_vector_leaves_vector_code():
    built = Built(
        lambda t: te.compute(t.shape, lambda *i: t[i] * 2.0), [normal(1, 8, 20, 20)], HOST
    )
    (y,) = built()
    np.testing.assert_array_equal(y, built.inputs[0].numpy() * 2)
    assert not built.code.has(r"\tvmulss\t")
    assert built.vector_instructions() > 0


def test_operands_of_a_concatenation_are_copied_by_vectors():
    arrays = [normal(3, 5, 9), normal(3, 2, 9)]
    built = Built(lambda a, b: topi.concatenate([a, b], 1), arrays, HOST)
    (y,) = built()
    np.testing.assert_array_equal(y, np.concatenate(arrays, 1))
    assert built.vector_instructions() > 0


def test_padding_of_several_axes():
    x = normal(2, 3, 20, 5)
    y = run(lambda t: topi.nn.pad(t, [0, 1, 2, 1], [0, 0, 1, 3]), x, machine=HOST)
    np.testing.assert_array_equal(y, np.pad(x, [(0, 0), (1, 0), (2, 1), (1, 3)]))


def test_means_over_all_axes_and_over_unit_ones():
    x = normal(4, 1, 33, 7)
    y = run(lambda t: topi.sum(t, [0, 1, 2, 3]), x, machine=HOST)
    assert_close(y, x.astype("float64").sum(), 2e-6)
    y = run(lambda t: topi.sum(t, [1, 3]), x, machine=HOST)
    assert_close(y, x.astype("float64").sum((1, 3)), 2e-6)


def test_positions_of_extremes_in_short_rows():
    """The last vector of rows is shorter: values that it compares are in a buffer of its own."""
    x = normal(34, 5)
    y = run(lambda t: topi.argmax(t, 1), x, machine=HOST)
    np.testing.assert_array_equal(y, x.argmax(1))


# rows of fewer elements than vectors, with groups of rows and a remainder
SHORT_ROWS = [
    ((50, 3), (50, 1)),
    ((50, 3), (1, 3)),
    ((4, 5, 3), (5, 1)),
    ((3, 35, 2), (3, 1, 2)),
    ((2, 3, 7), (2, 1, 7)),
]


@pytest.mark.parametrize("shape,other", SHORT_ROWS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int64", "int8"])
def test_operands_repeated_along_short_rows_or_over_them(shape, other, dtype):
    x, y = ((normal(*size) * 9).astype(dtype) for size in (shape, other))
    built = Built(lambda a, b: topi.multiply(topi.add(a, b), b), [x, y], HOST)
    np.testing.assert_array_equal(built()[0], (x + y) * y)
    assert dtype != "float32" or not built.code.has(r"\tvmulss\t")


@pytest.mark.parametrize("shape,other", [SHORT_ROWS[0], ((70, 7, 3), (70, 1, 3))], ids=str)
def test_truth_values_over_short_rows(shape, other):
    x, y = normal(*shape) > 0, normal(*other) > 0
    both = run(topi.logical_and, x, y, machine=HOST)
    np.testing.assert_array_equal(both, x & y)
    less = run(topi.less, normal(*shape), normal(*other, seed=1), machine=HOST)
    np.testing.assert_array_equal(less, normal(*shape) < normal(*other, seed=1))
    first, second = ((normal(*size, seed=2) * 50).astype("int8") for size in (shape, other))
    chosen = run(topi.where, y, first, second, machine=HOST)
    np.testing.assert_array_equal(chosen, np.where(y, first, second))


# rows of a vector and more, rows shorter than a vector, and an axis before the last
SLICES = [(7, 150), (30, 9), (5, 17, 8)]


@pytest.mark.parametrize("shape", SLICES, ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "int64"])
@pytest.mark.parametrize("step", [2, -3])
def test_slices_with_steps(shape, dtype, step):
    x = (normal(*shape) * 50).astype(dtype)
    first = 1 if step > 0 else shape[-1] - 2
    expected = x[..., first::step]

    def sliced(t):
        return te.compute(
            expected.shape, lambda *i: t(*i[:-1], i[-1] * step + first), name="sliced"
        )

    np.testing.assert_array_equal(run(sliced, x, machine=HOST), expected)


def test_each_vector_over_short_rows_defines_its_variables():
    x, y = normal(70, 3), normal(70, 1)
    z = run(lambda a, b: topi.multiply(topi.sigmoid(a), b), x, y, machine=HOST)
    assert_close(z, y.astype("float64") / (1 + np.exp(-x.astype("float64"))), 2e-6)


def test_short_rows_of_one_of_many_operands_are_read_under_its_condition():
    """More joined operands than pieces: each condition is evaluated before its operand is read."""
    parts, other = [normal(3, 9, 1, seed=i) for i in range(33)], normal(3)
    built = Built(lambda *x: topi.add(topi.concatenate(x[:-1], 0), x[-1]), [*parts, other], HOST)
    np.testing.assert_array_equal(built()[0], np.concatenate(parts) + other)
    assert not nodes(built.func, tirx.Shuffle)


def test_an_index_that_is_read_over_short_rows():
    x, place = normal(40, 2, 4), np.array(1, "int64")

    def function(a, index):
        return te.compute((40, 4), lambda i, j: a[i, te.min(index[()], 1), j] * 2, name="row")

    np.testing.assert_array_equal(run(function, x, place, machine=HOST), x[:, 1] * 2)


# short rows, rows of several vectors with a remainder, few columns, one result, parts of rows
REDUCTIONS = [
    ((300, 5), [1]),
    ((40, 13), [1]),
    ((9, 32), [1]),
    ((6, 7, 7), [1, 2]),
    ((3, 2, 7, 100), [1, 3]),
    ((5, 20, 6, 3), [1, 3]),
    ((5, 20, 6, 4), [1, 3]),
    ((1009, 3), [0]),
    ((7, 60, 2), [1]),
    ((2, 9, 48, 5), [1, 2]),
    ((3, 11), [0, 1]),
    ((40, 20, 5), [0, 2]),
    ((12, 3, 30, 2, 3), [0, 2, 4]),
    ((8, 175), [0]),
    ((3, 12, 261), [1]),
    ((2, 11, 157), [1]),
    ((1, 600), [1]),
    ((3, 11, 300), [1]),
    ((2, 3, 13, 200), [1, 2]),
    ((50, 6, 3, 3), [0, 2]),
    ((9, 4, 2, 5, 3), [0, 3]),
    ((7, 3, 5, 2, 3), [1, 3]),
    ((9, 240, 5, 2, 2), [1, 2, 4]),
]


def test_sums_of_short_rows_of_halves():
    x = normal(3, 50, 7).astype("float16")
    y = run(lambda t: topi.sum(topi.cast(t, "float32"), 2), x, machine=HOST)
    assert_close(y, x.astype("float64").sum(2), 2e-6)


@pytest.mark.parametrize("shape,axes", REDUCTIONS, ids=str)
def test_reductions_of_short_rows_and_few_columns(shape, axes):
    x = normal(*shape)
    total, largest = Built(lambda t: [topi.sum(t, axes), topi.max(t, axes)], [x], HOST)()
    assert_close(total, x.astype("float64").sum(tuple(axes)), 2e-6)
    np.testing.assert_array_equal(largest, x.max(tuple(axes)))
