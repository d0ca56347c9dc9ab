"""External tensor data: read inside the model's folder, refused anywhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from tests.frontend.bad_models import conv_model, refuse
from tests.frontend.onnx_runner import noise
from tvmconv.frontend import read_model


@pytest.fixture
def external(tmp_path: Path) -> Iterator[tuple[Path, onnx.ModelProto]]:
    """A folder with weights.bin, and a model whose weight points there."""
    model = conv_model()
    data = numpy_helper.to_array(model.graph.initializer[0]).tobytes()
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(b"skip" + data)
    (tmp_path / "outside.bin").write_bytes(b"skip" + data)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    point(model, location="weights.bin", offset="4", length=str(len(data)))
    yield folder, model


def point(model: onnx.ModelProto, **entries: str) -> None:
    """Replace external data entries."""
    tensor = model.graph.initializer[0]
    merged = {e.key: e.value for e in tensor.external_data} | entries
    del tensor.external_data[:]
    for key, value in merged.items():
        tensor.external_data.add(key=key, value=value)


def save(folder: Path, model: onnx.ModelProto) -> Path:
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data(external: tuple[Path, onnx.ModelProto]) -> None:
    folder, model = external
    loaded = read_model(save(folder, model))
    np.testing.assert_array_equal(noise(4, 3, 3, 3), loaded.graph.constants["w"])
    (folder / "deep").mkdir()
    (folder / "weights.bin").rename(folder / "deep" / "w.bin")
    point(model, location="deep/w.bin")
    again = read_model(save(folder, model))
    np.testing.assert_array_equal(noise(4, 3, 3, 3), again.graph.constants["w"])
    before = again.sha256
    data = bytearray((folder / "deep" / "w.bin").read_bytes())
    data[10] ^= 1
    (folder / "deep" / "w.bin").write_bytes(bytes(data))
    assert before != read_model(save(folder, model)).sha256


@pytest.mark.parametrize(
    "location",
    ["../outside.bin", "a/../../outside.bin", "", ".", "deep//w", "C:\\w.bin", "..\\w", "w\0.bin"],
)
def test_external_paths_that_escape(external: tuple[Path, onnx.ModelProto], location: str) -> None:
    folder, model = external
    point(model, location=location)
    refuse(save(folder, model), "'w'")


def test_external_absolute_path(external: tuple[Path, onnx.ModelProto]) -> None:
    folder, model = external
    point(model, location=str(folder.parent / "outside.bin"))
    refuse(save(folder, model), "'w'", "relative path")


def test_external_links(external: tuple[Path, onnx.ModelProto]) -> None:
    folder, model = external
    outside = folder.parent / "outside.bin"
    (folder / "soft.bin").symlink_to(outside)
    (folder / "hard.bin").hardlink_to(outside)
    (folder / "folder").symlink_to(folder.parent)
    os.mkfifo(folder / "pipe.bin")
    for name, word in (
        ("soft.bin", "symbolic link"),
        ("hard.bin", "hard link"),
        ("folder/outside.bin", "symbolic link"),
        ("pipe.bin", "regular file"),
        ("missing.bin", "cannot open"),
    ):
        point(model, location=name)
        refuse(save(folder, model), "'w'", name, word)


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": "5"},
        {"offset": "-1"},
        {"offset": "9" * 30},
        {"offset": "four"},
        {"length": "4"},
        {"length": str(2**62)},
        {"command": "rm"},
    ],
)
def test_external_ranges(external: tuple[Path, onnx.ModelProto], entries: dict[str, str]) -> None:
    folder, model = external
    point(model, **entries)
    refuse(save(folder, model), "'w'")


def test_external_data_without_a_folder(external: tuple[Path, onnx.ModelProto]) -> None:
    _, model = external
    refuse(model, "'w'", "path")
    refuse(model.SerializeToString(), "'w'", "path")


def test_links_of_a_download_cache(external: tuple[Path, onnx.ModelProto]) -> None:
    """Contents in one folder, names that link to them in another one."""
    folder, model = external
    blobs, names = folder / "blobs", folder / "names"
    blobs.mkdir()
    names.mkdir()
    (folder / "weights.bin").rename(blobs / "b1")
    save(folder, model).rename(blobs / "b2")
    (names / "weights.bin").symlink_to("../blobs/b1")
    (names / "model.onnx").symlink_to("../blobs/b2")
    loaded = read_model(names / "model.onnx")
    np.testing.assert_array_equal(noise(4, 3, 3, 3), loaded.graph.constants["w"])
    # without a name of its own, the data is next to the target
    (names / "weights.bin").unlink()
    (blobs / "b1").rename(blobs / "weights.bin")
    read_model(names / "model.onnx")
    (names / "weights.bin").symlink_to(folder.parent / "outside.bin")
    refuse(names / "model.onnx", "'w'", "out of the model's folder")


def test_a_link_inside_the_folder(external: tuple[Path, onnx.ModelProto]) -> None:
    folder, model = external
    (folder / "soft.bin").symlink_to("weights.bin")
    point(model, location="soft.bin")
    read_model(save(folder, model))
