"""Models that several files of this folder share."""

from __future__ import annotations

import pytest

from tests.emulated_gpu import Built
from tests.small_network import small_network


@pytest.fixture(scope="session")
def small(tmp_path_factory) -> Built:
    folder = tmp_path_factory.mktemp("cuda") / "small"
    # of layers so small, selection would take none that is tiled
    tiled = {
        "projection": {"algorithm": "implicit_gemm"},
        "right": {"algorithm": "winograd", "knobs": {"mh": 2, "mw": 2}},
    }
    return Built(folder, small_network(2), overrides=tiled)


@pytest.fixture(scope="session")
def single(tmp_path_factory) -> Built:
    """One image a call, for two architectures."""
    folder = tmp_path_factory.mktemp("cuda") / "single"
    return Built(folder, small_network(1), "cuda:sm_90,sm_80")
