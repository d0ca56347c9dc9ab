"""If, Loop, Scan and local functions, against onnxruntime."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tvmconv
from tests.frontend.control_models import compare, expected, feeds, mixed, model, operators
from tvmconv.errors import DataError, ModelError
from tvmconv.frontend import read_model
from tvmconv.program.program import Program


@pytest.fixture(scope="module")
def built() -> Any:
    """The mixed model, built once."""
    return tvmconv.build(mixed(), threads=1)


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
        """g (float[4] x, bool c) => (float[4] y, float[n,4] s) <int64 none = {0}> {
          y, s = Loop(none, c, x) <body = b (int64 i, bool go, float[4] a) => (goes, a1, b1) {
            goes = Identity(go) a1 = Sin(a) b1 = Cos(a) }>
        }"""
    )
    infos = read_model(never).outputs
    assert [(info.shape, info.dtype) for info in infos] == [((4,), "float32"), ((0, 4), "float32")]


def test_a_loop_that_counts_its_trips() -> None:
    """The largest integer as the trip count, and a counter among the states."""
    proto = model(
        """g (float[3] x) => (float[3] y, float[n,3] s) <int64 most = {9223372036854775807}> {
          last, y, s = Loop(most, , zero, x) <
            body = b (int64 i, bool go, int64 k, float[3] a) => (goes, k1, a1, b1) {
              k1 = Add(k, two)
              goes = Less(k1, end)
              a1 = Sin(a)
              b1 = Neg(a)
            }>
        }""",
        zero=np.int64(0),
        two=np.int64(2),
        end=np.int64(9),
    )
    loaded = read_model(proto)
    assert [info.shape for info in loaded.outputs] == [(3,), (5, 3)]
    assert loaded.graph.nodes[0].attrs["form"].trips == 5
    compare(proto, {"x": np.asarray([0.5, -1, 2], np.float32)})


def test_a_scan_over_constants() -> None:
    numbers = np.random.default_rng(4).standard_normal((2, 3)).astype(np.float32)
    proto = model(
        """g (float[3,2] x) => (float[3,2] y) {
          last, t = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
                         scan_output_axes = [1], scan_output_directions = [1],
            body = b (float[2] s, float[2] a) => (float[2] s1, float[2] b1) {
              s1 = Add(s, a) b1 = Mul(s1, a) }> (zeros, table)
          turned = Transpose(t)
          z = ReduceSum<keepdims = 0>(last)
          u = Add(x, turned)
          y = Add(u, z)
        }""",
        zeros=np.zeros(2, np.float32),
        table=numbers,
    )
    assert operators(proto) == ["Add", "Add"]
    compare(proto, {"x": np.arange(6, dtype=np.float32).reshape(3, 2)})


def test_a_branch_that_the_shapes_do_not_allow() -> None:
    """silero-vad has a branch for each sampling rate, and each takes chunks of one length."""
    proto = model(
        """g (float[n,k] x, bool c) => (float[n,k] y, float[m] z) {
          y, z = If(c) <
            then_branch = g1 () => (u, v) { u = Relu(x) v = Identity(one) },
            else_branch = g2 () => (w, r) { w = MatMul(x, narrow) r = ReduceSum<keepdims=0>(w) }>
        }""",
        one=np.float32([1]),
        narrow=np.ones((4, 6), np.float32),
    )
    with pytest.warns(UserWarning, match=r"'y' \(If\): its else_branch cannot run"):
        built = tvmconv.build(proto, shapes={"x": (1, 6)}, threads=1)
    x = np.random.default_rng(5).standard_normal((1, 6)).astype(np.float32)
    compare(proto, {"x": x, "c": np.asarray(True)}, built)
    with pytest.raises(DataError, match=r"'y' \(If\): its condition 'c' is False"):
        built.run({"x": x, "c": np.asarray(False)})
    with pytest.warns(UserWarning, match="else_branch"):
        exported = read_model(proto, {"x": (1, 6)}).proto
    assert expected(exported, {"x": x, "c": np.asarray(True)})["y"].min() == 0


def test_branches_that_the_shapes_do_not_allow_are_refused() -> None:
    proto = model(
        """g (float[n] x, bool c) => (float y) {
          y = If(c) <then_branch = g1 () => (u) { u = MatMul(x, four) },
                     else_branch = g2 () => (v) { v = MatMul(x, five) }>
        }""",
        four=np.ones(4, np.float32),
        five=np.ones(5, np.float32),
    )
    with pytest.raises(ModelError, match="MatMul"):
        tvmconv.build(proto, shapes={"x": (6,)}, threads=1)
