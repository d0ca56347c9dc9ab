"""A folder with a network of a few kilobytes."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.small_network import small_network


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli")
    onnx.save(small_network("N"), path / "small.onnx")
    return path
