"""Barriers of loops over two buffers: one an iteration is left, and none that is needed is gone."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.cuda import SM_90, Source, default_kernel, run_kernel, source_of
from tvmconv.core.errors import ArtifactError

BARRIER = "__syncthreads();"
PROBLEM = "ic16ih6oc24kh3ph1"
KNOBS = {"m": 32, "p": 64, "k": 4, "slice": "channels", "split": 1}


def source(pipeline: str) -> Source:
    return source_of(default_kernel(PROBLEM, "implicit_gemm", SM_90, pipeline=pipeline, **KNOBS))


def barriers_of_the_loop(text: str) -> int:
    """Those between the head of the loop over slices and the brace that closes it."""
    body = re.search(r"\n  for \(int part = 0;.*?\n  }\n", text, flags=re.DOTALL)
    assert body is not None
    return body[0].count(BARRIER)


@pytest.mark.parametrize(("pipeline", "count"), [("double", 1), ("single", 2)])
def test_barriers_of_an_iteration(pipeline, count):
    assert barriers_of_the_loop(source(pipeline).text) == count


SMALL = {**KNOBS, "pipeline": "double"}
ONE_SUM = {**SMALL, "p": 32, "windows": "stored", "kernel": "tiled", "micro": 0}
FORMS = {
    "even copies": ("implicit_gemm", SMALL),
    # slices of which some threads copy more than others
    "uneven copies": ("implicit_gemm", {**SMALL, "k": 5}),
    "matrix": ("im2col", {name: SMALL[name] for name in SMALL if name != "slice"}),
    "windows": ("im2win", {**SMALL, "windows": "stored", "slice": "window", "k": 9}),
    "one sum": ("im2win", ONE_SUM),
    "one buffer": ("im2col", {"m": 32, "p": 64, "k": 4, "split": 1, "pipeline": "single"}),
}
# each is compiled as often as it has barriers, and once more
QUICK = ("even copies", "uneven copies")


@pytest.mark.parametrize(
    "form", [pytest.param(f, marks=[] if f in QUICK else [pytest.mark.slow]) for f in FORMS]
)
def test_every_barrier_that_is_left_is_needed(form):
    """Mutations: without any one of them results depend on the order of threads, or are wrong."""
    algorithm, knobs = FORMS[form]
    kernel = default_kernel(PROBLEM, algorithm, SM_90, **knobs)
    whole = source_of(kernel)
    places = [match.start() for match in re.finditer(re.escape(BARRIER), whole.text)]
    assert len(places) == (3 if form == "one buffer" else 2)
    for place in places:
        text = whole.text[:place] + whole.text[place + len(BARRIER) :]
        with pytest.raises(ArtifactError, match="depend on the order of the threads"):
            run_kernel(kernel, Source(text, whole.launches, whole.shapes))
    actual, expected = run_kernel(kernel)
    np.testing.assert_allclose(actual, expected, atol=1e-5)
