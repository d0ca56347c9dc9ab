"""Small networks of random operators and sizes, the same ones for a seed in every run."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_CHANNELS = (1, 3, 4, 6, 8, 10, 12, 16, 20, 30)


def random_network(seed: int, steps: int = 9) -> onnx.ModelProto:
    """One input (1 or 2 images), a chain with branches that join again, two outputs.

    Convolutions of all kinds, pooling, elementwise functions, LRN, softmax over channels, slices,
    concatenations and shuffles of channels, padding, resizing. After them are a plane, and a fully
    connected layer after a global mean.
    """
    return _Builder(random.Random(seed)).network(steps)


class _Builder:
    def __init__(self, generator: random.Random) -> None:
        self.generator = generator
        self.values = np.random.default_rng(generator.randrange(1 << 30))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.count = 0

    def network(self, steps: int) -> onnx.ModelProto:
        pick, size = self.generator.choice, self.generator.randint
        shape = [pick((1, 1, 1, 2)), pick((3, 4, 8, 10)), size(6, 26), size(6, 26)]
        x, now = "input", list(shape)
        # earlier values that a sum or a concatenation can take
        known: dict[tuple[int, ...], list[str]] = {tuple(now): [x]}
        for _ in range(steps):
            step = pick((self.conv, self.conv, self.conv, self.unary, self.unary, self.pool,
                         self.channels, self.join, self.other))  # fmt: skip
            x, now = step(x, now, known)
            known.setdefault(tuple(now), []).append(x)
        mean = self.node("GlobalAveragePool", [x])
        flat = self.node("Flatten", [mean])
        weight = self.constant(7, now[1])
        dense = self.node("Gemm", [flat, weight, self.constant(7)], transB=1)
        outputs = [self.node("Softmax", [dense], axis=1), x]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)

    def node(self, op: str, sources: list[str], **attributes: Any) -> str:
        self.count += 1
        name = f"{op.lower()}{self.count}"
        self.nodes.append(helper.make_node(op, sources, [name], name, **attributes))
        return name

    def constant(self, *shape: int, scale: float = 0.3) -> str:
        return self.given((self.values.standard_normal(shape) * scale).astype("float32"))

    def given(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def conv(self, x: str, shape: list[int], _: Any) -> tuple[str, list[int]]:
        pick = self.generator.choice
        batch, channels, *plane = shape
        kind = pick(("dense", "dense", "depthwise", "grouped"))
        groups = channels if kind == "depthwise" else 1
        if kind == "grouped" and channels % 2 == 0:
            groups = 2
        outputs = channels if kind == "depthwise" else groups * pick(_CHANNELS)
        kernel = [pick([k for k in (1, 1, 2, 3, 3, 3, 5) if k <= side + 2]) for side in plane]
        pads = [self.generator.randrange(k) for k in (*kernel, *kernel)]
        if pick((True, False)) and all(k % 2 for k in kernel):
            pads = [k // 2 for k in (*kernel, *kernel)]
        strides = [pick((1, 1, 1, 2)) for _ in "hw"]
        size = [side + pads[i] + pads[i + 2] - kernel[i] for i, side in enumerate(plane)]
        if min(size) < 0:
            return x, shape
        weight = self.constant(outputs, channels // groups, *kernel)
        sources = [x, weight, *([self.constant(outputs)] if pick((True, False)) else [])]
        y = self.node("Conv", sources, pads=pads, strides=strides, group=groups)
        return y, [batch, outputs, *(s // t + 1 for s, t in zip(size, strides, strict=True))]

    def unary(self, x: str, shape: list[int], _: Any) -> tuple[str, list[int]]:
        pick = self.generator.choice
        op = pick(("Relu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish", "Clip", "Silu"))
        if op == "Clip":
            bounds = [self.given(np.array(v, "float32")) for v in (-0.5, 6)]
            return self.node("Clip", [x, *bounds]), shape
        if op == "Silu":
            return self.node("Mul", [x, self.node("Sigmoid", [x])]), shape
        return self.node(op, [x]), shape

    def pool(self, x: str, shape: list[int], _: Any) -> tuple[str, list[int]]:
        pick = self.generator.choice
        if min(shape[2:]) < 4:
            return x, shape
        kernel, stride, ceil = pick((2, 3)), pick((1, 2)), pick((0, 1))
        pad = pick((0, 1)) if kernel == 3 else 0
        op = pick(("MaxPool", "AveragePool"))
        if op == "AveragePool":
            ceil = 0  # runtimes differ in what they divide by
        y = self.node(op, [x], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
                      ceil_mode=ceil)  # fmt: skip

        # a window that would begin in the padding at the end is left out
        def length(side: int) -> int:
            span = side + 2 * pad - kernel
            found = (-(-span // stride) if ceil else span // stride) + 1
            return found - 1 if ceil and (found - 1) * stride >= side + pad else found

        return y, [*shape[:2], *(length(side) for side in shape[2:])]

    def channels(self, x: str, shape: list[int], _: Any) -> tuple[str, list[int]]:
        """A slice or a shuffle of the channels."""
        batch, channels, *plane = shape
        if channels < 4:
            return x, shape
        if self.generator.choice((True, False)):
            first = self.generator.randrange(channels - 2)
            last = self.generator.randint(first + 2, channels)
            places = [self.given(np.array([value])) for value in (first, last, 1)]
            return self.node("Slice", [x, *places]), [batch, last - first, *plane]
        if channels % 2:
            return x, shape
        apart = self.given(np.array([batch, 2, channels // 2, *plane]))
        turned = self.node("Transpose", [self.node("Reshape", [x, apart])], perm=[0, 2, 1, 3, 4])
        return self.node("Reshape", [turned, self.given(np.array(shape))]), shape

    def join(self, x: str, shape: list[int], known: Any) -> tuple[str, list[int]]:
        """A sum or product with, or a concatenation to, an earlier value of this plane."""
        alike = [name for name in known.get(tuple(shape), ()) if name != x]
        if alike and self.generator.choice((True, False)):
            op = self.generator.choice(("Add", "Mul"))
            return self.node(op, [x, self.generator.choice(alike)]), shape
        plane = [
            (name, found[1])
            for found, names in known.items()
            for name in names
            if found[0] == shape[0] and found[2:] == tuple(shape[2:])
        ]
        if shape[1] > 48 or not plane:
            return x, shape
        other, more = self.generator.choice(plane)
        return self.node("Concat", [x, other], axis=1), [shape[0], shape[1] + more, *shape[2:]]

    def other(self, x: str, shape: list[int], _: Any) -> tuple[str, list[int]]:
        batch, channels, height, width = shape
        op = self.generator.choice(("LRN", "Softmax", "Pad", "Resize"))
        if op == "LRN":
            return self.node("LRN", [x], size=3, alpha=0.1), shape
        if op == "Softmax":
            return self.node("Softmax", [x], axis=1), shape
        if op == "Pad":
            ends = self.given(np.array([0, 0, 1, 0, 0, 0, 0, 2]))
            return self.node("Pad", [x, ends]), [batch, channels, height + 1, width + 2]
        if max(height, width) > 20:
            return x, shape
        scales = self.given(np.array([1, 1, 2, 2], "float32"))
        y = self.node("Resize", [x, "", scales], mode="nearest",
                      coordinate_transformation_mode="asymmetric",
                      nearest_mode="floor")  # fmt: skip
        return y, [batch, channels, 2 * height, 2 * width]
