"""Relax bindings -> :class:`~tvmconv.graph.ir.Graph`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tvmconv.graph.ir import Arg, Graph, Node, Value, constant
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.ir import Call, GenericConst, Op
from tvmconv.tvm_api.types import Binding, Function, RelaxExpr, RelaxVar

# a tensor, or a tuple of them
Bound = Value | list[Arg]


def _type(ty: Any) -> tuple[tuple[int, ...] | None, str]:
    """Static shape (None if unknown or not a tensor) and dtype of a Relax type."""
    if not isinstance(ty, relax.TensorType):
        return None, ""
    dtype = str(ty.dtype)
    if not isinstance(ty.shape, relax.ShapeExpr):
        return None, dtype
    try:
        return tuple(int(size) for size in ty.shape.values), dtype
    except (TypeError, ValueError):
        return None, dtype


def attributes(call: Any) -> dict[str, Any]:
    """A call's attributes as plain Python numbers, strings and tuples."""
    if call.attrs is None:
        return {}
    names = [n for n in dir(call.attrs) if not n.startswith("_") and n != "id_"]
    values = {name: getattr(call.attrs, name) for name in names}
    return {name: _plain(value) for name, value in values.items() if not callable(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if hasattr(value, "value") and isinstance(value.value, int | float):
        return value.value
    if hasattr(value, "__len__") and hasattr(value, "__getitem__"):
        return tuple(_plain(value[i]) for i in range(len(value)))
    return value


def read_bindings(
    bindings: Iterable[Binding],
    environment: Mapping[RelaxVar, Bound],
    layer_name: Callable[[RelaxVar], str] | None = None,
) -> tuple[list[Node], dict[RelaxVar, Bound]]:
    """Nodes of bindings without control flow, and the environment with the new variables.

    ``environment`` holds the values of earlier variables. ``layer_name`` returns the reported name
    of a variable, by default its own name.
    """
    reader = _BindingReader(dict(environment), layer_name or _own_name)
    for binding in bindings:
        reader.read(binding)
    return reader.nodes, reader.environment


def _own_name(var: RelaxVar) -> str:
    return str(var.name)


def is_readable(binding: Binding) -> bool:
    """Whether :func:`read_bindings` reads a binding: no control flow, no match-cast."""
    return isinstance(binding, relax.VarBinding) and not isinstance(
        binding.value, relax.If | relax.Function | relax.SeqExpr
    )


def read_function(func: Function, layer_name: Callable[[RelaxVar], str] | None = None) -> Graph:
    """The graph of a function without control flow.

    Raises ``ValueError`` if the function holds control flow or returns nested tuples.
    """
    inputs = {param: value_of(param) for param in func.params}
    nodes: list[Node] = []
    environment: dict[RelaxVar, Bound] = dict(inputs)
    for block in func.body.blocks:
        if not all(is_readable(binding) for binding in block.bindings):
            raise ValueError("the function holds control flow")
        new, environment = read_bindings(block.bindings, environment, layer_name)
        nodes += new
    result = _BindingReader(environment, _own_name).argument(func.body.body)
    outputs = result if isinstance(result, list) else [result]
    if not all(isinstance(value, Value) for value in outputs):
        raise ValueError("the function returns a value that is not a tensor")
    return Graph(list(inputs.values()), nodes, outputs)


def value_of(var: RelaxVar) -> Value:
    """A value for a Relax variable."""
    return Value(*_type(var.ty), str(var.name))


class _BindingReader:
    def __init__(
        self, environment: dict[RelaxVar, Bound], layer_name: Callable[[RelaxVar], str]
    ) -> None:
        self.environment = environment
        self.layer_name = layer_name
        self.nodes: list[Node] = []

    def read(self, binding: Binding) -> None:
        var, expr = binding.var, binding.value
        if isinstance(expr, Call):
            self.environment[var] = self._call(var, expr)
        elif isinstance(expr, relax.TupleGetItem):
            source = self.argument(expr.tuple_value)
            if isinstance(source, list):
                self.environment[var] = source[expr.index]
            else:
                self.environment[var] = self._opaque(var, expr, [source])
        else:
            bound = self.argument(expr)
            known = isinstance(bound, Value | list)
            self.environment[var] = bound if known else self._opaque(var, expr, [])

    def argument(self, expr: RelaxExpr) -> Arg:
        if isinstance(expr, relax.Var) and expr in self.environment:
            return self.environment[expr]
        if isinstance(expr, GenericConst):
            return _constant(expr)
        if isinstance(expr, relax.Tuple):
            return [self.argument(field) for field in expr.fields]
        return expr

    def _call(self, var: RelaxVar, call: Any) -> Bound:
        op = call.op.name.removeprefix("relax.") if isinstance(call.op, Op) else "call"
        args = [self.argument(arg) for arg in call.args]
        node = Node(op, args, [], attributes(call), call, self.layer_name(var))
        return self._bind(var, node)

    def _opaque(self, var: RelaxVar, expr: RelaxExpr, args: list[Arg]) -> Bound:
        return self._bind(var, Node("opaque", args, call=expr, layer=str(var.name)))

    def _bind(self, var: RelaxVar, node: Node) -> Bound:
        self.nodes.append(node)
        fields = getattr(var.ty, "fields", None)
        if fields is None:
            node.outputs = [Value(*_type(var.ty), str(var.name), None, node)]
            return node.outputs[0]
        for index, field in enumerate(fields):
            node.outputs.append(Value(*_type(field), f"{var.name}_{index}", None, node))
        return list(node.outputs)


def _constant(expr: Any) -> Value:
    data = expr.value
    shape, dtype = _type(expr.ty)
    array = np.asarray(data.numpy()) if dtype == "bfloat16" else np.from_dlpack(data)
    return constant(array.reshape(shape), dtype=dtype)
