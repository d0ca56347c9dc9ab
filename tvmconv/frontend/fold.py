"""Evaluates operators whose operands are all constants.

Shape-computing sub-graphs end here, because every shape is static. Values come from
``onnx.reference``; only cheap, bounded operators are evaluated, so a hostile model cannot make
the reader compute for long.
"""

from __future__ import annotations

import warnings
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmconv.frontend.graph import Array, Node
from tvmconv.frontend.limits import MAX_FOLDED_BYTES
from tvmconv.runtime.tensor import TensorInfo

# results may be as large as a tensor can be: one pass over memory
_MOVES = {"Cast", "ConstantOfShape", "Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
_CHEAP = {
    "Abs", "Add", "And", "Ceil", "Clip", "Concat", "CumSum", "Div", "Equal", "Exp", "Expand",
    "Floor", "Gather", "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Less",
    "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "NonZero", "Not", "OneHot", "Or",
    "Pow", "Range", "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "Relu", "Round", "ScatterND", "Sigmoid", "Sign", "Slice", "Split", "Sqrt",
    "Sub", "Sum", "Tile", "Where", "Xor",
}  # fmt: skip


def can_fold(node: Node, operands: list[Array], outputs: list[TensorInfo] | None) -> bool:
    """Whether evaluating the node is allowed.

    ``outputs`` is what shape inference found, ``None`` where it found nothing; then only
    operators whose result is bounded by their operands qualify.
    """
    if node.op in _MOVES:
        return outputs is not None
    if node.op not in _CHEAP:
        return False
    if outputs is None:
        bounded = node.op in {"NonZero", "Range"}
        return bounded and _dynamic_bytes(node, operands) <= MAX_FOLDED_BYTES
    written = sum(prod(o.shape) * np.dtype(o.dtype).itemsize for o in outputs)
    return written + sum(a.nbytes for a in operands) <= MAX_FOLDED_BYTES


def _dynamic_bytes(node: Node, operands: list[Array]) -> float:
    if node.op == "NonZero":
        return float(operands[0].size * max(operands[0].ndim, 1) * 8)
    start, limit, delta = (float(a.reshape(-1)[0]) for a in operands)
    if not delta or not np.isfinite([start, limit, delta]).all():
        return float("inf")
    return max((limit - start) / delta, 0.0) * 8


def evaluate(node: Node, proto: onnx.NodeProto, operands: dict[str, Array]) -> list[Array]:
    """The node's outputs as arrays.

    Raises
    ------
    ModelError
        The operator cannot be evaluated on these operands.
    """
    if node.op == "ConstantOfShape":
        return [_fill(node, operands)]
    if node.op == "Reshape" and node.input(1):
        return [_reshape(node, operands)]
    from onnx.reference import ReferenceEvaluator

    graph = helper.make_graph(
        [proto],
        "fold",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in operands.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in node.outputs if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", node.opset)])
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(model).run(None, dict(operands))
        return [np.ascontiguousarray(r).reshape(np.shape(r)) for r in results]
    except Exception as error:
        raise node.error(
            f"its constant operands cannot be evaluated ({error})",
            "correct the model and export it again",
        ) from None


def _fill(node: Node, operands: dict[str, Array]) -> Array:
    shape = tuple(int(n) for n in operands[node.inputs[0]].reshape(-1))
    value = node.attrs.get("value", np.zeros(1, np.float32))
    return np.full(shape, value.reshape(-1)[0], value.dtype)


def _reshape(node: Node, operands: dict[str, Array]) -> Array:
    data, target = operands[node.inputs[0]], operands[node.inputs[1]].reshape(-1)
    keep = not node.attrs.get("allowzero", 0)
    sizes = [
        data.shape[i] if n == 0 and keep and i < data.ndim else int(n) for i, n in enumerate(target)
    ]
    try:
        return data.reshape(sizes)
    except ValueError:
        raise node.error(
            f"cannot reshape a constant of shape {data.shape} to {sizes}",
            "correct the model and export it again",
        ) from None


def decode_attributes(proto: onnx.NodeProto, where: str) -> dict[str, object]:
    """Attributes as plain Python values; tensors as arrays, graphs as they are."""
    from tvmconv.frontend.tensors import decode_tensor

    attrs: dict[str, object] = {}
    for attribute in proto.attribute:
        value: object
        kind = attribute.type
        if kind == onnx.AttributeProto.TENSOR:
            value = decode_tensor(attribute.t, f"{where}: attribute {attribute.name!r}")
        elif kind == onnx.AttributeProto.STRING:
            value = attribute.s.decode("utf-8", "replace")
        elif kind == onnx.AttributeProto.STRINGS:
            value = tuple(s.decode("utf-8", "replace") for s in attribute.strings)
        else:
            value = helper.get_attribute_value(attribute)
            if isinstance(value, list):
                value = tuple(value)
        attrs[attribute.name] = value
    return attrs


def constant_value(node: Node) -> Array:
    """Value of a Constant node."""
    for name, dtype in (
        ("value", None),
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if name in node.attrs:
            return np.asarray(node.attrs[name], dtype)
    raise node.error(
        f"its value is given as {', '.join(node.attrs) or 'nothing'}, which is not supported",
        "use a dense numeric tensor",
    )


def as_tensor(value: Array) -> onnx.TensorProto:
    """A ``TensorProto`` of an array, for shape inference."""
    return numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape))
