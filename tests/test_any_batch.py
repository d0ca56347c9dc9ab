"""One model for any number of images: bits of single images, and other interfaces."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_int32, c_void_p
from pathlib import Path
from platform import machine
from typing import Any

import numpy as np
import onnx
import pytest
import tvm_ffi

import tvmconv
from examples.networks import NETWORKS
from tests.cli.verbs import data_of, invoke
from tests.compile.c_model import CModel
from tests.frontend.batch_models import made, node
from tests.frontend.onnx_runner import run_reference
from tvmconv.core.errors import ConfigError, InputError
from tvmconv.runtime import portable
from tvmconv.runtime.library import C_SOURCES

COUNTS = (1, 2, 3, 5, 7, 8, 13, 64)

_CPP = """
#include <cstdio>
#include "tvmconv.hpp"
int main(int, char **arguments) {
    tvmconv::Model model(arguments[1]);
    tvmconv::State state(model);
    int64_t images = std::stoll(arguments[2]);
    std::vector<float> x(3 * 12 * 12 * images), scale(1, 2.0f), y(24 * images);
    std::FILE *file = std::fopen(arguments[3], "rb");
    if (std::fread(x.data(), 4, x.size(), file) != x.size()) return 3;
    std::fclose(file);
    try {
        state.run_batch(images + 1, {tvmconv::input(x), tvmconv::input(scale)},
                        {tvmconv::output(y)});
        return 4;
    } catch (const tvmconv::Error &error) {
        if (error.status() != TVMCONV_INVALID) return 5;
    }
    state.set_shapes({{images, 3, 12, 12}, {1}});
    state.run_batch(images, {tvmconv::input(x), tvmconv::input(scale)}, {tvmconv::output(y)});
    return std::fwrite(y.data(), 4, y.size(), stdout) != y.size();
}
"""


def network() -> onnx.ModelProto:
    """Convolutions, pools, a dense layer, a Softmax, and a factor that all images share."""
    draw = np.random.default_rng(3)
    weights = {
        "w1": draw.standard_normal((16, 3, 3, 3)).astype(np.float32),
        "w2": draw.standard_normal((32, 16, 3, 3)).astype(np.float32) / 8,
        "w3": draw.standard_normal((288, 24)).astype(np.float32) / 8,
        "b3": draw.standard_normal(24).astype(np.float32),
    }
    nodes = [
        node("Conv", ["x", "w1"], ["a"], "first", pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("MaxPool", ["b"], ["c"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["c", "w2"], ["d"], "second", pads=[1, 1, 1, 1]),
        node("AveragePool", ["d"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["e"], ["f"]),
        node("Gemm", ["f", "w3", "b3"], ["g"], "dense"),
        node("Mul", ["g", "scale"], ["h"]),
        node("Softmax", ["h"], ["y"], "softmax", axis=-1),
    ]
    return made(nodes, {"x": ["N", 3, 12, 12], "scale": [1]}, weights)


SCALE = np.full(1, 2, np.float32)


def images(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, 3, 12, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> tvmconv.CompiledModel:
    return tvmconv.build(network(), batch="any", threads=2)


@pytest.fixture(scope="module")
def saved(model: tvmconv.CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model.save(tmp_path_factory.mktemp("saved") / "batches.so")


def check(model: tvmconv.CompiledModel, run: Callable[[np.ndarray], Any], count: int) -> None:
    """A batch has the bits of single images."""
    x = images(count)
    single = [model.run({"x": x[i : i + 1], "scale": SCALE})[0] for i in range(count)]
    np.testing.assert_array_equal(run(x), np.concatenate(single), strict=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_batch_has_the_bits_of_single_images(
    model: tvmconv.CompiledModel, saved: Path, threads: int
) -> None:
    loaded = tvmconv.load(saved, threads=threads)
    y = np.empty((64, 24), np.float32)
    for count in COUNTS:
        check(model, lambda x: loaded.run({"x": x, "scale": SCALE})[0], count)
    check(model, lambda x: portable.load(saved).run({"x": x, "scale": SCALE})[0], 13)
    check(model, lambda x: loaded.bind({"x": x, "scale": SCALE}).outputs()[0], 5)
    check(model, lambda x: loaded.run_into([x, SCALE], [y])[0], 64)


def test_values(model: tvmconv.CompiledModel) -> None:
    x = images(5)
    (wanted,) = run_reference(network(), {"x": x, "scale": SCALE})
    got = model.run(x, SCALE)[0]
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)


def test_c_interface(model: tvmconv.CompiledModel, saved: Path) -> None:
    loaded = CModel(saved)
    assert loaded.description.batched[:2] == [1, 0]
    for count in COUNTS:
        check(model, lambda x: loaded.run_batch(len(x), x, SCALE)[0], count)
    with pytest.raises(RuntimeError, match="less than 1"):
        loaded.run_batch(0, images(1), SCALE)
    loaded.close()


def test_threads_of_the_caller_in_any_order(model: tvmconv.CompiledModel, saved: Path) -> None:
    task_type = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int32)

    @ctypes.CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p, c_void_p)
    def backwards(_context: int, count: int, task: int, argument: int) -> int:
        return max([task_type(task)(argument, index) for index in reversed(range(count))])

    function = ctypes.cast(backwards, c_void_p).value
    loaded = CModel(saved, threads=5, parallel_for=function)
    for count in (4, 5, 9, 14, 22):
        check(model, lambda x: loaded.run_batch(len(x), x, SCALE)[0], count)
    loaded.close()


def test_threads_call_different_batches(saved: Path) -> None:
    loaded = tvmconv.load(saved, threads=2)
    wanted = {count: loaded.run(images(count), SCALE)[0] for count in COUNTS[:6]}

    def call(index: int) -> bool:
        count = COUNTS[index % 6]
        return bool(np.array_equal(loaded.run(images(count), SCALE)[0], wanted[count]))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(100)))


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_bundle_runs_as_many_images_as_the_file_holds(
    model: tvmconv.CompiledModel, tmp_path: Path
) -> None:
    model.bundle(tmp_path / "bundle", "batches")

    def run(x: np.ndarray) -> np.ndarray:
        x.tofile(tmp_path / "x.bin")
        SCALE.tofile(tmp_path / "scale.bin")
        files = [tmp_path / "x.bin", tmp_path / "scale.bin"]
        script = ["sh", tmp_path / "bundle/run.sh", "-o", tmp_path, "-r", "1", *files]
        subprocess.run(script, check=True)
        return np.fromfile(tmp_path / "0.out", np.float32).reshape(-1, 24)

    check(model, run, 3)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_cpp(model: tvmconv.CompiledModel, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "use.cc").write_text(_CPP)
    command = ["g++", "-std=c++11", "-Wall", "-Werror", f"-I{C_SOURCES}", tmp_path / "use.cc"]
    subprocess.run([*command, "-o", tmp_path / "use", "-ldl"], check=True)

    def run(x: np.ndarray) -> np.ndarray:
        x.tofile(tmp_path / "x.bin")
        command = [tmp_path / "use", saved, str(len(x)), tmp_path / "x.bin"]
        done = subprocess.run(command, check=True, capture_output=True)
        return np.frombuffer(done.stdout, np.float32).reshape(-1, 24)

    check(model, run, 7)


def test_tvm_s_loader(model: tvmconv.CompiledModel, tmp_path: Path) -> None:
    main = tvm_ffi.load_module(str(model.save(tmp_path / "loader.so")))["main"]

    def run(x: np.ndarray) -> np.ndarray:
        y = np.empty((len(x), 24), np.float32)
        main(*map(tvm_ffi.from_dlpack, (x, SCALE, y)))
        return y

    for count in (1, 5):
        check(model, run, count)
    with pytest.raises(ValueError, match=r"\(5, 24\)"):
        main(*map(tvm_ffi.from_dlpack, (images(5), SCALE, np.empty((4, 24), np.float32))))


def test_commands(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    path = tmp_path / "net.so"
    given = invoke("compile", tmp_path / "net.onnx", "-o", path, "--batch", "any", "--threads", 2)
    assert given.exit_code == 0, given.output
    assert "any size" in invoke("explain", path).stdout
    facts = data_of("explain", path)
    assert facts["batch"] == "any"
    assert facts["inputs"][0] == "x: float32[N, 3, 12, 12]"
    np.save(tmp_path / "x.npy", images(5))
    file = tmp_path / "y.npz"
    given = invoke("run", path, "--input", f"x={tmp_path / 'x.npy'}", "--repeat", 1, "-o", file)
    assert given.exit_code == 0, given.output
    assert np.load(file)["y"].shape == (5, 24)
    assert "4x24" in invoke("run", path, "--shape", "x:4x3x12x12", "--repeat", 1).stdout
    given = invoke("profile", path, "--shape", "x:4x3x12x12")
    assert "profile of 4 images. Expected one image" in given.output
    assert invoke("check", tmp_path / "net.onnx", "--batch", "any").exit_code == 0
    mixer = made([node("Softmax", ["x"], ["y"], "mixer", axis=0)], {"x": ["N", 4]})
    onnx.save(mixer, tmp_path / "mixer.onnx")
    given = invoke("check", tmp_path / "mixer.onnx", "--batch", "any")
    assert given.exit_code and "mixer" in given.output
    given = invoke("compile", tmp_path / "net.onnx", "-o", path, "--batch", "4")
    assert "Expected 'any'" in given.output


def test_inputs_that_are_refused(model: tvmconv.CompiledModel) -> None:
    wanted = r"\(5, 3, 12, 13\)\. Expected \(N, 3, 12, 12\)\. .* shapes={'x': \(1, 3, 12, 13\)}"
    with pytest.raises(InputError, match=wanted):
        model.run(np.zeros((5, 3, 12, 13), np.float32), SCALE)
    with pytest.raises(InputError, match="no images"):
        model.run(images(0), SCALE)
    with pytest.raises(InputError, match="writable float32"):
        model.run_into([images(3), SCALE], [np.empty((2, 24), np.float32)])
    with pytest.raises(InputError, match="one image"):
        model.profile([images(3), SCALE])
    with pytest.raises(ConfigError, match=r"batch='any' for .*Expected a CPU"):
        tvmconv.build(network(), "cuda:sm_90", batch="any")


def test_several_widths_with_any_batch() -> None:
    weight = np.random.default_rng(1).standard_normal((8, 3, 3, 3)).astype(np.float32)
    nodes = [node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    proto = made(nodes, {"x": ["N", 3, 4, "width"]}, {"w": weight})
    model = tvmconv.build(proto, shapes={"width": [8, 16]}, batch="any", threads=1)
    for width in (16, 8):
        x = np.random.default_rng(2).standard_normal((3, 3, 4, width)).astype(np.float32)
        np.testing.assert_allclose(model.run(x)[0], run_reference(proto, {"x": x})[0], atol=1e-4)
    for shape in ((3, 3, 4, 9), (3, 4, 9)):
        said = f"shape {shape}, and the model was not built for it. Expected one of (N, 3, 4, 8), ("
        with pytest.raises(InputError, match=re.escape(said)):
            model.run(np.zeros(shape, np.float32))


def test_several_targets_and_widths_with_any_batch(tmp_path: Path) -> None:
    weight = np.random.default_rng(1).standard_normal((8, 3, 3, 3)).astype(np.float32)
    proto = made([node("Conv", ["x", "w"], ["y"])], {"x": ["N", 3, 4, "width"]}, {"w": weight})
    targets = ["x86-64-v3", "x86-64-v4"] if machine() == "x86_64" else ["native"]
    path = tvmconv.build(proto, targets, shapes={"width": [8, 16]}, batch="any", threads=1).save(
        tmp_path / "model.so"
    )
    model = tvmconv.load(path)
    for width in (16, 8):
        x = np.random.default_rng(2).standard_normal((3, 3, 4, width)).astype(np.float32)
        (y,) = model.submit(x).result()
        np.testing.assert_allclose(y, run_reference(proto, {"x": x})[0], atol=1e-4)
    c = CModel(path)
    with pytest.raises(RuntimeError, match=r"Expected x \(N, 3, 4, 8\); or x \(N, 3, 4, 16\)"):
        c.set_shapes((5, 3, 4, 9))


def test_networks_that_treat_images_separately() -> None:
    """Attention, a class token that is repeated for each image, and merged axes."""
    weights = {
        "w": np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32),
        "token": np.ones((1, 1, 8), np.float32),
        "one": np.array([1]),
        "rest": np.array([-1, -1]),
        "heads": np.array([0, 0, 2, 4]),
        "rows": np.array([-1, 4]),
        "back": np.array([-1, 2, 6, 4]),
    }
    nodes = [
        node("Shape", ["x"], ["n"], end=1),
        node("Concat", ["n", "rest"], ["size"], axis=0),
        node("Abs", ["size"], ["target"]),
        node("Expand", ["token", "target"], ["tokens"]),
        node("Concat", ["tokens", "x"], ["a"], axis=1),
        node("MatMul", ["a", "w"], ["b"]),
        node("Reshape", ["b", "heads"], ["c"]),
        node("Transpose", ["c"], ["q"], perm=[0, 2, 1, 3]),
        node("Transpose", ["c"], ["k"], perm=[0, 2, 3, 1]),
        node("MatMul", ["q", "k"], ["scores"]),
        node("Softmax", ["scores"], ["p"], axis=-1),
        node("MatMul", ["p", "q"], ["d"]),
        node("Reshape", ["d", "rows"], ["e"]),
        node("Relu", ["e"], ["f"]),
        node("Reshape", ["f", "back"], ["y"]),
    ]
    proto = made(nodes, {"x": ["N", 5, 8]}, weights)
    model = tvmconv.build(proto, batch="any", threads=1)
    x = np.random.default_rng(2).standard_normal((3, 5, 8)).astype(np.float32)
    np.testing.assert_allclose(
        model.run(x)[0], run_reference(proto, {"x": x})[0], rtol=1e-4, atol=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2"])
def test_networks_of_the_examples(name: str) -> None:
    model = tvmconv.build(NETWORKS[name](image=96), batch="any", threads=2)
    (info,) = model.inputs
    x = np.random.default_rng(1).standard_normal((64, *info.shape[1:])).astype(np.float32)
    single = np.concatenate([model.run(x[i : i + 1])[0] for i in range(64)])
    for count in range(1, 65):
        np.testing.assert_array_equal(model.run(x[:count])[0], single[:count], strict=True)
