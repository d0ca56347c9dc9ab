"""A folder with a network of a few kilobytes, which most tests build alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.small_network import small_network
from tvmconv.cache.folder import SIZE_ENVIRONMENT


@pytest.fixture(autouse=True)
def built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find what others have built in this run: their tests are not about kernels."""
    monkeypatch.delenv(SIZE_ENVIRONMENT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli")
    model = small_network("N")
    onnx.save(model, path / "small.onnx")
    np.save(path / "one.npy", np.ones((1, 3, 21, 20), "float32"))
    (path / "cut.onnx").write_bytes((path / "small.onnx").read_bytes()[:300])
    model.graph.input[0].name = "picture"
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = "picture" if name == "input" else name
    onnx.save(model, path / "else.onnx")
    return path
