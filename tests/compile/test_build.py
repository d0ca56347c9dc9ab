"""The compile step as a whole: intrinsics, fusion marks, scratch memory."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, te, tirx

from tests.assembly import assembly
from tests.layout import block, unblock
from tests.operators.harness import HOST, normal
from tests.relax_module import compiled
from tvmconv.kernels.rules import SCHEDULED, schedule_function, schedule_module
from tvmconv.operators.pool import PoolWindow, max_pool
from tvmconv.operators.softmax import softmax
from tvmconv.tir.general.relax_intrinsics import VectorizableMath
from tvmconv.tir.general.rewrite import transformed
from tvmconv.tir.pipeline import compile_function

MACHINE = HOST


def prim_func(expression, *shapes):
    inputs = [te.placeholder(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    func = te.create_prim_func([*inputs, expression(*inputs)])
    return func.with_attr("global_symbol", "main")


def network(batch=1):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((batch, 2, 12, 12, 16), "float32"))
    window = PoolWindow(3, 2, 1, 1)
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_te(lambda t: max_pool(t, window, window), x)
            y = builder.emit(relax.op.reshape(y, (batch, 2 * 6 * 6 * 16)))
            y = builder.emit_output(builder.emit_te(softmax, y))
        builder.emit_func_output(y)
    return builder.finalize()


def test_network_of_operators():
    x = normal(1, 32, 12, 12)
    (result,) = compiled(network(), MACHINE).run(block(x, 16))
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    taps = [padded[:, :, i : i + 11 : 2, j : j + 11 : 2] for i in range(3) for j in range(3)]
    pooled = unblock(block(np.max(taps, axis=0), 16), 32)
    flat = block(pooled, 16).reshape(1, -1).astype(np.float64)
    power = np.exp(flat - flat.max())
    np.testing.assert_allclose(result, power / power.sum(), rtol=1e-5)


def test_scratch_memory_is_reported():
    model = compiled(network(), MACHINE)
    # the exponentials of one row
    assert model.memory.workspace_bytes == 2 * 6 * 6 * 16 * 4 * MACHINE.cores


def test_scheduled_functions_are_left_alone():
    func = prim_func(softmax, (4, 64)).with_attr(SCHEDULED, True)
    module = schedule_module(tvm.ir.IRModule({"main": func}), MACHINE)
    tvm.ir.assert_structural_equal(func, module["main"])
    assert schedule_function(func, MACHINE).same_as(func)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf"])
def test_intrinsics_become_polynomials(name):
    intrinsic = getattr(tirx, name)
    func = prim_func(lambda t: te.compute(t.shape, lambda i: intrinsic(t[i])), (64,))
    assert f"T.{name}(" in func.script()
    assert f"T.{name}(" not in transformed(func, VectorizableMath()).script()


def test_other_functions_keep_their_identity():
    func = prim_func(lambda t: te.compute(t.shape, lambda i: t[i] + t[i]), (64,))
    assert transformed(func, VectorizableMath()).same_as(func)


def test_nested_intrinsics_are_all_replaced():
    func = prim_func(
        lambda t: te.compute(t.shape, lambda i: tirx.tanh(tirx.exp(t[i])) + tirx.exp(t[i])), (64,)
    )
    scheduled = schedule_function(func, MACHINE)
    library = compile_function(scheduled, MACHINE)
    x = np.linspace(-3, 1, 64).astype(np.float32)
    y = tvm.runtime.empty((64,))
    library["main"](tvm.runtime.tensor(x), y)
    expected = np.tanh(np.exp(x.astype(np.float64))) + np.exp(x.astype(np.float64))
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


def test_nested_polynomials_do_not_grow():
    # a value bound inside of another once took the code generator minutes
    func = prim_func(
        lambda t: te.compute(
            t.shape, lambda i: tirx.tanh(tirx.log(tirx.exp(tirx.sigmoid(t[i])) + 1.0))
        ),
        (64,),
    )
    library = compile_function(schedule_function(func, MACHINE), MACHINE)
    x = np.linspace(-3, 3, 64).astype(np.float32)
    y = tvm.runtime.empty((64,))
    library["main"](tvm.runtime.tensor(x), y)
    expected = np.tanh(np.log(np.exp(1 / (1 + np.exp(-x.astype(np.float64)))) + 1))
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
    assert len(assembly(library).text) < 100_000
