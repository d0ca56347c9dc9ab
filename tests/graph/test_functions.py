"""Functions read back as operators, against what numpy makes of the same expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from tvm import ir, relax, te, tirx, topi

from tvmconv.graph.functions import read_functions, without_unused
from tvmconv.graph.ir import Graph, constant
from tvmconv.graph.read import read_function
from tvmconv.graph.rewrite.fold import fold_constants

SHAPE = (2, 3, 4)
# all broadcast to it, as NumPy does
OPERANDS = (SHAPE, (1, 3, 1), (3, 4), (4,), (), (2, 1, 4))


def _of_no_rest(function: np.ufunc) -> Callable[..., Any]:
    """For operands without a remainder: to TVM ``x - x`` is 0, ``x / 0`` an error."""

    def apply(*operands: Any) -> Any:
        assume(all(np.abs(operand).min() > 1e-6 for operand in operands))
        return function(*operands)

    return apply


# how a function and how numpy compute each operator
OPERATORS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (ir.prim.expr.Add, np.add),
    "subtract": (ir.prim.expr.Sub, np.subtract),
    "multiply": (ir.prim.expr.Mul, _of_no_rest(np.multiply)),
    "divide": (ir.prim.expr.Div, _of_no_rest(np.divide)),
    "maximum": (ir.prim.expr.Max, np.maximum),
    "minimum": (ir.prim.expr.Min, np.minimum),
    "tanh": (tirx.tanh, np.tanh),
    "sigmoid": (tirx.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
}
UNARY = ("tanh", "sigmoid")


def module(expression: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "float32") -> Any:
    """One call of a tensor expression, as importers emit it."""
    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{i}", relax.TensorType(s, dtype)) for i, s in enumerate(shapes)]
    with builder.function("main", inputs):
        with builder.dataflow():
            result = builder.emit_output(builder.emit_te(expression, *inputs))
        builder.emit_func_output(result)
    return builder.get()


def read(mod: Any) -> Graph:
    graph = read_function(mod["main"])
    read_functions(graph, mod)
    return graph


def ops(mod: Any) -> list[str]:
    return [node.op for node in read(mod).nodes]


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> Any:
    """(operator, operands...), or the index of an input."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.integers(0, len(OPERANDS) - 1))
    name = draw(st.sampled_from(sorted(OPERATORS)))
    first = draw(trees(depth - 1))
    if name in UNARY:
        return name, first
    number = st.sampled_from([-2.0, -0.5, 0.75, 3.0, float("inf")])
    return name, first, draw(st.one_of(number, trees(depth - 1)))


def computed(tree: Any, inputs: list[Any], column: int) -> Any:
    """A tree with the functions of one column of the operators."""
    if isinstance(tree, tuple):
        parts = [computed(part, inputs, column) for part in tree[1:]]
        return OPERATORS[tree[0]][column](*parts)
    if isinstance(tree, int):
        return inputs[tree]
    return tirx.const(tree, "float32") if column == 0 else tree


def element(tensor: Any, index: tuple[Any, ...]) -> Any:
    """The element of an operand that broadcasts to an index."""
    own = index[len(index) - len(tensor.shape) :]
    at = [0 if int(size) == 1 else i for size, i in zip(tensor.shape, own, strict=True)]
    return tensor[tuple(at)]


@settings(max_examples=60)
@given(tree=trees())
def test_expressions_keep_their_value(tree: Any) -> None:
    # the first operand has the shape of the result
    tree = ("add", 0, tree)
    values = [np.random.default_rng(i).uniform(0.5, 2, s) for i, s in enumerate(OPERANDS)]
    try:
        with np.errstate(invalid="raise", over="ignore"):
            expected = computed(tree, values, 1)
    except FloatingPointError:
        # inf - inf: no value to keep
        reject()

    def expression(*inputs: Any) -> Any:
        return te.compute(
            SHAPE, lambda *index: computed(tree, [element(x, index) for x in inputs], 0)
        )

    graph = read(module(expression, *OPERANDS))
    for placeholder, value in zip(graph.inputs, values, strict=True):
        graph.replace_value(placeholder, constant(value, dtype="float32"))
    with np.errstate(all="ignore"):
        fold_constants(graph)
    result = graph.outputs[0].data
    if result is None:  # TVM simplified it to its first operand: a copy, not an operator
        np.testing.assert_allclose(np.broadcast_to(expected, SHAPE), values[0], rtol=1e-9)
        return
    np.testing.assert_allclose(result, np.broadcast_to(expected, SHAPE), rtol=1e-9, atol=1e-9)


def rows(x: Any) -> Any:
    axis = te.reduce_axis((0, 4))
    return te.compute((4,), lambda i: te.sum(x[i, axis], axis=axis))


def two_steps(x: Any) -> Any:
    half = te.compute((4, 4), lambda i, j: x[i, j] * tirx.const(0.5, "float32"))
    return te.compute((4, 4), lambda i, j: half[i, j] + half[i, j])


@pytest.mark.parametrize(
    "expression",
    [
        rows,
        two_steps,
        topi.nn.softmax,
        topi.exp,
        lambda x: te.compute((4, 4), lambda i, j: x[i, j]),
        lambda x: te.compute((4, 4), lambda i, j: x[j, i] + x[i, j]),
        lambda x: te.compute((4, 4), lambda i, j: x[i, 3 - j] + x[i, j]),
        lambda x: te.compute((4, 4), lambda i, j: x[i, 0] + x[i, j]),
        lambda x: te.compute((3, 4), lambda i, j: x[i, j] + x[i, j]),
        lambda x: te.compute((4, 4), lambda i, j: x[i, j] + tirx.Cast("float32", j)),
        lambda x: te.compute((5, 4, 4), lambda n, i, j: x[i, j] + x[i, j]),
        lambda x: te.compute((4, 4), lambda i, j: x[i, j] + tirx.Select(i < 2, x[i, j], x[0, 0])),
    ],
)
def test_other_functions_stay_calls(expression: Callable[..., Any]) -> None:
    assert ops(module(expression, (4, 4))) == ["call_tir"]


@pytest.mark.parametrize("dtype", ["int32", "float16", "float64"])
def test_other_types_stay_calls(dtype: str) -> None:
    assert ops(module(lambda x: topi.add(x, x), (4, 4), dtype=dtype)) == ["call_tir"]


@pytest.mark.parametrize("step", ["parallel", "vectorize", "split"])
def test_scheduled_functions_stay_calls(step: str) -> None:
    mod = module(lambda x: topi.add(x, x), (4, 4))
    (function,) = [var.name_hint for var in mod.get_global_vars() if var.name_hint != "main"]
    schedule = tvm.s_tir.Schedule(mod)
    schedule.work_on(function)
    loop = schedule.get_loops(schedule.get_sblock("T_add"))[-1]
    if step == "split":
        schedule.split(loop, [2, 2])
    else:
        getattr(schedule, step)(loop)
    assert ops(schedule.mod) == ["call_tir"]


@pytest.mark.parametrize("before", [(0, 0, 1, 1), (0, 0, 0, 2), (1, 2, 0, 0), (0, 0, 0, 0)])
@pytest.mark.parametrize("after", [(0, 0, 1, 1), (0, 0, 3, 0), (0, 1, 0, 0)])
def test_paddings(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    mod = module(lambda x: topi.nn.pad(x, list(before), list(after), -1.5), (1, 2, 4, 5))
    (node,) = read(mod).nodes
    assert node.op == "nn.pad"
    width = tuple(n for pair in zip(before, after, strict=True) for n in pair)
    assert node.attrs == {"pad_width": width, "pad_mode": "constant", "pad_value": -1.5}


def padding(low: int, high: int, shift: int, beyond: Any) -> Callable[..., Any]:
    """Pads a row of four numbers; elements in [low, high) are read ``shift`` further left."""

    def expression(x: Any) -> Any:
        def element(i: Any) -> Any:
            inside = tirx.And(tirx.LE(tirx.const(low, "int32"), i), i < high)
            other = x[0] if beyond is None else tirx.const(beyond, "float32")
            return tirx.if_then_else(inside, x[i - shift], other)

        return te.compute((6,), element)

    return expression


def test_other_choices_stay_calls() -> None:
    assert ops(module(padding(1, 5, 1, 0.0), (4,))) == ["nn.pad"]
    # a part of the operand, another place of it, another element beyond it
    for arguments in ((2, 5, 1, 0.0), (1, 4, 1, 0.0), (2, 5, 2, 0.0), (1, 5, 1, None)):
        assert ops(module(padding(*arguments), (4,))) == ["call_tir"]
    for pad in (topi.nn.mirror_pad, topi.nn.replicate_pad):
        assert ops(module(lambda x, pad=pad: pad(x, [1, 1], [1, 1]), (4, 4))) == ["call_tir"]


def test_only_private_functions_that_nothing_calls_go() -> None:
    mod = module(lambda x: topi.add(x, x), (4, 4))
    (called,) = [var for var in mod.get_global_vars() if var.name_hint != "main"]
    assert without_unused(mod, {called})[called].same_as(mod[called])
    private = te.create_prim_func(_square()).without_attr("global_symbol")
    public = te.create_prim_func(_square()).with_attr("global_symbol", "public")
    others = {tvm.ir.GlobalVar("private"): private, tvm.ir.GlobalVar("public"): public}
    mod.update(tvm.IRModule(others))
    names = {var.name_hint for var in without_unused(mod, set(others)).get_global_vars()}
    assert names == {"main", called.name_hint, "public"}


def _square() -> list[Any]:
    x = te.placeholder((4,), name="x")
    return [x, te.compute((4,), lambda i: x[i] * x[i])]
