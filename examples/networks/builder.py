"""A small writer of ONNX convolutional networks with seeded random weights.

Weights follow He et al. 2015, "Delving Deep into Rectifiers", eq. 10: variance 2/fan-in after a
rectifier, 1/fan-in otherwise, which keeps the activations' second moment near one through any
depth, so that float32 results of two runtimes can be compared on the output's range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper

from examples.networks.features import Feature, Pads, Size, four_sides, pair, windows

OPSET = 17
IR_VERSION = 8
Array = npt.NDArray[Any]


class NetworkBuilder:
    """Appends nodes in order; every method returns the :class:`Feature` it produced.

    The node's name, its output's name and the stem of its weights' names are the ``name`` given.
    """

    def __init__(self, name: str, seed: int = 0, batch: int = 1) -> None:
        self.name = name
        self.batch = batch
        self._rng = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._weights: list[TensorProto] = []

    def input(self, channels: int, image: Size, name: str = "input") -> Feature:
        """A graph input of shape (batch, channels, height, width)."""
        height, width = pair(image)
        shape = [self.batch, channels, height, width]
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return Feature(name, channels, height, width)

    def constant(self, name: str, value: Array) -> str:
        """An initializer; returns its name."""
        self._weights.append(numpy_helper.from_array(value, name))
        return name

    def node(
        self, operator: str, name: str, inputs: Sequence[str], outputs: int = 1, **attrs: Any
    ) -> str:
        """Any node; its single output bears the node's name, several get a numbered suffix."""
        names = [name] if outputs == 1 else [f"{name}:{i}" for i in range(outputs)]
        self._nodes.append(helper.make_node(operator, list(inputs), names, name=name, **attrs))
        return name

    def conv(
        self,
        name: str,
        x: Feature,
        channels: int,
        kernel: Size,
        *,
        stride: Size = 1,
        pads: Pads = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        auto_pad: str = "",
    ) -> Feature:
        """A convolution; ``pads`` is one number, (h, w) or (top, left, bottom, right)."""
        kh, kw = pair(kernel)
        fan_in = x.channels // groups * kh * kw
        shape = (channels, x.channels // groups, kh, kw)
        attrs: dict[str, Any] = {
            "kernel_shape": [kh, kw],
            "strides": list(pair(stride)),
            "dilations": list(pair(dilation)),
            "group": groups,
        }
        if auto_pad:
            attrs["auto_pad"] = auto_pad
            height, width = (
                -(-s // t) for s, t in zip((x.height, x.width), pair(stride), strict=True)
            )
        else:
            attrs["pads"] = four_sides(pads)
            height, width = windows(x, kernel, stride, four_sides(pads), dilation)
        inputs = [x.name, self._weight(name, shape, fan_in, x.rectified)]
        if bias:
            inputs.append(self._bias(name, channels))
        self.node("Conv", name, inputs, **attrs)
        return Feature(name, channels, height, width)

    def conv_transpose(
        self,
        name: str,
        x: Feature,
        channels: int,
        kernel: Size,
        *,
        stride: Size = 1,
        pads: Pads = 0,
        output_padding: Size = 0,
        groups: int = 1,
    ) -> Feature:
        """A transposed convolution with bias."""
        (kh, kw), (sh, sw), extra = pair(kernel), pair(stride), pair(output_padding)
        four = four_sides(pads)
        # every output value sums kernel/stride taps of each input channel
        fan_in = max(1, x.channels // groups * kh * kw // (sh * sw))
        weight = self._weight(name, (x.channels, channels // groups, kh, kw), fan_in, x.rectified)
        self.node(
            "ConvTranspose",
            name,
            [x.name, weight, self._bias(name, channels)],
            kernel_shape=[kh, kw],
            strides=[sh, sw],
            pads=four,
            output_padding=list(extra),
            group=groups,
        )
        height = (x.height - 1) * sh + kh + extra[0] - four[0] - four[2]
        width = (x.width - 1) * sw + kw + extra[1] - four[1] - four[3]
        return Feature(name, channels, height, width)

    def batch_norm(self, name: str, x: Feature, gain: float = 1.0) -> Feature:
        """Batch normalisation in inference form, with statistics that matter.

        ``gain`` scales the output; the last one of a residual branch uses a small value, so
        that a sum over many blocks stays in range.
        """
        draw, count = self._rng, x.channels
        values = {
            "weight": gain * draw.uniform(0.8, 1.2, count),
            "bias": 0.1 * draw.standard_normal(count),
            "running_mean": 0.1 * draw.standard_normal(count),
            "running_var": draw.uniform(0.5, 1.5, count),
        }
        inputs = [
            self.constant(f"{name}.{part}", value.astype(np.float32))
            for part, value in values.items()
        ]
        self.node("BatchNormalization", name, [x.name, *inputs], epsilon=1e-5)
        return replace(x, name=name, rectified=False)

    def activation(self, operator: str, name: str, x: Feature, **attrs: Any) -> Feature:
        """An element-wise activation of one input: Relu, LeakyRelu, HardSwish, Sigmoid ..."""
        rectified = operator not in ("Sigmoid", "HardSigmoid", "Tanh")
        return replace(x, name=self.node(operator, name, [x.name], **attrs), rectified=rectified)

    def relu(self, name: str, x: Feature) -> Feature:
        """max(x, 0)."""
        return self.activation("Relu", name, x)

    def relu6(self, name: str, x: Feature) -> Feature:
        """min(max(x, 0), 6), which ONNX writes as Clip."""
        bounds = [
            self.constant(f"{name}.{side}", np.array(value, np.float32))
            for side, value in (("min", 0.0), ("max", 6.0))
        ]
        return replace(x, name=self.node("Clip", name, [x.name, *bounds]), rectified=True)

    def silu(self, name: str, x: Feature) -> Feature:
        """Multiply x by its sigmoid, as PyTorch exports SiLU."""
        gate = self.node("Sigmoid", f"{name}.sigmoid", [x.name])
        return replace(x, name=self.node("Mul", name, [x.name, gate]), rectified=True)

    def pool(
        self,
        operator: str,
        name: str,
        x: Feature,
        kernel: Size,
        stride: Size,
        pads: Pads = 0,
        *,
        ceil: bool = False,
        **attrs: Any,
    ) -> Feature:
        """MaxPool or AveragePool."""
        four = four_sides(pads)
        self.node(
            operator,
            name,
            [x.name],
            kernel_shape=list(pair(kernel)),
            strides=list(pair(stride)),
            pads=four,
            ceil_mode=int(ceil),
            **attrs,
        )
        height, width = windows(x, kernel, stride, four, 1, ceil=ceil)
        return replace(x, name=name, height=height, width=width)

    def global_average(self, name: str, x: Feature) -> Feature:
        """Mean over height and width."""
        self.node("GlobalAveragePool", name, [x.name])
        return replace(x, name=name, height=1, width=1)

    def add(self, name: str, x: Feature, y: Feature) -> Feature:
        """Element-wise sum."""
        return replace(x, name=self.node("Add", name, [x.name, y.name]), rectified=False)

    def concat(self, name: str, parts: Sequence[Feature]) -> Feature:
        """Concatenation over channels."""
        self.node("Concat", name, [p.name for p in parts], axis=1)
        return replace(
            parts[0],
            name=name,
            channels=sum(p.channels for p in parts),
            rectified=all(p.rectified for p in parts),
        )

    def flatten(self, name: str, x: Feature) -> Feature:
        """(N, C, H, W) to (N, C*H*W)."""
        self.node("Flatten", name, [x.name], axis=1)
        return Feature(name, x.elements, 1, 1, x.rectified)

    def linear(self, name: str, x: Feature, features: int) -> Feature:
        """A fully connected layer on a flat input, as Gemm with transposed weights."""
        weight = self._weight(name, (features, x.elements), x.elements, x.rectified)
        self.node("Gemm", name, [x.name, weight, self._bias(name, features)], transB=1)
        return Feature(name, features, 1, 1)

    def output(self, name: str, shape: Sequence[int]) -> None:
        """Declare a tensor as the next graph output."""
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def finish(self) -> ModelProto:
        """The checked model."""
        graph = helper.make_graph(
            self._nodes, self.name, self._inputs, self._outputs, initializer=self._weights
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="tvmconv examples",
        )
        checker.check_model(model)
        return model

    def random_weight(self, name: str, shape: tuple[int, ...], fan_in: int) -> str:
        """A weight initializer for a node without a method of its own."""
        return self._weight(name, shape, fan_in, rectified=False)

    def _weight(self, name: str, shape: tuple[int, ...], fan_in: int, rectified: bool) -> str:
        value = self._rng.standard_normal(shape, dtype=np.float32)
        value *= np.float32(((2.0 if rectified else 1.0) / fan_in) ** 0.5)
        return self.constant(f"{name}.weight", value)

    def _bias(self, name: str, count: int) -> str:
        value = self._rng.standard_normal(count, dtype=np.float32) * np.float32(0.05)
        return self.constant(f"{name}.bias", value)


def parameter_count(model: ModelProto) -> int:
    """Trainable values, counted as the literature does: running statistics left out."""
    return sum(
        int(np.prod(tensor.dims, dtype=np.int64))
        for tensor in model.graph.initializer
        if tensor.name.endswith((".weight", ".bias"))
    )
