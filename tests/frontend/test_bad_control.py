"""If, Loop and Scan that are refused: errors name the node and what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import tvmconv
from tests.frontend.bad_models import refuse
from tests.frontend.control_models import mixed, model
from tvmconv.errors import ModelError


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
