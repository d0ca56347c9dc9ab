"""Quantized models for CPUs with AMX: whole, saved, in a new process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tvmconv
from tests.frontend.quantised_models import image, quantised_network
from tests.tiles_machine import TILES
from tvmconv.core.errors import ArtifactError
from tvmconv.machines import gate
from tvmconv.machines.gate import lacks
from tvmconv.machines.tile_unit import TILE_FEATURES

# by tiles wherever they compute a layer, however small
CHOSEN = ["direct_tiles", "direct", "depthwise"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiles")
    network = quantised_network(folder, "QDQ", "QUInt8", "QInt8", per_channel=True)
    model = tvmconv.build(
        network,
        target=TILES,
        threads=2,
        overrides=lambda _layer, _workload, candidates: next(
            (c for name in CHOSEN for c in candidates if c.algorithm == name), None
        ),
    )
    used = [decision.chosen.algorithm for decision in model.manifest.decisions]
    assert used.count("direct_tiles") >= 3
    return model.save(folder / "tiles.so")


def test_a_processor_without_tiles_is_reported(saved: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        gate, "host_features", lambda: frozenset(gate.required_features(TILES)) - {"amx_int8"}
    )
    with pytest.raises(ArtifactError, match=r"tiles\.so was built for .* needs amx_int8"):
        tvmconv.load(saved)


@pytest.mark.skipif(bool(lacks(TILES)), reason="this processor has no tiles")
def test_a_new_process_runs_it_and_gets_what_loops_compute(saved: Path, tmp_path: Path):
    program = (
        "import sys, numpy, tvmconv\n"
        "model = tvmconv.load(sys.argv[1])\n"
        "numpy.save(sys.argv[2], model.run(numpy.load(sys.argv[3]))[0])\n"
    )
    np.save(tmp_path / "x.npy", image(7))
    names = (saved, tmp_path / "y.npy", tmp_path / "x.npy")
    subprocess.run([sys.executable, "-c", program, *map(str, names)], check=True, timeout=300)
    plain = tvmconv.build(saved.with_name("quantised.onnx"), target="x86-64-v4", threads=1)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), plain.run(image(7))[0])


def test_the_features_of_tiles_are_in_the_manifest(saved: Path):
    text = saved.with_suffix(".json").read_text()
    assert all(f'"{name}"' in text for name in TILE_FEATURES)
