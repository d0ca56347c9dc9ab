from __future__ import annotations

import numpy as np
import pytest

from tests.assembly import matching
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
from tvmconv.operators.global_pool import global_pool
from tvmconv.operators.pool import PoolWindow, avg_pool, max_pool

# kernel, strides, pads (top, left, bottom, right), dilations, ceil_mode
CASES = [
    ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 0),
    ((3, 3), (2, 2), (0, 0, 0, 0), (1, 1), 1),
    ((2, 3), (2, 1), (0, 1, 1, 1), (1, 1), 1),
    ((3, 3), (1, 1), (1, 1, 1, 1), (2, 2), 0),
    ((7, 6), (3, 2), (2, 1, 3, 2), (1, 1), 1),
    ((1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 0),
    ((13, 14), (1, 1), (0, 0, 0, 0), (1, 1), 0),
]


def windows(kernel, strides, pads, dilations, ceil=0):
    return tuple(
        PoolWindow(kernel[i], strides[i], pads[i], pads[i + 2], dilations[i], bool(ceil))
        for i in range(2)
    )


def attributes(kernel, strides, pads, dilations, ceil=0):
    return {
        "kernel_shape": kernel,
        "strides": strides,
        "pads": pads,
        "dilations": dilations,
        "ceil_mode": ceil,
    }


@pytest.mark.parametrize("case", CASES, ids=str)
@each_machine
def test_max_pool(case, machine):
    x = normal(1, 35, 14, 15)
    rows, columns = windows(*case)
    y = run(lambda t: max_pool(t, rows, columns), block(x, machine.lanes, 99.0), machine=machine)
    expected = onnx_node("MaxPool", [x], **attributes(*case))
    np.testing.assert_array_equal(expected, unblock(y, 35))


@pytest.mark.parametrize("case", CASES[:4], ids=str)
@each_machine
def test_max_pool_of_bytes(case, machine):
    """Signed on one machine, unsigned on the other."""
    dtype = np.dtype(np.int8 if machine.lanes == 8 else np.uint8)
    limits = np.iinfo(dtype)
    x = np.random.default_rng(1).integers(limits.min, limits.max + 1, (2, 35, 14, 15), dtype)
    rows, columns = windows(*case)
    y = run(lambda t: max_pool(t, rows, columns), block(x, machine.lanes), machine=machine)
    expected = onnx_node("MaxPool", [x], result=dtype.name, **attributes(*case))
    np.testing.assert_array_equal(expected, unblock(y, 35))


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("include", [0, 1])
def test_average_pool(case, include):
    machine = HOST
    x = normal(2, 20, 14, 15)
    rows, columns = windows(*case)
    y = run(
        lambda t: avg_pool(t, rows, columns, bool(include)),
        block(x, machine.lanes),
        machine=machine,
    )
    expected = onnx_node("AveragePool", [x], count_include_pad=include, **attributes(*case))
    assert_close(unblock(y, 20), expected)


def test_max_pool_of_negative_values_ignores_padding():
    x = -np.abs(normal(1, 16, 6, 6)) - 1
    window = PoolWindow(3, 1, 1, 1)
    y = run(lambda t: max_pool(t, window, window), block(x, HOST.lanes), machine=HOST)
    expected = onnx_node("MaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    np.testing.assert_array_equal(expected, unblock(y, 16))


@pytest.mark.parametrize("shape", [(1, 35, 7, 7), (2, 16, 1, 1), (1, 64, 13, 11)], ids=str)
@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("blocked", [False, True])
def test_global_pool(shape, kind, blocked):
    x = normal(*shape)
    channels = shape[1]
    y = run(lambda t: global_pool(t, channels, kind, blocked), block(x, HOST.lanes), machine=HOST)
    expected = onnx_node("GlobalAveragePool" if kind == "avg" else "GlobalMaxPool", [x])
    assert_close(unblock(y, channels) if blocked else y, expected)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
def test_large_pooling_is_parallel_and_vectorized(machine):
    window = PoolWindow(3, 2, 1, 1)
    blocks = 64 // machine.lanes
    data = np.zeros((1, blocks, 112, 112, machine.lanes), np.float32)
    built = Built(lambda t: max_pool(t, window, window), [data], machine)
    assert built.is_parallel
    assert built.code.count("vmaxps")
    assert built.vector_instructions() > 8


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
def test_rows_of_bytes_are_pooled_by_whole_vectors(machine):
    window = PoolWindow(3, 1, 1, 1)
    data = np.zeros((1, 8, 28, 28, machine.lanes), np.uint8)
    built = Built(lambda t: max_pool(t, window, window), [data], machine)
    assert built.is_parallel
    # loads from memory: two rows to each vector of the third
    code = built.code
    compared = matching(rf"vpmaxub\t[^%]*\(.*%{code.register}\d+", code.lines)
    row = 28 * machine.lanes // machine.vector_bytes
    assert len(compared) >= 2 * row


def test_small_pooling_stays_on_one_thread():
    window = PoolWindow(2, 2)
    data = np.zeros((1, 1, 8, 8, 16), np.float32)
    assert not Built(lambda t: max_pool(t, window, window), [data], MACHINES[1]).is_parallel
