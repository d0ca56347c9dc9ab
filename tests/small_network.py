"""A network of a few kilobytes that has one of everything the bench adapters translate."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def small_network(batch: int | str = 1) -> onnx.ModelProto:
    """Convolutions (plain, depthwise, strided), pooling, concat, residual, dense layer, softmax."""
    generator = np.random.default_rng(3)
    constants: dict[str, np.ndarray] = {}

    def constant(name: str, *shape: int, scale: float = 0.3) -> str:
        constants[name] = (generator.standard_normal(shape) * scale).astype("float32")
        return name

    def conv(x: str, y: str, weight: tuple[int, ...], bias: bool = True, **attrs: object):
        sources = [x, constant(f"{y}_w", *weight)]
        if bias:
            sources.append(constant(f"{y}_b", weight[0]))
        return helper.make_node("Conv", sources, [y], y, kernel_shape=weight[2:], **attrs)

    constants["six"] = np.array(6, "float32")
    constants["zero"] = np.array(0, "float32")
    node = helper.make_node
    nodes = [
        conv("input", "stem", (16, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", ["stem"], ["a"], "stem_relu"),
        conv("a", "depthwise", (16, 1, 3, 3), group=16, pads=[1, 1, 1, 1]),
        node("Clip", ["depthwise", "zero", "six"], ["b"], "relu6"),
        conv("b", "point", (24, 16, 1, 1), bias=False),
        node("MaxPool", ["point"], ["c"], "pool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        conv("c", "left", (20, 24, 1, 1)),
        conv("c", "right", (12, 24, 3, 5), auto_pad="SAME_UPPER"),
        node("Concat", ["left", "right"], ["d"], "join", axis=1),
        conv("d", "projection", (32, 32, 1, 1)),
        node("Add", ["projection", "d"], ["sum"], "residual"),
        node("Relu", ["sum"], ["e"], "sum_relu"),
        node("GlobalAveragePool", ["e"], ["f"], "mean"),
        node("Flatten", ["f"], ["g"], "flat"),
        node("Gemm", ["g", constant("dense_w", 10, 32), constant("dense_b", 10)], ["h"], "dense",
             transB=1),
        node("Softmax", ["h"], ["output"], "probabilities", axis=1),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [batch, 3, 21, 20])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [batch, 10])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model
