"""The recorded vectors of a function are in its assembly."""

from __future__ import annotations

import pytest

from tests.assembly import assembly
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.sve import MACHINES
from tvmconv.tir.general.record_vector_code import recorded_code

SVE = MACHINES["aarch64+sve"]
_SCALABLE, _FIXED = r"\bz\d+\.s\b", r"\bf\w+\s+v\d+\.4s\b"


NEON = "NEON: its schedule has no scalable form, or NEON code costs less"


@pytest.mark.parametrize(
    ("problem", "algorithm", "words"),
    [
        ("ic8ih9oc16kh3ph1+bias+relu", "direct", "SVE"),
        ("ic8ih9oc16kh3ph1", "winograd", "SVE and NEON"),
        ("ic8ih9oc16kh3ph1", "direct_naive", NEON),
    ],
)
def test_recorded_vectors_are_in_the_assembly(problem, algorithm, words):
    kernel = make_kernel(Conv2dWorkload.parse(problem), SVE, algorithm)
    with recorded_code() as found:
        code = assembly(kernel)
    assert found["main"] == words
    assert code.has(_SCALABLE) == words.startswith("SVE")
    assert code.has(_FIXED) == ("NEON" in words)
