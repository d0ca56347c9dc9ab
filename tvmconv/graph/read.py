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


def type_of(expr: RelaxExpr) -> tuple[tuple[int, ...] | None, str]:
    """Static shape (None where unknown or no tensor) and dtype of a Relax expression's type."""
    ty = expr.ty
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
    """Nodes of straight-line bindings in administrative normal form.

    Parameters
    ----------
    bindings
        Relax ``VarBinding`` s without control flow.
    environment
        What the variables defined before stand for.
    layer_name
        Function that gives the reported name of a bound variable; by default its own name.

    Returns
    -------
    tuple
        The nodes, and the environment with the new variables added.
    """
    reader = _Reader(dict(environment), layer_name or _own_name)
    for binding in bindings:
        reader.read(binding)
    return reader.nodes, reader.environment


def _own_name(var: RelaxVar) -> str:
    return str(var.name)


def is_readable(binding: Binding) -> bool:
    """Whether :func:`read_bindings` takes a binding: no control flow, no match-cast."""
    return isinstance(binding, relax.VarBinding) and not isinstance(
        binding.value, relax.If | relax.Function | relax.SeqExpr
    )


def read_function(func: Function, layer_name: Callable[[RelaxVar], str] | None = None) -> Graph:
    """The graph of a function that is one straight line.

    Raises
    ------
    ValueError
        If the function holds control flow or returns nested tuples.
    """
    inputs = {param: value_of(param) for param in func.params}
    nodes: list[Node] = []
    environment: dict[RelaxVar, Bound] = dict(inputs)
    for block in func.body.blocks:
        if not all(is_readable(binding) for binding in block.bindings):
            raise ValueError("the function holds control flow")
        new, environment = read_bindings(block.bindings, environment, layer_name)
        nodes += new
    result = _Reader(environment, _own_name).argument(func.body.body)
    outputs = result if isinstance(result, list) else [result]
    if not all(isinstance(value, Value) for value in outputs):
        raise ValueError("the function returns a value that is not a tensor")
    return Graph(list(inputs.values()), nodes, outputs)


def value_of(var: RelaxVar) -> Value:
    """A value for a Relax variable."""
    shape, dtype = type_of(var)
    return Value(shape, dtype, str(var.name))


class _Reader:
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
        node = Node(op, [self.argument(arg) for arg in call.args], call=call)
        node.attrs = attributes(call)
        node.layer = self.layer_name(var)
        return self._bind(var, node)

    def _opaque(self, var: RelaxVar, expr: RelaxExpr, args: list[Arg]) -> Bound:
        return self._bind(var, Node("opaque", args, call=expr, layer=str(var.name)))

    def _bind(self, var: RelaxVar, node: Node) -> Bound:
        self.nodes.append(node)
        fields = getattr(var.ty, "fields", None)
        if fields is None:
            shape, dtype = type_of(var)
            node.outputs = [Value(shape, dtype, str(var.name), None, node)]
            return node.outputs[0]
        for index, field in enumerate(fields):
            shape, dtype = _field_type(field)
            node.outputs.append(Value(shape, dtype, f"{var.name}_{index}", None, node))
        return list(node.outputs)


def _field_type(ty: Any) -> tuple[tuple[int, ...] | None, str]:
    class _Typed:
        def __init__(self) -> None:
            self.ty = ty

    return type_of(_Typed())


def _constant(expr: Any) -> Value:
    data = expr.value
    shape, dtype = type_of(expr)
    array = np.asarray(data.numpy()) if dtype == "bfloat16" else np.from_dlpack(data)
    return constant(array.reshape(shape), dtype=dtype)
