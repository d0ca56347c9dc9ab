"""Writes the operators of onnxruntime's QOperator format as float operators between Q and DQ.

A CastLike becomes a Cast.

QLinearConv, for example, becomes DequantizeLinear of data, weight and bias, Conv and
QuantizeLinear. All quantized models then have one form. The scale of an INT32 bias is the product
of the scales of data and weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.frontend.integers import check_sums
from tvmconv.frontend.operators import MICROSOFT
from tvmconv.frontend.quantize_linear import LINEAR, LINEAR_OPSET, check_scale
from tvmconv.frontend.quantized_lstm import QUANTIZED_LSTM, as_lstm
from tvmconv.frontend.tensors import CODES

_EIGHT_BITS = ("int8", "uint8")
# tensor, scale, zero point
_Places = tuple[int, int, int]


@dataclass(frozen=True)
class _Form:
    """The float operator of a quantized operator, and the indices of its inputs.

    ``op`` is the float operator. ``operands`` are indices of each quantized tensor, its scale and
    its zero point. ``output`` are indices of the result's scale and zero point, and ``bias`` is the
    index of an INT32 bias. Inputs at the indices ``plain`` are passed unchanged, before the others.
    ``default`` are attributes that are supported with this value only. ``since`` is the first
    operator set with the float operator.
    """

    op: str
    operands: tuple[_Places, ...]
    output: tuple[int, int]
    bias: int | None = None
    plain: tuple[int, ...] = ()
    default: dict[str, int] = field(default_factory=dict)
    since: int = 1


_ONE, _TWO = ((0, 1, 2),), ((0, 1, 2), (3, 4, 5))
_NCHW = {"channels_last": 0}
_FORMS = {
    "QGemm": _Form("Gemm", _TWO, (7, 8), bias=6),
    "QLinearAdd": _Form("Add", _TWO, (6, 7)),
    "QLinearAveragePool": _Form("AveragePool", _ONE, (3, 4), default=_NCHW),
    "QLinearConv": _Form("Conv", _TWO, (6, 7), bias=8),
    "QLinearGlobalAveragePool": _Form("GlobalAveragePool", _ONE, (3, 4), default=_NCHW),
    "QLinearLeakyRelu": _Form("LeakyRelu", _ONE, (3, 4)),
    "QLinearMatMul": _Form("MatMul", _TWO, (6, 7)),
    "QLinearMul": _Form("Mul", _TWO, (6, 7)),
    "QLinearSigmoid": _Form("Sigmoid", _ONE, (3, 4)),
    "QLinearSoftmax": _Form("Softmax", _ONE, (3, 4)),
    "QLinearWhere": _Form("Where", ((1, 2, 3), (4, 5, 6)), (7, 8), plain=(0,), since=9),
}
# operators that have such a form
EXPANDED = frozenset({*_FORMS, "QLinearConcat", QUANTIZED_LSTM})


def in_standard_form(
    graph: OnnxGraph, node: OnnxNode, domain: str, fresh: Callable[[str], str]
) -> list[OnnxNode]:
    """The node as nodes of the default operator set; most nodes are returned unchanged.

    ``domain`` is the node's operator set, ``fresh`` makes unique names of values. Raises
    ``ModelError`` if scales or zero points are not constant or do not fit, an attribute is unknown,
    or accumulators may overflow.
    """
    if domain == MICROSOFT and node.op in LINEAR:
        opset = max(node.opset, LINEAR_OPSET)
        return [OnnxNode(node.name, node.op, node.inputs, node.outputs, node.attrs, opset)]
    if node.op == QUANTIZED_LSTM:
        return [as_lstm(graph, node, fresh)]
    if node.op == "CastLike" and node.input(1):
        # a type alone decides the result, so that a constant stays one
        target = CODES[graph.types[node.inputs[1]].dtype]
        return [
            replace(node, op="Cast", inputs=node.inputs[:1], attrs={**node.attrs, "to": target})
        ]
    if node.op == "Scatter":
        # the name before operator set 11
        return [replace(node, op="ScatterElements", opset=11)]
    form = _form(node)
    return [node] if form is None else _Expansion(graph, node, form, fresh).nodes()


def _form(node: OnnxNode) -> _Form | None:
    if node.op != "QLinearConcat":
        return _FORMS.get(node.op)
    count, rest = divmod(len(node.inputs) - 2, 3)
    if count < 1 or rest:
        raise node.error(f"{len(node.inputs)} inputs are not 2 and 3 for each tensor")
    places = tuple((2 + 3 * i, 3 + 3 * i, 4 + 3 * i) for i in range(count))
    return _Form("Concat", places, (0, 1))


class _Expansion:
    """One operator as several; the float operator keeps the name."""

    def __init__(
        self, graph: OnnxGraph, node: OnnxNode, form: _Form, fresh: Callable[[str], str]
    ) -> None:
        self._graph, self._node, self._form, self._fresh = graph, node, form, fresh
        self._before: list[OnnxNode] = []

    def nodes(self) -> list[OnnxNode]:
        """The nodes in order."""
        node, form = self._node, self._form
        attrs = self._attributes()
        inputs = [node.inputs[place] for place in form.plain]
        inputs += [self._operand(index, places) for index, places in enumerate(form.operands)]
        if form.bias is not None:
            self._check_sums()
            if node.input(form.bias):
                inputs.append(self._bias(form.bias))
        if form.op == "MatMul":
            self._check_sums()
        scale, zero_point = form.output
        if not node.input(scale) and node.op == "QGemm":
            return [*self._before, self._float(attrs, inputs, node.outputs[0])]
        middle = self._fresh(f"{node.outputs[0]}.float")
        parameters = self._parameters((form.operands[0][0], scale, zero_point), is_output=True)
        linear = OnnxNode(
            f"{node.name}.quantised", "QuantizeLinear", (middle, *parameters), node.outputs,
            {}, max(node.opset, LINEAR_OPSET),
        )  # fmt: skip
        return [*self._before, self._float(attrs, inputs, middle), linear]

    def _float(self, attrs: dict[str, object], inputs: list[str], output: str) -> OnnxNode:
        name, opset = self._node.name, max(self._node.opset, self._form.since)
        return OnnxNode(name, self._form.op, tuple(inputs), (output,), attrs, opset)

    def _attributes(self) -> dict[str, object]:
        node, attrs = self._node, dict(self._node.attrs)
        for name, value in self._form.default.items():
            if (given := attrs.pop(name, value)) != value:
                raise node.error(f"{name}={given!r} is not supported", "quantize in NCHW")
        if node.op == "QGemm":
            attrs["beta"] = 1.0
        if node.op == "QLinearSoftmax":
            rank = len(self._graph.shape(node.inputs[0]))
            # since operator set 13, Softmax has one axis; along the last axis, all sets agree
            axis = int(attrs.get("axis", -1)) % max(rank, 1)
            own = int(attrs.pop("opset", node.opset))
            if (own >= 13) != (node.opset >= 13) and axis != rank - 1:
                raise node.error(
                    f"opset={own} with axis={axis} defines another Softmax than the model's "
                    f"operator set {node.opset}",
                    "use the last axis",
                )
            attrs["axis"] = axis
        return attrs

    def _operand(self, index: int, places: _Places) -> str:
        node = self._node
        name = node.inputs[places[0]] if places[0] < len(node.inputs) else ""
        if not name:
            raise node.error(f"input {places[0]} is missing")
        scale, zero_point = self._parameters(places)
        axis = self._axis(index, name, scale)
        return self._dequantized(places[0], scale, zero_point, axis)

    def _axis(self, index: int, name: str, scale: str) -> int | None:
        """The axis of the operand's channels, if it has a scale for each channel."""
        node, shape = self._node, self._graph.shape(name)
        count = int(np.prod(self._graph.shape(scale)))
        if count == 1:
            return None
        by_operator = {
            ("QLinearConv", 1): 0,
            ("QLinearMatMul", 0): len(shape) - 2,
            ("QLinearMatMul", 1): len(shape) - 1,
            ("QGemm", 1): 0 if node.attrs.get("transB", 0) else 1,
        }
        axis = by_operator.get((node.op, index), -1)
        if axis < 0:
            raise node.error(f"scale {scale!r} has {count} values; it must have one")
        if shape[axis] != count:
            raise node.error(
                f"scale {scale!r} has {count} values, but {name!r} of shape {shape} has "
                f"{shape[axis]} channels"
            )
        return axis

    def _parameters(self, places: _Places, *, is_output: bool = False) -> tuple[str, str]:
        """Names of a scale in float32 and of a zero point of the same shape, both constant."""
        node, graph = self._node, self._graph
        data, scale_name, zero_name = (node.input(place) for place in places)
        scale = self._constant(scale_name, f"scale (input {places[1]})")
        check_scale(node, graph.types[scale_name], scale)
        # a result without a zero point has the operands' type
        zero = np.zeros((), graph.types[data].dtype)
        if zero_name:
            zero = self._constant(zero_name, f"zero point (input {places[2]})")
        expected = zero.dtype if is_output else graph.types[data].dtype
        if str(zero.dtype) != str(expected) or str(expected) not in _EIGHT_BITS:
            raise node.error(
                f"zero point {zero_name!r} is {zero.dtype}, but {data!r} is {expected}; both must "
                f"be {' or '.join(_EIGHT_BITS)}"
            )
        if max(scale.ndim, zero.ndim) > 1 or (zero.size > 1 and zero.size != scale.size):
            raise node.error(
                f"scale {scale_name!r} has shape {scale.shape} and zero point {zero_name!r} "
                f"{zero.shape}; they must be scalars, or vectors of one length"
            )
        if scale.size == 1:
            scale, zero = scale.reshape(()), zero.reshape(())
        return (
            self._same(scale_name, scale.astype(np.float32)),
            self._same(zero_name, np.array(np.broadcast_to(zero, scale.shape))),
        )

    def _constant(self, name: str, what: str) -> Array:
        if name not in self._graph.constants:
            raise self._node.error(
                f"its {what} is {'computed at run time' if name else 'missing'}",
                "store it as a constant in the model",
            )
        return self._graph.constants[name]

    def _same(self, name: str, value: Array) -> str:
        """The name of the model's constant, or of a new one if the value has another form."""
        old = self._graph.constants.get(name)
        if old is not None and old.dtype == value.dtype and old.shape == value.shape:
            return name
        return self._graph.add_constant(self._fresh(name or f"{self._node.name}.zero"), value)

    def _dequantized(self, place: int, scale: str, zero_point: str, axis: int | None) -> str:
        node, name = self._node, self._node.inputs[place]
        output = self._fresh(f"{name}.dequantised")
        inputs = (name, scale, zero_point) if zero_point else (name, scale)
        attrs = {} if axis is None else {"axis": axis}
        opset = max(node.opset, LINEAR_OPSET)
        self._before.append(
            OnnxNode(
                f"{node.name}.input{place}", "DequantizeLinear", inputs, (output,), attrs, opset
            )
        )
        return output

    def _bias(self, place: int) -> str:
        node, graph = self._node, self._graph
        info = graph.types[node.inputs[place]]
        if info.dtype != "int32":
            raise node.error(f"bias {info.name!r} is {info.dtype}, not int32")
        data, weight = (self._constant(node.inputs[p[1]], "scale") for p in self._form.operands)
        scale = data.astype(np.float32).reshape(()) * weight.astype(np.float32).reshape(-1)
        if node.op == "QGemm":
            scale = scale * np.float32(node.attrs.get("alpha", 1.0))
        channels = info.shape[-1] if info.shape else 1
        if scale.size > 1 and scale.size != channels:
            raise node.error(
                f"bias {info.name!r} of shape {info.shape} does not fit {scale.size} scales"
            )
        axis = None if scale.size == 1 else len(info.shape) - 1
        scale = scale.reshape(()) if scale.size == 1 else scale
        name = graph.add_constant(self._fresh(f"{info.name}.scale"), scale.astype(np.float32))
        return self._dequantized(place, name, "", axis)

    def _check_sums(self) -> None:
        node, graph, places = self._node, self._graph, self._form.operands[1]
        weight = graph.constants.get(node.inputs[places[0]])
        zero = graph.constants.get(node.input(places[2]), np.zeros((), np.int8))
        bias = graph.constants.get(node.input(self._form.bias)) if self._form.bias else None
        if weight is None or weight.ndim < 2:
            return
        if node.op != "QLinearConv" and not node.attrs.get("transB", 0):
            weight = np.swapaxes(weight, -1, -2)
            # a stack of matrices
            weight = weight.reshape(-1, weight.shape[-1])
            zero = (
                np.broadcast_to(zero, (len(weight),))
                if zero.size == 1
                else np.resize(zero, len(weight))
            )
        shape = (-1, *[1] * (weight.ndim - 1))
        if bias is not None and bias.shape != (len(weight),):
            bias = np.broadcast_to(np.abs(bias).max(initial=0), (len(weight),))
        check_sums(node, weight, zero.reshape(shape), bias)
