"""Small ONNX networks of 8-bit layers in QDQ form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from tests.graph.network import Net


class QuantisedNet(Net):
    """Scales are not fractions of few bits, which would make exact ties; seeded.

    ``shape`` is the shape of the FP32 input, ``dtype`` the type of activations.
    """

    def __init__(self, *shape: int, seed: int = 0, dtype: Any = np.uint8) -> None:
        super().__init__(*shape, seed=seed)
        self.dtype = np.dtype(dtype)
        # FP32 values of 8-bit activations
        self.scales: dict[str, np.float32] = {}

    def parameters(self, scale: float | None = None, zero: int | None = None) -> tuple[str, str]:
        """A scale and a zero point; random where they are not given."""
        limits = np.iinfo(self.dtype)
        if zero is None:
            zero = int(self.generator.integers(limits.min, limits.max, endpoint=True))
        chosen = self.generator.uniform(0.02, 0.05) if scale is None else scale
        return self.const(np.float32(chosen)), self.const(np.array(zero, self.dtype))

    def rounded(self, x: str, pair: tuple[str, str] | None = None, **chosen: Any) -> str:
        """QuantizeLinear and DequantizeLinear."""
        pair = pair or self.parameters(**chosen)
        result: str = self.op("DequantizeLinear", self.op("QuantizeLinear", x, *pair), *pair)
        scale = next(c for c in self.constants if c.name == pair[0])
        self.scales[result] = np.float32(numpy_helper.to_array(scale))
        return result

    def weight(
        self, *shape: int, dtype: Any = np.int8, zero: int = 0, channels: bool = True
    ) -> tuple[str, np.ndarray]:
        """An FP32 constant of all 8-bit values, with scales along its first axis."""
        limits, count = np.iinfo(dtype), shape[0] if channels else ()
        values = self.generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        size = 70 * (values.size / shape[0]) ** 0.5
        scale = (self.generator.uniform(0.5, 1.5, count) / size).astype(np.float32)
        parts = (values, scale, np.full(count, zero, dtype))
        axis = {"axis": 0} if channels else {}
        return self.op("DequantizeLinear", *map(self.const, parts), **axis), scale

    def layer(self, op: str, x: str, *shape: int, bias: bool = True, **attrs: Any) -> str:
        """Conv or Gemm of 8-bit data by a random weight, with an int32 bias."""
        own = {k: attrs.pop(k) for k in ("dtype", "zero", "channels") if k in attrs}
        weight, scale = self.weight(*shape, **own)
        operands = [x, weight]
        if bias:
            values = self.generator.integers(-3000, 3000, shape[0]).astype(np.int32)
            scale = self.scales[x] * scale
            parts = (values, scale, np.zeros(scale.shape, np.int32))
            axis = {"axis": 0} if scale.ndim else {}
            operands.append(self.op("DequantizeLinear", *map(self.const, parts), **axis))
        if op == "Conv":
            attrs = {"pads": [k // 2 for k in shape[2:]] * 2, **attrs}
        result: str = self.op(op, *operands, **attrs)
        return result

    def model(self, *outputs: str) -> onnx.ModelProto:
        """As in the base class; results of QuantizeLinear and MaxPool on 8-bit data are 8-bit."""
        result = super().model(*outputs)
        result.opset_import[0].version = 19
        for output in result.graph.output:
            output.ClearField("type")
        return onnx.shape_inference.infer_shapes(result)


def unoptimised(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The results of onnxruntime, operator by operator."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    results: list[np.ndarray] = session.run(None, feeds)
    return results


def small_input(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Normally distributed values for the model's input."""
    (value,) = model.graph.input
    shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
    generator = np.random.default_rng(5)
    return {value.name: 2 * generator.standard_normal(shape, dtype=np.float32)}
