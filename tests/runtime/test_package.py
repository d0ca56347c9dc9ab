"""Behavior of ``tvmconv_runtime.load``; tests/packaging/test_wheel.py installs its wheel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import programs
import pytest

from tvmconv.core.errors import ArtifactError, InputError
from tvmconv.runtime import portable


def test_the_same_values(saved: Path) -> None:
    model = portable.load(saved)
    inputs = programs.dense_inputs(2)
    expected = programs.dense_reference(inputs)
    np.testing.assert_allclose(model.run(inputs)["hidden"], expected, rtol=2e-5, atol=2e-5)
    assert [str(t) for t in model.inputs] == ["x: float32[24, 40]", "y: float32[24, 40]"]
    assert (model.threads, portable.load(saved, threads=3).threads) == (1, 3)
    with pytest.raises(InputError, match="missing input"):
        model.run({"x": inputs["x"]})


def test_damaged_files(saved: Path, tmp_path: Path) -> None:
    content = saved.read_bytes()
    for name, data, message in (
        ("short", content[:-100], "holds no manifest"),
        ("flipped", content[:9000] + bytes([content[9000] ^ 1]) + content[9001:], "damaged"),
        ("empty", b"", "holds no manifest"),
    ):
        (tmp_path / f"{name}.so").write_bytes(data)
        with pytest.raises(ArtifactError, match=message):
            portable.load(tmp_path / f"{name}.so")
    with pytest.raises(ArtifactError, match="does not exist"):
        portable.load(tmp_path / "missing.so")
