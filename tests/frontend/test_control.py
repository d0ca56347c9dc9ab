"""If, Loop, Scan and local functions, against onnxruntime."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

import tvmconv
from tests.frontend.bad_models import refuse
from tvmconv.errors import ModelError
from tvmconv.frontend import read_model
from tvmconv.program.program import Program

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
    pair, pair2, first = (
        numbers.standard_normal(shape).astype(np.float32)
        for shape in ((1, 4, 9, 2), (1, 4, 9, 2), (1, 4, 9))
    )
    weight = numbers.standard_normal((4, 4, 3, 3)).astype(np.float32) / 6
    return model(MIXED, k=weight, pair=pair, pair2=pair2, first=first)


@pytest.fixture(scope="module")
def built() -> Any:
    """The mixed model, built once."""
    return tvmconv.build(mixed(), threads=1)


def feeds(c: bool, d: bool) -> dict[str, Any]:
    """Inputs of the mixed model."""
    x = np.random.default_rng(2).standard_normal((1, 4, 9, 9)).astype(np.float32)
    return {"x": x, "c": np.asarray(c), "d": np.asarray(d)}


@pytest.mark.parametrize(("c", "d"), [(True, True), (True, False), (False, True)])
def test_nested_programs(built: Any, c: bool, d: bool) -> None:
    compare(mixed(), feeds(c, d), built)


def test_saved_nested_programs(built: Any, tmp_path: Path) -> None:
    loaded = tvmconv.load(built.save(tmp_path / "mixed.so"))
    assert loaded.calls == built.calls
    for name, value in built.run(feeds(True, False)).items():
        np.testing.assert_array_equal(loaded.run(feeds(True, False))[name], value)


def test_profile_of_nested_programs(built: Any) -> None:
    """Calls of the branch that does not run take no time; others have all their runs."""
    profile = built.profile(feeds(False, True), repeat=2)
    seconds = {kernel.call.layer: kernel.seconds for kernel in profile}
    assert [kernel.call for kernel in profile] == list(built.calls)
    assert seconds["u3"] == 0 and seconds["u4"] == 0
    assert sum(seconds.values()) > 0
    assert all(len(kernel.samples) == 2 for kernel in profile)


def test_plain_data_of_nested_programs(built: Any) -> None:
    program = replace(built._library.program, constants=())
    assert Program.from_json(json.loads(json.dumps(program.to_json()))) == program
    assert {call.operator for call in built.calls} >= {"if", "loop"}


def test_export_of_nested_graphs() -> None:
    """The graph as ONNX again computes the same."""
    proto = read_model(mixed()).proto
    onnx.checker.check_model(proto)
    given = feeds(True, False)
    for name, value in expected(mixed(), given).items():
        np.testing.assert_allclose(expected(proto, given)[name], value, rtol=1e-4, atol=1e-4)


def test_shared_weights_are_stored_once(built: Any) -> None:
    assert built.memory.constant_bytes < 2 * 4 * 16 * 16 * 9 + 4096


def test_a_loop_that_ends_early() -> None:
    proto = model(
        """g (float[3] x, bool c) => (float[3] y) <int64 most = {9}, float end = {4.0}>
        {
          y = Loop(most, c, x) <body = b (int64 i, bool go, float[3] a) => (goes, a1) {
            a1 = Add(a, one)
            sum = ReduceSum<keepdims = 0>(a1)
            goes = Less(sum, end)
          }>
        }""",
        one=np.float32(1),
    )
    built = tvmconv.build(proto, threads=1)
    for start in (-40, -1.5, -0.4, 9):
        for guard in (True, False):
            x = np.full(3, start, np.float32)
            compare(proto, {"x": x, "c": np.asarray(guard)}, built)


def test_float16_in_nested_programs() -> None:
    proto = model(
        """g (float16[4] x, bool c) => (float16[4] y) {
          t = Mul(x, x)
          u = If(c) <then_branch = a () => (v) { v = Sin(t) },
                     else_branch = b () => (w) { w = Exp(t) }>
          y = Neg(u)
        }"""
    )
    x = np.asarray([0.5, -1, 2, 0.25], np.float16)
    built = tvmconv.build(proto, threads=1)
    for c in (True, False):
        found = built.run({"x": x, "c": np.asarray(c)})["y"]
        want = expected(proto, {"x": x, "c": np.asarray(c)})["y"]
        np.testing.assert_allclose(found, want, rtol=2e-3)


def test_known_conditions() -> None:
    """Conditions that follow from shapes, one inside the other; results may have other ranks."""
    proto = model(
        """g (float[1,4] x) => (float[4] y) {
          s = Shape(x)
          n = Gather(s, zero)
          c = Equal(n, one)
          y = If(c) <
            then_branch = g1 () => (z) {
              z = If(c) <then_branch = g3 () => (q) { r = Sin(x) q = Squeeze(r, axis) },
                         else_branch = g4 () => (p) { p = Reshape(x, axis) }> },
            else_branch = g2 () => (w) { w = Identity(x) }>
        }""",
        zero=np.int64(0),
        one=np.int64(1),
        axis=np.asarray([0]),
    )
    assert operators(proto) == ["Sin", "Squeeze"]
    compare(proto, {"x": np.random.default_rng(3).standard_normal((1, 4)).astype(np.float32)})


def test_local_functions() -> None:
    proto = model(
        """g (float[4] x) => (float[4] y) { t = own.f<alpha = 0.5>(x) y = own.f<alpha = 0.25>(t) }
        <domain: "own", opset_import: ["":16]>
        f <alpha>(a) => (b) { c = LeakyRelu<alpha: float = @alpha>(a) b = Add(c, a) }"""
    )
    assert operators(proto) == ["LeakyRelu", "Add"] * 2
    compare(proto, {"x": np.asarray([-1, 2, -3, 0.5], np.float32)})


def test_loops_that_are_read_in_place() -> None:
    grows = model(
        """g (float[1,4] x) => (float[4,4] y) <int64 three = {3}> {
          y = Loop(three, , x) <body = b (int64 i, bool go, a) => (goes, a1) {
            goes = Identity(go) a1 = Concat<axis = 0>(a, x) }>
        }"""
    )
    assert operators(grows) == ["Concat"] * 3
    table = model(
        """g (float[5] x) => (float[5] y)
        <int64 five = {5}, float half = {0.5}, float two = {2.0}> {
          last, t = Loop(five, , half) <body = b (int64 i, bool go, float a) => (goes, a1, b1) {
            goes = Identity(go) a1 = Mul(a, two) b1 = Identity(a) }>
          y = Mul(x, t)
        }"""
    )
    assert operators(table) == ["Mul"]
    compare(table, {"x": np.arange(5, dtype=np.float32)})
    once = model(
        """g (float[4] x) => (float[4] y) <int64 one = {1}> {
          y = Loop(one, , x) <body = b (int64 i, bool go, float[4] a) => (goes, a1) {
            goes = Identity(go) a1 = Sin(a) }>
        }"""
    )
    assert operators(once) == ["Sin"]
    never = model(
        """g (float[4] x) => (float[4] y, float[n,4] s) <int64 none = {0}> {
          y, s = Loop(none, , x) <body = b (int64 i, bool go, float[4] a) => (goes, a1, b1) {
            goes = Identity(go) a1 = Sin(a) b1 = Cos(a) }>
        }"""
    )
    assert [info.shape for info in read_model(never).outputs] == [(4,), (0, 4)]


@pytest.mark.parametrize(
    ("inputs", "trips", "body", "words"),
    [
        ("", 1000, "a1 = Concat<axis = 0>(a, x)", ("state 'a'", "changes")),
        (", int64 n", None, "a1 = Sin(a)", ("trip count 'n'", "run time")),
        ("", 2**62, "a1 = Sin(a)", ("no largest trip count",)),
        ("", 3, "a1 = Nothing(a)", ("Nothing",)),
        ("", 3, "a1 = Sin(missing)", ("missing", "sub-graph")),
        ("", 3, "a1 = Conv(a, x)", ("Conv",)),
    ],
)
def test_loops_that_are_refused(
    inputs: str, trips: int | None, body: str, words: tuple[str, ...]
) -> None:
    proto = model(
        f"""g (float[4] x{inputs}) => (float[r] y) {{
          y = Loop(n, , x) <body = b (int64 i, bool go, a) => (goes, a1) {{
            goes = Identity(go) {body} }}>
        }}""",
        **({} if trips is None else {"n": np.int64(trips)}),
    )
    refuse(proto, *words)


def test_stacked_results_of_a_loop_that_may_end() -> None:
    proto = model(
        """g (float[4] x, bool c) => (float[4] y, float[n,4] s) <int64 three = {3}> {
          y, s = Loop(three, c, x) <body = b (int64 i, bool go, a) => (goes, a1, b1) {
            goes = Identity(go) a1 = Sin(a) b1 = Cos(a) }>
        }"""
    )
    refuse(proto, "Loop", "stacked results", "not known")


def test_branches_of_two_shapes() -> None:
    proto = model(
        """g (float[1,4] x, bool c) => (float[r] y) {
          y = If(c) <then_branch = a () => (v) { v = Squeeze(x) },
                     else_branch = b () => (w) { w = Neg(x) }>
        }"""
    )
    refuse(proto, "'y'", "float32[4]", "float32[1, 4]", "run time")


def test_values_of_another_branch() -> None:
    proto = model(
        """g (float[4] x, bool c) => (float[4] y) {
          y = If(c) <then_branch = a () => (v) { v = Sin(x) },
                     else_branch = b () => (w) { w = Neg(v) }>
        }"""
    )
    refuse(proto, "'v'", "sub-graph 'b'")


def test_a_branch_that_reads_its_own_result() -> None:
    proto = model(
        """g (float[4] x, bool c) => (float[4] y) {
          y = If(c) <then_branch = a () => (v) { v = Sin(y) },
                     else_branch = b () => (w) { w = Neg(x) }>
        }"""
    )
    refuse(proto, "cyclic")


def test_gpus_run_no_nested_programs() -> None:
    with pytest.raises(ModelError, match="run no sub-graphs"):
        tvmconv.build(mixed(), "cuda:sm_90")
