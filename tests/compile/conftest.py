"""Models that several files of this folder share."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulated_gpu import CALLING, Built
from tests.small_network import small_network


@pytest.fixture(scope="session")
def small(tmp_path_factory) -> Built:
    folder = tmp_path_factory.mktemp("cuda") / "small"
    # selection would choose no tiled algorithm for layers so small
    tiled = {
        "projection": {"algorithm": "implicit_gemm"},
        "right": {"algorithm": "winograd", "knobs": {"mh": 2, "mw": 2, "split": 1}},
    }
    return Built(folder, small_network(2), overrides=tiled)


@pytest.fixture(scope="session")
def single(tmp_path_factory) -> Built:
    """One image a call, for two architectures."""
    folder = tmp_path_factory.mktemp("cuda") / "single"
    return Built(folder, small_network(1), "cuda:sm_90,sm_80")


@pytest.fixture(scope="session")
def check(single):
    """Runs lines after ``CALLING``, of ``single``, in a process with the emulated driver."""
    (info,) = single.model.inputs
    x = np.random.default_rng(0).standard_normal(info.shape, "float32")
    (right,) = single.expected({info.name: x})
    np.save(single.path.parent / "right.npy", right)

    def run(lines: str, **variables: str) -> None:
        single.check_python(CALLING + lines, **variables)

    return run
