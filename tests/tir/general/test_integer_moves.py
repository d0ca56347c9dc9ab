"""Moves of float16 and of truth values."""

from __future__ import annotations

import numpy as np
from tvm import ir, te, tirx, topi

from tests.kernels import nodes
from tests.operators.harness import HOST, normal, run
from tvmconv.tir.general.integer_moves import integer_moves


def moved(function, dtype):
    x = te.placeholder((4, 6), dtype, name="x")
    before = te.create_prim_func([x, function(x)])
    return before, integer_moves(before)


def test_moves_are_of_integers():
    for dtype, integer in (("float16", "int16"), ("bool", "uint8")):
        _, after = moved(lambda x: te.compute((6, 4), lambda i, j: x[j, i]), dtype)
        (store,) = nodes(after, tirx.BufferStore)
        assert (str(store.buffer.dtype), str(store.value.source.dtype)) == (integer, integer)


def test_other_functions_stay():
    for function, dtype in ((lambda x: x + x, "float16"), (topi.transpose, "float32")):
        before, after = moved(function, dtype)
        assert after.same_as(before)
        assert not nodes(after, ir.TensorLoad) or str(after.params[0].dtype) == dtype


def test_padding_is_the_same_number():
    x = normal(5, 7).astype("float16")
    y = run(lambda t: topi.nn.pad(t, [1, 0], [2, 1], pad_value=-1.5), x, machine=HOST)
    np.testing.assert_array_equal(y, np.pad(x, [(1, 2), (0, 1)], constant_values=-1.5))
