"""Functions that stock Relax operators are lowered to, scheduled by the rules."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tests import relax_module
from tests.operators.harness import HOST, assert_close, each_machine, normal

op = relax.op


def compiled(function, *arrays, machine=HOST):
    builder = relax.BlockBuilder()
    parameters = [
        relax.Var(f"x{i}", relax.TensorType(a.shape, str(a.dtype))) for i, a in enumerate(arrays)
    ]
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(function(*parameters)))
        builder.emit_func_output(result)
    module = relax.transform.DecomposeOpsForInference()(builder.finalize())
    return relax_module.compiled(module, machine).run(list(arrays))[0]


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


X = normal(2, 19, 9, 33)
ROWS = normal(64, 1000, seed=1)
INDEX = np.array([[3, 1], [0, 7]], np.int64)

CASES = {
    "transpose_inner": (lambda x: op.permute_dims(x, [0, 1, 3, 2]), [X], X.transpose(0, 1, 3, 2)),
    "transpose_outer": (lambda x: op.permute_dims(x, [0, 2, 3, 1]), [X], X.transpose(0, 2, 3, 1)),
    "transpose_large": (lambda x: op.permute_dims(x, [1, 0]), [ROWS], ROWS.T),
    "slice": (
        lambda x: op.strided_slice(x, [1, 3], [2, 30], [17, 1], [3, -4]),
        [X],
        X[:, 2:17:3, :, 30:1:-4],
    ),
    "pad": (
        lambda x: op.nn.pad(x, [0, 0, 1, 2, 0, 3, 1, 1]),
        [X],
        np.pad(X, [(0, 0), (1, 2), (0, 3), (1, 1)]),
    ),
    "broadcast_add": (op.add, [X, X[:1, :, :1, :1]], X + X[:1, :, :1, :1]),
    "scalar_like": (op.multiply, [X, X[:1, :1, :1, :1]], X * X[0, 0, 0, 0]),
    "sum_inner": (lambda x: op.sum(x, axis=[-1]), [ROWS], ROWS.sum(-1, dtype=np.float64)),
    "sum_odd": (lambda x: op.sum(x, axis=[-1]), [X], X.sum(-1, dtype=np.float64)),
    "mean_image": (
        lambda x: op.mean(x, axis=[2, 3], keepdims=True),
        [X],
        X.mean((2, 3), keepdims=True, dtype=np.float64),
    ),
    "max_channels": (lambda x: op.max(x, axis=[1]), [X], X.max(1)),
    "max_all": (op.max, [X], X.max()),
    "sum_all": (op.sum, [ROWS], ROWS.sum(dtype=np.float64)),
    "argmax": (lambda x: op.argmax(x, axis=1), [X], X.argmax(1)),
    "argmax_inner": (lambda x: op.argmax(x, axis=-1), [ROWS], ROWS.argmax(-1)),
    "take": (lambda x, i: op.take(x, i, axis=1), [X, INDEX], X.take(INDEX, 1)),
    "matmul": (
        op.matmul,
        [ROWS, normal(1000, 48, seed=2)],
        ROWS.astype(np.float64) @ normal(1000, 48, seed=2),
    ),
    "batch_matmul": (
        op.matmul,
        [X, normal(2, 19, 33, 17, seed=2)],
        X.astype(np.float64) @ normal(2, 19, 33, 17, seed=2),
    ),
    # the last of 33 steps is left over by squares
    "batch_matmul_columns": (
        lambda x, y: op.matmul(x, op.permute_dims(y, (0, 1, 3, 2))),
        [X, normal(2, 19, 17, 33, seed=3)],
        X.astype(np.float64) @ normal(2, 19, 17, 33, seed=3).swapaxes(2, 3),
    ),
    "softmax_channels": (lambda x: op.nn.softmax(x, axis=1), [X], softmax(X, 1)),
    "softmax_rows": (lambda x: op.nn.softmax(x, axis=-1), [ROWS], softmax(ROWS, -1)),
    "layer_norm": (
        lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[-1]),
        [ROWS, normal(1000, seed=4), normal(1000, seed=5)],
        (ROWS - ROWS.mean(-1, keepdims=True))
        / np.sqrt(ROWS.var(-1, keepdims=True) + 1e-5)
        * normal(1000, seed=4)
        + normal(1000, seed=5),
    ),
    "concat": (lambda x, y: op.concat([x, y], axis=3), [X, X], np.concatenate([X, X], 3)),
    "max_pool": (
        lambda x: op.nn.max_pool2d(x, [2, 2], [2, 2]),
        [X[..., :8, :32]],
        X[..., :8, :32].reshape(2, 19, 4, 2, 16, 2).max((3, 5)),
    ),
    "cast": (lambda x: op.astype(op.greater(x, relax.const(0.0)), "float32"), [X], X > 0),
    "integers": (
        lambda i: op.floor_mod(op.multiply(i, relax.const(5, "int64")), relax.const(4, "int64")),
        [INDEX],
        INDEX * 5 % 4,
    ),
    "where": (
        lambda x: op.where(op.less(x, relax.const(0.0)), op.exp(x), op.tanh(x)),
        [X],
        np.where(X < 0, np.exp(X), np.tanh(X)),
    ),
    "gelu": (
        op.nn.gelu,
        [ROWS],
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name):
    function, arrays, expected = CASES[name]
    arrays = [np.ascontiguousarray(a) for a in arrays]
    if expected is None:
        from math import erf

        x = ROWS.astype(np.float64)
        expected = x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))
    actual = compiled(function, *arrays)
    assert_close(actual, np.asarray(expected, actual.dtype), 1e-5)


@each_machine
def test_chain_of_elementwise_operators(machine):
    x = normal(1, 4, 30, 30, 8)
    y = compiled(lambda t: op.sigmoid(op.nn.relu(op.add(t, t))), x, machine=machine)
    assert_close(y, 1 / (1 + np.exp(-np.maximum(2 * x, 0))))
