"""Barriers of loops over two buffers: one an iteration is left, and none that is needed is gone."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tvm.script import tirx as T

from tests.cuda import SM_90, Source, default_kernel, run_kernel, source_of
from tests.tir.rewrites import barrier, check, check_same
from tvmconv.core.errors import ArtifactError
from tvmconv.tir.cuda.barriers import Barriers

BARRIER = "__syncthreads();"
PROBLEM = "ic12ih6oc24kh3ph1"
KNOBS = {"m": 32, "p": 64, "k": 4, "slice": "channels", "split": 1}


# 27 slices, of which the loop over all but one has pairs, and three: it has two iterations
THREE = "ic12ih6oc24kh1"


def barriers_of_the_loop(text: str) -> int:
    """Those between the head of the loop over slices and the brace that closes it."""
    bodies = re.findall(r"\n  for \(int \w+ = 0;.*?\n  }(?=\n)", text, flags=re.DOTALL)
    (found,) = [count for body in bodies if (count := body.count(BARRIER))]
    return found


@pytest.mark.parametrize(
    ("problem", "knobs", "count"),
    [
        (PROBLEM, {"pipeline": "double"}, 2),
        (PROBLEM, {"pipeline": "single"}, 4),
        (THREE, {"pipeline": "double"}, 1),
        (THREE, {"pipeline": "double", "k": 5}, 1),
        (THREE, {"pipeline": "double", "m": 64}, 1),
    ],
)
def test_barriers_of_an_iteration(problem, knobs, count):
    kernel = default_kernel(problem, "implicit_gemm", SM_90, **{**KNOBS, **knobs})
    assert barriers_of_the_loop(source_of(kernel).text) == count


SMALL = {**KNOBS, "pipeline": "double"}
MATRIX = {name: SMALL[name] for name in SMALL if name != "slice"}
ONE_SUM = {**SMALL, "p": 32, "windows": "stored", "kernel": "tiled", "micro": 0}
# problem, algorithm, knobs and barriers; two of these around sums that warps exchange
FORMS = {
    "even copies": (PROBLEM, "implicit_gemm", SMALL, 5),
    # slices of which some threads copy more than others, and warps have sums of their own
    "uneven copies": (PROBLEM, "implicit_gemm", {**SMALL, "k": 5}, 3),
    "two iterations": (THREE, "implicit_gemm", {**SMALL, "k": 5}, 2),
    "two iterations, shared sums": (THREE, "implicit_gemm", SMALL, 4),
    "matrix": (PROBLEM, "im2col", MATRIX, 5),
    # 11 iterations: one is left over
    "windows": (PROBLEM, "im2win", {**SMALL, "windows": "stored", "slice": "window", "k": 9}, 4),
    "one sum": (PROBLEM, "im2win", ONE_SUM, 2),
    "one buffer": (PROBLEM, "im2col", {**MATRIX, "pipeline": "single"}, 7),
}
# each is compiled as often as it has barriers, and once more
QUICK = ("even copies", "uneven copies", "two iterations")


@pytest.mark.parametrize(
    "form", [pytest.param(f, marks=[] if f in QUICK else [pytest.mark.slow]) for f in FORMS]
)
def test_every_barrier_that_is_left_is_needed(form):
    """Mutations: without any one of them results depend on the order of threads, or are wrong."""
    problem, algorithm, knobs, count = FORMS[form]
    kernel = default_kernel(problem, algorithm, SM_90, **knobs)
    whole = source_of(kernel)
    places = [match.start() for match in re.finditer(re.escape(BARRIER), whole.text)]
    assert len(places) == count
    for place in places:
        text = whole.text[:place] + whole.text[place + len(BARRIER) :]
        with pytest.raises(ArtifactError, match="depend on the order of threads"):
            run_kernel(kernel, Source(text, whole.launches, whole.shapes))
    actual, expected = run_kernel(kernel)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def _slices(read: int, written: int) -> Any:
    """A loop that reads one half of an array, and writes another."""

    @T.prim_func(private=True, s_tir=True)
    def slices(x: T.Buffer((1024,), "float32"), y: T.Buffer((64,), "float32")):
        with T.launch_thread("threadIdx.x", 64) as t:
            s = T.alloc_buffer((128,), scope="shared")
            a = T.alloc_buffer((1,), scope="local")
            for v in range(8):
                T.evaluate(barrier())
                a[0] = a[0] + s[(v + read) % 2 * 64 + 63 - t]
                T.evaluate(barrier())
                s[(v + written) % 2 * 64 + t] = x[v * 64 + t]
            y[t] = a[0]

    return slices


def test_a_barrier_between_two_buffers_goes():
    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((1024,), "float32"), y: T.Buffer((64,), "float32")):
        with T.launch_thread("threadIdx.x", 64) as t:
            s = T.alloc_buffer((128,), scope="shared")
            a = T.alloc_buffer((1,), scope="local")
            for v in range(8):
                T.evaluate(barrier())
                a[0] = a[0] + s[(v + 0) % 2 * 64 + 63 - t]
                s[(v + 1) % 2 * 64 + t] = x[v * 64 + t]
            y[t] = a[0]

    check(Barriers(), _slices(0, 1), expected)


def test_a_barrier_between_accesses_of_one_buffer_stays():
    check_same(Barriers(), _slices(0, 0))
