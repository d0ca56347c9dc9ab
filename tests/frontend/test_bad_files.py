"""Files that are damaged, of another kind, or no files: an error that says which, never a crash."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.frontend.bad_models import conv_model, refuse
from tvmconv.core.errors import ModelError
from tvmconv.frontend import read_model


@pytest.mark.parametrize("size", [1, 5, 20, 100])
def test_truncated_file(tmp_path: Path, size: int) -> None:
    path = tmp_path / "net.onnx"
    data = conv_model().SerializeToString()
    path.write_bytes(data[: len(data) * size // 101])
    refuse(path)


def test_every_truncation_is_an_error_or_a_model() -> None:
    data = conv_model().SerializeToString()
    for end in range(0, len(data), 7):
        refuse(data[:end])


def test_flipped_bytes_never_crash() -> None:
    data = bytearray(conv_model(bias=(4,), pads=[1, 1, 1, 1]).SerializeToString())
    random = np.random.default_rng(0)
    accepted = 0
    for _ in range(300):
        damaged = bytearray(data)
        for position in random.integers(0, len(data), 3):
            damaged[position] = random.integers(0, 256)
        try:
            read_model(bytes(damaged))
            accepted += 1
        except ModelError:
            pass
    # most bytes are weights, and a changed weight is still a model
    assert 0 < accepted < 300


@pytest.mark.parametrize("data", [b"", b"hello, world", b"\x00" * 64, os.urandom(256)])
def test_garbage(data: bytes) -> None:
    refuse(data)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "git lfs pull"),
        (b"\n<!DOCTYPE html><html>", "HTML"),
        (b"PK\x03\x04\x00\x00\x08\x08", "torch.onnx.export"),
        (b"\x7fELF\x02\x01\x01", "tvmconv.load"),
        (b"\x1c\x00\x00\x00TFL3", "TensorFlow Lite"),
        (b'{"schema": 1}', "JSON"),
    ],
)
def test_files_of_other_kinds_are_named(data: bytes, word: str) -> None:
    assert "is not an ONNX model but" in refuse(data, word)


def test_a_file_is_named_by_bytes(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.onnx"))
    onnx.save(conv_model(), path)
    assert read_model(path).name == "caf\N{REPLACEMENT CHARACTER}"


def test_path_problems(tmp_path: Path) -> None:
    refuse(tmp_path / "missing.onnx", "missing.onnx", "Check the path")
    refuse(tmp_path, "not a regular file but a folder")
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    refuse(pipe, "not a regular file")
    refuse("bad\0name.onnx", "Check the path")
    refuse(17, "int")
