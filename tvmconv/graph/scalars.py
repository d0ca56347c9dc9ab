"""Element-wise operators as scalar tensor expressions that vectorize."""

from __future__ import annotations

from collections.abc import Callable

from tvmconv.graph.ir import Node
from tvmconv.graph.rewrite.activations import epilogue_step
from tvmconv.operators import math
from tvmconv.operators.epilogue import apply_step
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor

ScalarFunction = Callable[[Expr], Expr]

_READ_ONCE = ("relu", "clip", "hardsigmoid")


_SCALARS: dict[str, ScalarFunction] = {
    "exp": math.exp,
    "log": math.log,
    "erf": math.erf,
    "abs": tirx.abs,
    "negative": lambda x: math.constant(0.0) - x,
    "square": lambda x: x * x,
    "floor": tirx.floor,
    "ceil": tirx.ceil,
    "round": tirx.nearbyint,
    "sign": math.sign,
    "sqrt": tirx.sqrt,
}


def scalar_expression(node: Node) -> ScalarFunction | None:
    """The function that a unary element-wise float32 node applies, or None for other nodes."""
    if len(node.outputs) != 1 or len(node.inputs) != 1:
        return None
    if node.output.dtype != "float32" or node.output.shape is None:
        return None
    step = epilogue_step(node)
    if step is not None and step.kind in _READ_ONCE:
        return lambda x: apply_step(x, step)
    if step is not None:
        # other steps read their operand more than once: inlining an operand with a variable
        # would define the variable twice
        return lambda x: math.bind(x, lambda v: apply_step(v, step))
    return _SCALARS.get(node.op)


def map_tensor(data: Tensor, function: ScalarFunction, name: str) -> Tensor:
    """A function applied to each element of a tensor."""
    return te.compute(data.shape, lambda *index: function(data[index]), name=name)
