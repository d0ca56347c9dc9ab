"""Calls of element-wise functions and of padding -> the operators that the functions compute.

TVM's importers write some operators as functions. TVM's ONNX importer writes a Clip as calls of
``topi.maximum`` and ``topi.minimum``, and a Pad as a call of ``topi.nn.pad``. The operator is found
by reading the one statement of the function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmconv.graph.ir import Graph, Node, Value, constant, make_node
from tvmconv.tvm_api import ffi, ir, s_tir, tirx
from tvmconv.tvm_api.types import GlobalVar, IRModule, PrimFunc

# maximum and minimum keep a NaN, as in ONNX; TIR's functions may return either operand
_BINARY = {
    tirx.Add: "add",
    tirx.Sub: "subtract",
    tirx.Mul: "multiply",
    tirx.Div: "divide",
    tirx.Max: "maximum",
    tirx.Min: "minimum",
}
_UNARY = {"tirx.sigmoid": "sigmoid", "tirx.tanh": "tanh"}


def read_functions(graph: Graph, mod: IRModule) -> set[GlobalVar]:
    """Replace calls of functions of ``mod`` in a graph, in place.

    Two kinds of unscheduled FP32 functions are replaced:

    - element-wise arithmetic, extremes, sigmoid and tanh of operands that may be broadcast
    - padding of one operand by a number

    Returns the ``GlobalVar`` s of functions of which a call was replaced.
    """
    replaced: set[GlobalVar] = set()

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        steps = _steps(node, mod) if node.op == "call_tir" else []
        if not steps:
            return [node]
        mapping[node.output] = steps[-1].output
        replaced.add(node.args[0])
        return steps

    graph.forward(visit)
    return replaced


def without_unused(mod: IRModule, candidates: set[GlobalVar]) -> IRModule:
    """A module without the candidates that are private and not called."""
    called: set[str] = set()
    for _, func in mod.functions_items():
        ffi.structural_walk(func, (ir.GlobalVar, lambda var: called.add(var.name_hint)))
    dead = {var.name_hint for var in candidates} - called
    kept = {
        var: func
        for var, func in mod.functions_items()
        if var.name_hint not in dead or (func.attrs and "global_symbol" in func.attrs)
    }
    return ir.IRModule(kept, attrs=mod.attrs)


def _steps(node: Node, mod: IRModule) -> list[Node]:
    """The operators that a call computes, in order; none for other functions."""
    symbol, operands = node.args[0], node.inputs
    if len(node.args) != 2 or len(node.outputs) != 1 or node.output.shape is None:
        return []
    func = mod[symbol]
    if not isinstance(func, tirx.PrimFunc) or len(func.params) != len(operands) + 1:
        return []
    plain = _statement(func, node.output.shape)
    if plain is None or node.output.dtype != "float32":
        return []
    store, axes = plain
    named = dict(zip(func.params[:-1], operands, strict=True))
    if getattr(getattr(store.value, "op", None), "name", "") == "prim.if_then_else":
        return _padding(store.value, named, axes, node)
    reader = _Expression(named, axes, node)
    result = reader.read(store.value)
    # a load alone is a copy or a broadcast
    computed = result is not None and result.shape == node.output.shape
    return reader.steps if computed else []


def _statement(func: PrimFunc, shape: tuple[int, ...]) -> tuple[Any, list[Any]] | None:
    """The store and the axes of a function that is one loop nest over its last parameter."""
    if not isinstance(func.body, s_tir.SBlockRealize) or func.body.block.alloc_buffers:
        return None
    loops, inner = [], func.body.block.body
    while isinstance(inner, tirx.For):
        if inner.kind != tirx.ForKind.SERIAL or inner.annotations:
            return None
        loops.append(inner.loop_var)
        inner = inner.body
    if not isinstance(inner, s_tir.SBlockRealize) or not _is_int(inner.predicate, 1):
        return None
    block = inner.block
    axes = [axis.var for axis in block.iter_vars]
    store = block.body
    plain = (
        isinstance(store, tirx.BufferStore)
        and not block.alloc_buffers
        and block.init is None
        and len(axes) == len(shape)
        and all(axis.iter_type == tirx.IterVar.DataPar for axis in block.iter_vars)
        and all(map(_is_int, (axis.dom.extent for axis in block.iter_vars), shape))
        and _same(inner.iter_values, loops)
        and store.buffer.same_as(func.params[-1])
        and _same(store.indices, axes)
    )
    return (store, axes) if plain else None


def _same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(a.same_as(b) for a, b in zip(left, right, strict=True))


def _is_int(expr: Any, value: int) -> bool:
    return _number(expr) == value


class _Expression:
    """Reads the expression that a function stores."""

    def __init__(self, operands: Mapping[Any, Value], axes: list[Any], node: Node) -> None:
        self.operands = operands
        self.axes = axes
        self.node = node
        self.steps: list[Node] = []

    def read(self, expr: Any) -> Value | None:
        """The value of an expression, or None if a part of it is not a known operator."""
        if isinstance(expr, tirx.FloatImm):
            return constant(np.array(expr.value, np.float32))
        if isinstance(expr, ir.TensorLoad):
            return self._load(expr)
        if isinstance(expr, ir.Call):
            op = _UNARY.get(getattr(expr.op, "name", ""))
            return self._step(op, list(expr.args)) if op else None
        op = _BINARY.get(type(expr))
        return self._step(op, [expr.a, expr.b]) if op else None

    def _load(self, load: Any) -> Value | None:
        """An operand that is read at the index of the result, or broadcast along axes."""
        value = self.operands.get(load.source)
        if value is None or value.shape is None or value.dtype != "float32":
            return None
        rank, axes = len(value.shape), self.axes
        if rank > len(axes):
            return None
        extents = self.node.output.dims[len(axes) - rank :]
        aligned = zip(load.indices, axes[len(axes) - rank :], value.shape, extents, strict=True)
        for index, axis, size, extent in aligned:
            follows = index.same_as(axis) and size == extent
            if not follows and not (size == 1 and _is_int(index, 0)):
                return None
        return value

    def _step(self, op: str, parts: list[Any]) -> Value | None:
        args = [self.read(part) for part in parts]
        if any(arg is None for arg in args):
            return None
        shape = np.broadcast_shapes(*(arg.dims for arg in args if arg is not None))
        self.steps.append(make_node(op, args, shape, layer=self.node.layer))
        return self.steps[-1].output


def _padding(choice: Any, operands: Mapping[Any, Value], axes: list[Any], node: Node) -> list[Node]:
    """``if_then_else(inside, x[i - before, ...], number)`` as a padding."""
    inside, load, number = choice.args
    if not isinstance(load, ir.TensorLoad) or not isinstance(number, tirx.FloatImm):
        return []
    source, shape = operands.get(load.source), node.output.dims
    if source is None or source.dtype != "float32" or len(source.shape or ()) != len(shape):
        return []
    before = [_shift(index, axis) for index, axis in zip(load.indices, axes, strict=True)]
    ranges = _ranges(inside, axes, shape)
    if not ranges:
        return []
    width: list[int] = []
    for begin, size, extent, limits in zip(before, source.dims, shape, ranges, strict=True):
        if begin is None or limits != (begin, begin + size) or begin + size > extent:
            return []
        width += [begin, extent - begin - size]
    attrs = {"pad_width": tuple(width), "pad_mode": "constant", "pad_value": number.value}
    return [make_node("nn.pad", [source], shape, layer=node.layer, attrs=attrs)]


def _shift(index: Any, axis: Any) -> int | None:
    """The number that an index subtracts from an axis; None for other indices."""
    if index.same_as(axis):
        return 0
    shifted = isinstance(index, tirx.Sub) and index.a.same_as(axis)
    return _number(index.b) if shifted else None


def _number(expr: Any) -> int | None:
    return int(expr.value) if isinstance(expr, tirx.IntImm) else None


def _ranges(condition: Any, axes: list[Any], shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """The interval of each axis in which a condition holds; none for other conditions."""
    low, high = [0] * len(axes), list(shape)
    pending = [condition]
    while pending:
        term = pending.pop()
        if isinstance(term, tirx.And):
            pending += [term.a, term.b]
            continue
        is_minimum = isinstance(term, tirx.LE)
        if not is_minimum and not isinstance(term, tirx.LT):
            return []
        axis, bound = (term.b, _number(term.a)) if is_minimum else (term.a, _number(term.b))
        place = next((i for i, var in enumerate(axes) if var.same_as(axis)), None)
        if place is None or bound is None:
            return []
        if is_minimum:
            low[place] = max(low[place], bound)
        else:
            high[place] = min(high[place], bound)
    return list(zip(low, high, strict=True))
