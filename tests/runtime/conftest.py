"""Compiled programs shared by the runtime tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import programs

from tvmconv.model import CompiledModel


@pytest.fixture(scope="session")
def dense() -> CompiledModel:
    return programs.dense_model()


@pytest.fixture(scope="session")
def saved_files(dense: CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dense.save(tmp_path_factory.mktemp("saved") / "dense.so")


@pytest.fixture
def saved(saved_files: Path, tmp_path: Path) -> Path:
    """A private copy of a saved model; the path of its .so."""
    for suffix in (".so", ".json"):
        (tmp_path / f"dense{suffix}").write_bytes(saved_files.with_suffix(suffix).read_bytes())
    return tmp_path / "dense.so"


@pytest.fixture(scope="session")
def busy_files(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The parallel program saved for one and for two threads."""
    folder = tmp_path_factory.mktemp("busy")
    return {n: programs.busy_model(n).save(folder / f"busy{n}.so") for n in (1, 2)}
