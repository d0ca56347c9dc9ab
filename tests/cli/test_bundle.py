"""Bundles: compiled and run by their own script in a folder without anything else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tvmconv
from tests.cli.verbs import data_of, invoke
from tvmconv.core.errors import ArtifactError

STRICT = "cc -std=c99 -Wall -Wextra -pedantic -Werror"


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two inputs of different types, and outputs of three."""
    tensors = {
        "x": (TensorProto.FLOAT, [2, 7]), "i": (TensorProto.INT64, [3]),
        "y": (TensorProto.FLOAT, [2, 7]), "j": (TensorProto.INT64, [3]),
        "b": (TensorProto.BOOL, [2, 7]),
    }  # fmt: skip
    values = {n: helper.make_tensor_value_info(n, *kind) for n, kind in tensors.items()}
    nodes = [
        helper.make_node("Exp", ["x"], ["y"]),
        helper.make_node("Add", ["i", "i"], ["j"]),
        helper.make_node("Greater", ["y", "x"], ["b"]),
    ]
    graph = helper.make_graph(
        nodes, "several", [values["x"], values["i"]], [values[n] for n in "yjb"]
    )
    opsets = [helper.make_opsetid("", 17)]
    path = tmp_path_factory.mktemp("several") / "several.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def run(folder: Path, *words: object, cc: str = STRICT) -> subprocess.CompletedProcess[str]:
    """The script on a machine that has a C compiler and nothing of ours."""
    environment = {"PATH": os.environ["PATH"], "CC": cc}
    return subprocess.run(
        ["sh", folder / "run.sh", *map(str, words)],
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def compare(model: Path, bundle: Path, place: Path) -> str:
    """Run the bundle and onnxruntime on random inputs; returns the bundle's output."""
    session = onnxruntime.InferenceSession(str(model))
    generator = np.random.default_rng(1)
    feeds, names = {}, []
    for index, info in enumerate(session.get_inputs()):
        shape = [extent if isinstance(extent, int) else 1 for extent in info.shape]
        kind = np.int64 if "int64" in info.type else np.float32
        feeds[info.name] = (generator.standard_normal(shape) * 5).astype(kind)
        names.append(place / f"{index}.in")
        feeds[info.name].tofile(names[-1])
    done = run(bundle, "-o", place, "-r", 2, *names)
    assert done.returncode == 0, done.stderr
    for index, wanted in enumerate(session.run(None, feeds)):
        actual = np.fromfile(place / f"{index}.out", wanted.dtype).reshape(wanted.shape)
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-6)
    return done.stdout


@pytest.mark.parametrize("weights", ["embedded", "external"])
def test_network(folder: Path, tmp_path: Path, weights: str) -> None:
    words = ("bundle", folder / "small.onnx", "-o", tmp_path / "made", "--threads", 1)
    report = data_of(*words, "--shape", "input:1x3x21x20", "--weights", weights)
    assert report["script"] == str(tmp_path / "made/run.sh")
    device = tmp_path / "device"
    shutil.move(tmp_path / "made", device)
    files = {"run.sh", "run.c", "README.md", "tvmconv.h", "tvmconv.hpp"}
    files |= {f"small.{suffix}" for suffix in ("so", "json", "h")}
    files |= {"small.weights"} if weights == "external" else set()
    assert {path.name for path in device.iterdir()} == files
    told = compare(folder / "small.onnx", device, tmp_path)
    assert "input input float32 1 3 21 20" in told
    assert "1 thread(s)" in told
    readme = (device / "README.md").read_text()
    assert all(f"`{name}`" in readme for name in files - {"README.md", "tvmconv.hpp"})


def test_several_inputs_and_types(several: Path, tmp_path: Path) -> None:
    tvmconv.build(several, threads=1).bundle(tmp_path / "made")
    told = compare(several, tmp_path / "made", tmp_path)
    assert "output b bool 2 7" in told
    ramp = run(tmp_path / "made")
    assert ramp.returncode == 0
    assert "minimum 1, maximum " in ramp.stdout
    tvmconv.load(tmp_path / "made/model.so").bundle(tmp_path / "made")
    assert run(tmp_path / "made", "-r", 1).stdout.count("\n") == ramp.stdout.count("\n")


def test_what_cannot_be_run(several: Path, tmp_path: Path) -> None:
    tvmconv.build(several, threads=1).bundle(tmp_path / "made")
    (tmp_path / "short").write_bytes(b"123")
    for words, message in (
        (["short"], "No such file"),
        ([tmp_path / "short"], "takes exactly 56 bytes"),
        (["a", "b", "c"], "has 2 input(s), 3 files"),
        (["-x"], "usage:"),
        (["-r", "0"], "usage:"),
        (["-o", tmp_path / "missing"], "No such file"),
    ):
        done = run(tmp_path / "made", *words)
        assert done.returncode in (1, 2)
        assert message in done.stderr
    (tmp_path / "made/model.so").write_text("no model")
    assert "model.so" in run(tmp_path / "made").stderr


def test_folders_that_are_taken(several: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    result = invoke("bundle", "missing.onnx", "-o", tmp_path)
    assert "is not empty and is not a bundle" in result.stderr
    odd = several.with_name("two words.onnx")
    shutil.copy(several, odd)
    assert "another name (--name)" in invoke("bundle", odd, "-o", tmp_path / "new").stderr
    assert not (tmp_path / "new").exists()
    data_of("bundle", odd, "-o", tmp_path / "named", "--name", "words", "--threads", 1)
    assert run(tmp_path / "named").returncode == 0
    with pytest.raises(ArtifactError, match="letters, digits"):
        tvmconv.build(several, threads=1).bundle(tmp_path / "new", "../x")


def test_a_bundle_that_fails_leaves_no_folder(
    several: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise ArtifactError("cannot write run.sh: No space left on device")

    model = tvmconv.build(several, threads=1)
    monkeypatch.setattr("tvmconv.artifact.bundle.write_bundle", full)
    for folder, remains in (("new", False), ("made", True)):
        if remains:
            (tmp_path / folder).mkdir()
        with pytest.raises(ArtifactError, match="No space left"):
            model.bundle(tmp_path / folder)
        assert (tmp_path / folder).exists() == remains
