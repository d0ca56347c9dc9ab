"""Files of inputs that cannot be read: an error before a model is opened or built."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.verbs import invoke


@pytest.mark.parametrize("verb", ["run", "profile"])
@pytest.mark.parametrize("kind", ["absent", "nameless", "text", "empty", "cut", "zip", "objects"])
def test_an_input_that_cannot_be_read(verb: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    if kind == "cut":
        np.save(path, np.ones(1000))
        path.write_bytes(path.read_bytes()[:500])
    elif kind == "objects":
        np.save(path, np.array([{}]), allow_pickle=True)
    elif kind not in ("absent", "nameless"):
        path.write_bytes({"text": b"1 2 3", "empty": b"", "zip": b"PK\x03\x04 half"}[kind])
    word = "input=" + ("" if kind == "nameless" else str(path))
    result = invoke(verb, "missing.onnx", "--input", word)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    opened = kind not in ("absent", "nameless")
    assert line.startswith("tvmconv: --input" if opened else "tvmconv: cannot open --input")
    assert word in line
    assert ("Write it with numpy.save" in line) == opened
    assert "Errno" not in line and "pickle" not in line
