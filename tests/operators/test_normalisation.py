from __future__ import annotations

import numpy as np
import pytest

from tests.layout import block, unblock
from tests.operators.harness import HOST, Built, assert_close, each_machine, normal, onnx_node, run
from tvmconv.operators.lrn import lrn, lrn_blocked
from tvmconv.operators.softmax import log_softmax, softmax

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
