"""Where other runtimes are no reference: ONNX leaves a result open, or one of them deviates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_max_pool

# said by Python where a model rounds infinity or NaN to an integer, such as GridSample's indices:
# C leaves open what the integer is, so that runtimes and processors differ
UNDEFINED = ("cannot convert float infinity to integer", "cannot convert float NaN to integer")
_RANKING = ("ArgMax", "ArgMin", "GlobalMaxPool", "MaxPool", "ReduceMax", "ReduceMin", "TopK")


class LpNormalization(OpRun):
    """By the definition: onnx's own sums x, not its magnitude, for p=1."""

    op_domain = ""

    def _run(self, x: Any, axis: int | None = None, p: int | None = None) -> tuple[Any]:
        norm = np.linalg.norm(
            x.astype(float), 2 if p is None else p, -1 if axis is None else axis, keepdims=True
        )
        return (np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm)).astype(x.dtype),)


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
            raise ValueError("a window lies in the padding")
        return result


def reference(model: onnx.ModelProto) -> ReferenceEvaluator:
    """onnx's evaluator, its known errors mended."""
    return ReferenceEvaluator(model, new_ops=[LpNormalization, MaxPool])


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


def ranks_nan(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> bool:
    """Whether an operator meets NaN whose result depends on its place among numbers, left open."""
    names = [node.input[0] for node in model.graph.node if node.op_type in _RANKING]
    if not names:
        return False
    try:
        with np.errstate(all="ignore"):
            values = reference(model).run(names, dict(feeds))
    except Exception:  # whatever onnx raises, then nothing is known of the values
        return False
    return any(np.isnan(np.asarray(value, float)).any() for value in values)
