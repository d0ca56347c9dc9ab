"""Other runtimes are not a reference here: ONNX leaves a result open, or one of them deviates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, inliner
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_attention, op_max_pool
from onnx.reference.ops.op_conv import _conv_implementation

from tests.fuzz.microsoft_references import REFERENCES

# Python says so where a model rounds infinity or NaN to an integer, such as GridSample's indices. C
# leaves open which integer results, so runtimes and processors differ
UNDEFINED = ("cannot convert float infinity to integer", "cannot convert float NaN to integer")
# the document of a graph in which integers are rounded that runtimes round otherwise
ROUNDS = "rounds"
_RANKING = ("ArgMax", "ArgMin", "GlobalMaxPool", "MaxPool", "ReduceMax", "ReduceMin", "TopK")
_SPREADING = ("Conv", "ConvTranspose", "Gemm", "LRN", "MatMul", "Resize")
# whose states may grow beyond all numbers
_RECURRENT = ("GRU", "LSTM", "RNN")


class LpNormalization(OpRun):
    """By the definition: onnx's own sums x, not its magnitude, for p=1."""

    op_domain = ""

    def _run(self, x: Any, axis: int | None = None, p: int | None = None) -> tuple[Any]:
        norm = np.linalg.norm(
            x.astype(float), 2 if p is None else p, -1 if axis is None else axis, keepdims=True
        )
        return (np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm)).astype(x.dtype),)


class LRN(OpRun):
    """By the definition, of any rank: onnx's own has sums for as many channels as images."""

    op_domain = ""

    def _run(
        self, x: Any, alpha: Any = None, beta: Any = None, bias: Any = None, size: Any = None
    ) -> Any:
        squares, below, above = np.square(x.astype(float)), (size - 1) // 2, size // 2
        total = np.empty_like(squares)
        for c in range(x.shape[1]):
            total[:, c] = squares[:, max(c - below, 0) : c + above + 1].sum(axis=1)
        return ((x / (bias + alpha / size * total) ** beta).astype(x.dtype),)


class MaxPool(op_max_pool.MaxPool):
    """By onnx's method for strides, which takes ``pads`` as defined: all begins, then all ends.

    The one that onnx has for windows of stride 1 takes begin and end of each axis in turn.
    """

    op_domain = ""

    def _run(self, x: Any, pads: Any = None, **attributes: Any) -> Any:
        if not pads or not any(pads):
            return super()._run(x, pads=pads, **attributes)
        result = self._max_pool(x, pads=pads, **attributes)
        # a window without any element, which has no largest one, leaves zero
        if not np.all(self._max_pool(np.ones_like(x), pads=pads, **attributes)[0]):
            raise ValueError("a window is in the padding")
        return result


class GlobalMaxPool(OpRun):
    """Accepts images of any rank; onnx's own drops an axis of rows."""

    op_domain = ""

    def _run(self, x: Any) -> tuple[Any]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class Attention(op_attention.Attention):
    """The raw scores, as the function that defines it; onnx's own gives them after softcap."""

    op_domain = ""
    _validate_attention25 = False

    def _run(self, *operands: Any, **attributes: Any) -> Any:
        results = super()._run(*operands, **attributes)
        if attributes.get("qk_matmul_output_mode") or not attributes.get("softcap"):
            return results
        raw = super()._run(*operands, **{**attributes, "softcap": None})
        return (*results[:3], raw[3])


class QLinearMatMul(OpRun):
    """Ties to even before the zero point is added; onnx's own rounds the sum."""

    op_domain = ""

    def _run(
        self, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
        y_scale: Any, y_zero: Any,
    ) -> Any:  # fmt: skip
        sums = np.matmul(a.astype(np.int32) - a_zero, b.astype(np.int32) - b_zero)
        return _requantized(sums * (a_scale * b_scale / y_scale), y_zero)


class QLinearConv(OpRun):
    """As QLinearMatMul; onnx's own also adds an axis to rows with a scale for each channel."""

    op_domain = ""

    def _run(
        self, x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any,
        y_scale: Any, y_zero: Any, bias: Any = None, **attributes: Any,
    ) -> Any:  # fmt: skip
        kernels = w.astype(np.int32) - w_zero.reshape(-1, *[1] * (w.ndim - 1))
        given = {name: value or getattr(self, name) for name, value in attributes.items()}
        sums = _conv_implementation(x.astype(np.int32) - x_zero, kernels, bias, **given)
        scale = x_scale * w_scale.reshape(-1, *[1] * (w.ndim - 2)) / y_scale
        return _requantized(sums * scale, y_zero)


def _requantized(values: Any, zero_point: Any) -> tuple[Any]:
    ends = np.iinfo(zero_point.dtype)
    whole = np.rint(values) + zero_point.astype(float)
    return (np.clip(whole, ends.min, ends.max).astype(zero_point.dtype),)


class _Joined(OpRun):
    """Before operator set 13: over all axes from ``axis`` on; onnx's own has the newer meaning."""

    op_domain = ""
    logarithm = False

    def _run(self, x: Any, axis: int | None = None) -> tuple[Any]:
        # without one, the axis is the newer default
        given = any(attribute.name == "axis" for attribute in self.onnx_node.attribute)
        first = (axis if given and axis is not None else 1) % max(x.ndim, 1)
        rows = x.reshape(int(np.prod(x.shape[:first])), -1)
        shifted = rows - rows.max(axis=1, keepdims=True)
        total = np.exp(shifted).sum(axis=1, keepdims=True)
        y = shifted - np.log(total) if self.logarithm else np.exp(shifted) / total
        return (y.reshape(x.shape).astype(x.dtype),)


class Softmax(_Joined):
    """For operator sets 1 to 12."""


class LogSoftmax(_Joined):
    """For operator sets 1 to 12."""

    logarithm = True


def reference(model: onnx.ModelProto) -> ReferenceEvaluator:
    """onnx's evaluator with its known errors fixed."""
    corrected: list[type[OpRun]] = [
        Attention, GlobalMaxPool, LRN, LpNormalization, MaxPool, QLinearConv, QLinearMatMul,
        *REFERENCES,
    ]  # fmt: skip
    opset = next((o.version for o in model.opset_import if o.domain == ""), 13)
    if opset < 13:
        corrected += [Softmax, LogSoftmax]
    # the evaluator of a function would not have them
    return ReferenceEvaluator(inlined(model), new_ops=corrected)


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without functions of its own."""
    return inliner.inline_local_functions(model) if model.functions else model


def skips_input(model: onnx.ModelProto) -> bool:
    """Whether ``auto_pad`` asks for as many windows as leave some input out.

    The padding that makes them so many is negative. onnx's shape inference and TensorFlow, where
    this padding is from, take it as none; onnxruntime crops the input's start.
    """
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if not attributes.get("auto_pad", b"").startswith(b"SAME"):
            continue
        strides, kernel = attributes.get("strides", ()), attributes.get("kernel_shape", ())
        if any(stride > size for stride, size in zip(strides, kernel, strict=False)):
            return True
    return False


def deviates(node: onnx.NodeProto, given: Mapping[str, np.ndarray]) -> bool:
    """Whether onnxruntime deviates from onnx in a node.

    It cuts the fractions of integers that a Resize interpolates, where onnx rounds. It aligns the
    corners of an image's whole size, where onnx takes the product with the scale, as tvmconv's page
    of numerics says. It does not wrap the sums of an Einsum of integers.
    """
    if node.op_type == "Einsum":
        return given[node.input[0]].dtype.kind in "iu"
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type != "Resize":
        return False
    mixes = attributes.get("mode", b"nearest") != b"nearest"
    cuts = mixes and given[node.input[0]].dtype.kind in "iu"
    return cuts or attributes.get("coordinate_transformation_mode") == b"align_corners"


def disputes(model: onnx.ModelProto, values: Mapping[str, Any]) -> bool:
    """Whether a result depends on what ONNX leaves open about values that are not finite.

    Examples are the place of NaN among numbers, and how far a window kernel spreads infinity and
    NaN. Some kernels multiply zeros where others leave them out. ``values`` are the known values of
    the model. So does the truth of numbers that would be zero without rounding.
    """
    ranking = [node.input[0] for node in model.graph.node if node.op_type in _RANKING]
    spreading = [
        name for node in model.graph.node if node.op_type in _SPREADING for name in node.input[:2]
    ]

    spreading += [
        name for node in model.graph.node if node.op_type in _RECURRENT for name in node.output
    ]

    def known(names: Sequence[str]) -> list[np.ndarray]:
        return [np.asarray(values[name], float) for name in names if name in values]

    if any(map(_nearly_zero, known([n.input[0] for n in model.graph.node if _asks_zero(n)]))):
        return True
    return any(np.isnan(array).any() for array in known(ranking)) or not all(
        np.isfinite(array).all() for array in known(spreading)
    )


def _asks_zero(node: onnx.NodeProto) -> bool:
    """Whether a node asks which numbers are zero."""
    to = [helper.get_attribute_value(a) for a in node.attribute if a.name == "to"]
    return node.op_type == "NonZero" or (node.op_type == "Cast" and to == [onnx.TensorProto.BOOL])


def _nearly_zero(array: np.ndarray) -> bool:
    size = np.abs(array)
    return bool(((size > 0) & (size < 1e-6 * size.max(initial=0))).any())
