"""Networks of a few kilobytes: one of everything the bench adapters translate, or of every rule.

``python -m tests.small_network FILE`` writes one of two convolutions, for images of 224 by 224.
"""

from __future__ import annotations

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def small_network(batch: int | str = 1, height: int = 21, width: int = 20) -> onnx.ModelProto:
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
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [batch, 3, height, width])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [batch, 10])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def mixed_network() -> onnx.ModelProto:
    """One operator for every rule, but for the rules of :func:`pixel_network`."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    mixed (float[1,10,12,11] x, float[10,10,3,3] w, float[15,7] g, float[7] b, float[2] h)
        => (float[1,10] y)
    <int64[5] apart = {1, 5, 3, 6, 5}, int64[4] together = {1, 15, 6, 5}, int64[2] flat = {1, 10},
     int64[2] pairs = {5, 2},
     int64[3] rows = {1, 15, 30}, int64[1] begin = {0}, int64[1] end = {5}, int64[1] axis = {1},
     int64[2] first = {0, 0}, int64[2] last = {1, 5}, int64[2] both = {0, 1}>
    {
      c = Conv <pads = [1, 1, 1, 1]> (x, w)
      l = LRN <size = 3, alpha = 0.1> (c)
      part = Slice (l, begin, end, axis)
      joined = Concat <axis = 1> (l, part)
      pooled = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (joined)
      s1 = Reshape (pooled, apart)
      s2 = Transpose <perm = [0, 2, 1, 3, 4]> (s1)
      shuffled = Reshape (s2, together)
      likely = Softmax <axis = 1> (shuffled)
      v = Reshape (shuffled, rows)
      t = Transpose <perm = [0, 2, 1]> (v)
      product = MatMul (v, t)
      m = ReduceMean <axes = [2], keepdims = 0> (product)
      d = Gemm (m, g, b)
      p = GlobalAveragePool (likely)
      q = Flatten (p)
      e = Slice (d, first, last, both)
      f = Slice (q, first, last, both)
      z = Concat <axis = 1> (e, f)
      o = Reshape (z, pairs)
      r = Mul (o, h)
      j = Reshape (r, flat)
      y = Softmax <axis = 1> (j)
    }"""
    return _with_weights(text, {"w": (10, 10, 3, 3), "g": (15, 7), "b": (7,), "h": (2,)})


def pixel_network() -> onnx.ModelProto:
    """A convolution whose groups would not fill channel blocks, and a copy that transposes."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    pixels (float[1,10,12,11] x, float[30,1,3,3] w) => (float[1,12,11,30] y)
    {
      c = Conv <group = 10, pads = [1, 1, 1, 1]> (x, w)
      y = Transpose <perm = [0, 2, 3, 1]> (c)
    }"""
    return _with_weights(text, {"w": (30, 1, 3, 3)})


def two_convolutions() -> onnx.ModelProto:
    """A convolution, one with a residual, and a classifier, with the input of ResNet-18."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    two (float[1,3,224,224] input, float[16,3,3,3] a, float[16,16,3,3] b, float[10,16] c)
        => (float[1,10] output)
    {
      stem = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (input, a)
      x = Relu (stem)
      branch = Conv <pads = [1, 1, 1, 1]> (x, b)
      sum = Add (branch, x)
      y = Relu (sum)
      mean = GlobalAveragePool (y)
      flat = Flatten (mean)
      dense = Gemm <transB = 1> (flat, c)
      output = Softmax <axis = 1> (dense)
    }"""
    return _with_weights(text, {"a": (16, 3, 3, 3), "b": (16, 16, 3, 3), "c": (10, 16)})


def _with_weights(text: str, shapes: dict[str, tuple[int, ...]]) -> onnx.ModelProto:
    """The graph of a text, of whose inputs some are seeded random weights."""
    model = onnx.parser.parse_model(text)
    generator = np.random.default_rng(5)
    for name, shape in shapes.items():
        values = generator.standard_normal(shape).astype("float32") * 0.1
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
        graph_input = next(i for i in model.graph.input if i.name == name)
        model.graph.input.remove(graph_input)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    onnx.save(two_convolutions(), sys.argv[1])
