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


def test_every_barrier_that_is_left_is_needed():
    """Mutations: without any one of them results depend on the order of threads, or are wrong."""
    kernel = default_kernel(PROBLEM, "implicit_gemm", SM_90, pipeline="double", **KNOBS)
    whole = source_of(kernel)
    places = [match.start() for match in re.finditer(re.escape(BARRIER), whole.text)]
    assert len(places) == 2
    for place in places:
        text = whole.text[:place] + whole.text[place + len(BARRIER) :]
        with pytest.raises(ArtifactError, match="depend on the order of the threads"):
            run_kernel(kernel, Source(text, whole.launches, whole.shapes))
    actual, expected = run_kernel(kernel)
    np.testing.assert_allclose(actual, expected, atol=1e-5)
