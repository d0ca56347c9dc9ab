"""Calls of a Relax module that follow one another, made as one; the reference is numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.graph.passed import RNG, run, tensor
from tvmconv.compile.external import CALLS
from tvmconv.transform import ScheduleOperators

op = relax.op
SHAPE = (3, 8)


def compiled(builder: relax.BlockBuilder, threads: int = 1) -> tvm.IRModule:
    legal = relax.transform.LegalizeOps()(builder.get())
    return ScheduleOperators("native", threads)(legal)


def lines(mod: tvm.IRModule) -> list[list[str]]:
    """The kernels of each call that ``main`` makes."""
    found = []
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            if getattr(getattr(binding.value, "op", None), "name", "") == "relax.call_dps_packed":
                found.append(list(mod.attrs[CALLS][str(binding.value.args[0].global_symbol)]))
    return found


def values(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def assert_close(actual: list[np.ndarray], *expected: np.ndarray) -> None:
    assert len(actual) == len(expected)
    for mine, reference in zip(actual, expected, strict=True):
        np.testing.assert_allclose(mine, reference, rtol=1e-5, atol=1e-6)


def test_a_line_is_one_call():
    """Parts of tuples, other names, constants, and results that are read later."""
    factor = values(1, 4)
    builder, x = relax.BlockBuilder(), tensor("x", *SHAPE)
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(op.exp(x))
            parts = builder.emit(op.split(a, 2, axis=1))
            first = builder.emit(relax.TupleGetItem(parts, 0))
            same = builder.emit(first)
            b = builder.emit(op.add(same, builder.emit(relax.TupleGetItem(parts, 1))))
            c = builder.emit_output(op.multiply(b, relax.const(factor)))
            d = builder.emit_output(op.negative(a))
        builder.emit_func_output(relax.Tuple([c, d, x]))
    passed, given = compiled(builder), values(*SHAPE)
    assert [len(kernels) for kernels in lines(passed)] == [5]
    e = np.exp(given)
    assert_close(run(passed, "main", given), (e[:, :4] + e[:, 4:]) * factor, -e, given)


def test_other_calls_end_a_line():
    builder, x = relax.BlockBuilder(), tensor("x", *SHAPE)
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(op.exp(builder.emit(op.negative(x))))
            foreign = op.call_pure_packed("vm.builtin.copy", a, ty_args=a.ty)
            b = builder.emit(op.add(builder.emit(foreign), a))
            result = builder.emit_output(op.tanh(b))
        builder.emit_func_output(result)
    passed, given = compiled(builder), values(*SHAPE)
    assert lines(passed) == [["tir_negative", "tir_exp"], ["add", "tir_tanh"]]
    assert_close(run(passed, "main", given), np.tanh(2 * np.exp(-given)))


def test_blocks_and_branches_keep_their_calls():
    """Results that only a branch reads are results all the same; equal lines are compiled once."""
    builder, x = relax.BlockBuilder(), tensor("x", *SHAPE)
    flag = relax.Var("flag", relax.TensorType((), "bool"))
    with builder.function("main", [flag, x]):
        with builder.dataflow():
            a = builder.emit_output(op.exp(builder.emit(op.negative(x))))
        with builder.dataflow():
            b = builder.emit_output(op.exp(builder.emit(op.negative(a))))
        builder.emit_func_output(builder.emit(relax.If(flag, branch(a, b), branch(b, a))))
    passed, given = compiled(builder), values(*SHAPE)
    assert lines(passed) == [["tir_negative", "tir_exp"] * 2]
    assert len(passed.attrs[CALLS]) == 2
    a = np.exp(-given)
    for flag_value, expected in ((True, a - np.exp(-a)), (False, np.exp(-a) - a)):
        assert_close(run(passed, "main", np.array(flag_value), given), expected)


def test_an_input_and_a_constant_are_not_the_same_line():
    """Both lines are one call of one kernel with two operands."""
    offset = values(*SHAPE)
    builder, x = relax.BlockBuilder(), tensor("x", *SHAPE)
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(op.add(x, relax.const(offset)))
            foreign = op.call_pure_packed("vm.builtin.copy", a, ty_args=a.ty)
            result = builder.emit_output(op.add(builder.emit(foreign), x))
        builder.emit_func_output(result)
    passed, given = compiled(builder), values(*SHAPE)
    assert lines(passed) == [["add"]] * 2
    assert_close(run(passed, "main", given), given + offset + given)


def branch(a: relax.Var, b: relax.Var) -> relax.SeqExpr:
    result = relax.Var("result", a.ty)
    binding = relax.VarBinding(result, op.subtract(a, b))
    return relax.SeqExpr([relax.BindingBlock([binding])], result)


def test_whole_tuples_and_nothing():
    """A tuple that is returned as it is; a call whose result nobody reads is gone."""
    builder, x = relax.BlockBuilder(), tensor("x", *SHAPE)
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = builder.emit_output(op.split(builder.emit(op.negative(x)), 2, axis=1))
        builder.emit(op.exp(x))
        builder.emit_func_output(parts)
    passed, given = compiled(builder), values(*SHAPE)
    assert lines(passed) == [["tir_negative", "split"]]
    assert_close(run(passed, "main", given), -given[:, :4], -given[:, 4:])


@pytest.mark.parametrize("threads", [1, 2])
def test_parallel_kernels(threads):
    builder, x = relax.BlockBuilder(), tensor("x", 64, 4096)
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(op.nn.softmax(builder.emit(op.negative(x))))
            result = builder.emit_output(op.add(a, x))
        builder.emit_func_output(result)
    passed, given = compiled(builder, threads), values(64, 4096)
    assert len(lines(passed)) == 1
    e = np.exp(-given - (-given).max(1, keepdims=True))
    assert_close(run(passed, "main", given), e / e.sum(1, keepdims=True) + given)


def test_symbolic_shapes_stay_calls_of_their_own():
    builder, n = relax.BlockBuilder(), tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(op.exp(builder.emit(op.negative(x))))
        builder.emit_func_output(result)
    passed = compiled(builder)
    for rows in (1, 5):
        given = values(rows, 8)
        assert_close(run(passed, "main", given), np.exp(-given))


@pytest.mark.parametrize("axis", [0, 2])
def test_rows_are_gathered_from_tensors_of_symbolic_shape(axis):
    """The operand has a symbolic shape, and every loop a constant extent."""
    builder, n = relax.BlockBuilder(), tvm.tirx.Var("n", "int64")
    shape: list[Any] = [7, 9, 4]
    given, places = values(*shape), np.array([3, 0, 2])
    shape[axis] = n
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(op.take(x, relax.const(places), axis))
        builder.emit_func_output(result)
    assert_close(run(compiled(builder), "main", given), given.take(places, axis))


def test_memory_of_a_line_serves_the_next():
    """Relax plans the arenas of lines, so that one piece of memory holds all."""
    builder, x = relax.BlockBuilder(), tensor("x", 16, 4096)
    with builder.function("main", [x]):
        y = x
        for _ in range(4):
            with builder.dataflow():
                y = builder.emit(op.exp(builder.emit(op.negative(y))))
                y = builder.emit_output(op.negative(y))
            y = builder.emit(op.call_pure_packed("vm.builtin.copy", y, ty_args=y.ty))
        builder.emit_func_output(y)
    passed = compiled(builder)
    assert [len(kernels) for kernels in lines(passed)] == [3] * 4
    code = relax.build(passed, target="llvm").as_text()
    assert code.count("call  vm.builtin.alloc_tensor ") == 8
    assert code.count("call  vm.builtin.alloc_storage ") < 8
