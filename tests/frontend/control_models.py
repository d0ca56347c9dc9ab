"""Models with If, Loop and Scan, and their results by onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper, parser

import tvmconv
from tvmconv.frontend import read_model

HEAD = '<ir_version: 8, opset_import: ["":16, "own":1]>\n'
# a branch, two loops and a scan, nested, with convolutions that share a weight
MIXED = """
g (float[1,4,9,9] x, bool c, bool d) => (float[1,4,9,9] y, float[3,1,4,9,9] s, float[1,4,9,2] z)
<int64 three = {3}, int64 four = {4}>
{
  t = Relu(x)
  u, v = If(c) <
    then_branch = g1 () => (u1, v1) {
      a1 = Conv<pads=[1,1,1,1]>(t, k)
      u1 = If(d) <
        then_branch = g3 () => (u3) { u3 = Sin(a1) },
        else_branch = g4 () => (u4) { u4 = Mul(a1, x) }>
      v1 = Identity(x)
    },
    else_branch = g2 () => (u2, v2) {
      u2 = Conv<pads=[1,1,1,1]>(x, k)
      v2 = Neg(u2)
    }>
  always = Constant<value = bool {1}>()
  y, w, s = Loop(three, always, u, v) <
    body = g5 (int64 i, bool go, float[1,4,9,9] p, float[1,4,9,9] q) => (goes, p1, q1, r1) {
      goes = Identity(go)
      n = Cast<to=1>(i)
      q2 = Conv<pads=[1,1,1,1]>(q, k)
      p2 = Loop(four, , q2) <
        body = g6 (int64 j, bool go6, float[1,4,9,9] h) => (goes6, h1) {
          goes6 = Identity(go6)
          h2 = Sin(h)
          h1 = Add(h2, n)
        }>
      p1 = Tanh(p2)
      q1 = Identity(p)
      r1 = Sub(p1, x)
    }>
  first = ReduceMean<axes = [3], keepdims = 0>(x)
  e, z = Scan<num_scan_inputs = 2, scan_input_axes = [3, -1], scan_input_directions = [1, 0],
              scan_output_axes = [-1], scan_output_directions = [1],
    body = g7 (float[1,4,9] m, float[1,4,9] o, float[1,4,9] f) => (m1, f1) {
      o1 = Mul(o, f)
      m1 = Add(m, o1)
      f1 = Identity(m1)
    }> (first, pair, pair2)
}
"""


def model(text: str, **constants: Any) -> onnx.ModelProto:
    """A model from its text and constants."""
    made = parser.parse_model(HEAD + text)
    for name, value in constants.items():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return made


def expected(proto: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    """The outputs by onnxruntime."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def compare(proto: onnx.ModelProto, feeds: dict[str, Any], built: Any = None) -> Any:
    """Check a built model on one input."""
    built = built or tvmconv.build(proto, threads=1)
    found = built.run({info.name: feeds[info.name] for info in built.inputs})
    for name, value in expected(proto, feeds).items():
        assert found[name].dtype == value.dtype
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4)
    return built


def operators(proto: onnx.ModelProto) -> list[str]:
    """The operators that are left after reading."""
    return [node.op for node in read_model(proto).graph.nodes if node.op != "Identity"]


def mixed() -> onnx.ModelProto:
    """The model of every kind of nested program."""
    numbers = np.random.default_rng(1)
    pair, pair2 = numbers.standard_normal((2, 1, 4, 9, 2)).astype(np.float32)
    weight = numbers.standard_normal((4, 4, 3, 3)).astype(np.float32) / 6
    return model(MIXED, k=weight, pair=pair, pair2=pair2)


def feeds(c: bool, d: bool) -> dict[str, Any]:
    """Inputs of the mixed model."""
    x = np.random.default_rng(2).standard_normal((1, 4, 9, 9)).astype(np.float32)
    return {"x": x, "c": np.asarray(c), "d": np.asarray(d)}
