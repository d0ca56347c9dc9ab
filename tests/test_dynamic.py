"""Models that are built for a shape when a call first has it."""

from __future__ import annotations

import copy
import gc
import os
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tvmconv
from tvmconv.errors import ArtifactError, ConfigError, InputError, ModelError, ShapeError

# fails for an odd number of rows
TEXT = """<ir_version: 8, opset_import: ["" : 17]>
halves (float[rows, columns] x, float[columns] b) => (float[2, half, columns] y)
<int64[3] halves = {2, -1, 4}>
{
  h = Reshape (x, halves)
  y = Add (h, b)
}"""


def network(scale: float | None = None) -> onnx.ModelProto:
    """Split rows and add b; or multiply by weights."""
    if scale is None:
        return onnx.parser.parse_model(TEXT)
    text = """<ir_version: 8, opset_import: ["" : 17]>
    scaled (float[rows, 512] x) => (float[rows, 512] y) { y = Mul (x, w) }"""
    model = onnx.parser.parse_model(text)
    weights = np.full(512, scale, np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


def built(**options: Any) -> tvmconv.DynamicModel:
    return tvmconv.build(network(), dynamic=True, threads=1, **options)


def data(rows: int) -> dict[str, np.ndarray]:
    x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
    return {"x": x, "b": np.float32([1, 2, 3, 4])}


def check(model: Any, rows: int) -> None:
    inputs = data(rows)
    wanted = inputs["x"].reshape(2, rows // 2, 4) + inputs["b"]
    np.testing.assert_array_equal(model.run(inputs)["y"], wanted)


def shapes(model: Any) -> list[int]:
    """The rows of the kept shapes."""
    return [program.inputs[0].shape[0] for program in model.programs]


class Builder:
    """The builds of a model: it counts, waits for a permit, or fails."""

    def __init__(self, model: Any) -> None:
        self.build, self.count, self.errors = model._build, 0, list[BaseException]()
        self.begun, self.permit = threading.Event(), threading.Event()
        self.permit.set()
        model._build = self

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.count += 1
        self.begun.set()
        assert self.permit.wait(60)
        if self.errors:
            raise self.errors.pop()
        return self.build(*arguments, **options)


@pytest.fixture(scope="module")
def model() -> tvmconv.DynamicModel:
    return built(shapes={"x": (4, 4)})


def test_calls_build_shapes_and_drop_those_used_longest_ago() -> None:
    model = built(max_shapes=2)
    builder = Builder(model)
    assert model.inputs[0].shape == ("rows", "columns")
    assert "No shape is built yet" in str(model.explain())
    for rows in (2, 4, 2):
        check(model, rows)
    dropped = weakref.ref(model.compiled({"rows": 4, "columns": 4}))
    check(model, 2)
    check(model, 6)
    gc.collect()
    assert dropped() is None
    assert (shapes(model), builder.count) == ([2, 6], 3)
    assert "dynamic, 2 shapes kept" in str(model.explain())
    assert [row["shapes"] for row in model.explain().to_json()["shapes"]] == [
        "x:2x4, b:4",
        "x:6x4, b:4",
    ]


def test_first_shapes_are_kept_and_single_sizes_are_fixed() -> None:
    model = built(shapes={"columns": 4, "rows": [2, 4]}, max_shapes=1)
    assert [info.shape for info in model.inputs] == [("rows", 4), (4,)]
    assert model.compiled({"rows": 2}) is model.compiled({"x": (4, 4)})
    for rows in (6, 8):
        check(model, rows)
    assert shapes(model) == [2, 4, 8]
    with pytest.raises(InputError, match=r"shape \(2, 5\)\. Expected \(rows, 4\)"):
        model.run(np.zeros((2, 5), np.float32), np.zeros(4, np.float32))


def test_arguments_are_checked_before_a_build(model: tvmconv.DynamicModel) -> None:
    builder = Builder(model)
    x, b = data(4).values()
    for arguments, text in [
        ([x], r"2 input\(s\), got 1. Expected x: float32\[rows, columns\]; b: float32\[columns\]"),
        ([{"x": x, "c": b}], "no input 'c'"),
        ([x.astype(float), b], "type float64"),
        ([x[0], b], r"shape \(4,\)\. Expected \(rows, columns\)"),
        ([x[:0], b], r"shape \(0, 4\)\. Expected"),
        ([x, b[:3]], "dimension 'columns' is 4 elsewhere"),
    ]:
        with pytest.raises(InputError, match=text):
            model.run(*arguments)
    for given, text in [
        ({"rows": 4}, r"is \[4, None\]. Expected sizes for \(rows, columns\)"),
        ({"x": (4, 4)}, r"'b' is \[None\]"),
        ({"row": 4}, r"name \['row'\]"),
        ({"rows": 4.5, "columns": 4}, r"4\.5"),
    ]:
        with pytest.raises(InputError, match=text):
            model.compiled(given)
    assert builder.count == 0


def test_a_shape_that_fails_is_built_once(model: tvmconv.DynamicModel) -> None:
    builder = Builder(model)
    with pytest.raises(ShapeError, match=r"node 'h' \(Reshape\).*'x': \(3, 4\)"):
        model.run(data(3))
    with pytest.raises(ModelError, match=r"node 'h' \(Reshape\).*'x': \(3, 4\)"):
        model.run(data(3))
    assert builder.count == 1
    builder.errors.append(ArtifactError("the disk is full"))
    with pytest.raises(ArtifactError):
        model.run(data(6))
    check(model, 6)
    assert builder.count == 3
    check(model, 4)


def test_threads_build_a_shape_once_while_others_go_on(model: tvmconv.DynamicModel) -> None:
    builder = Builder(model)
    builder.permit.clear()
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(check, model, 10) for _ in range(3)]
        assert builder.begun.wait(60)
        check(model, 4)
        assert not any(future.done() for future in waiting)
        # one thread is interrupted, and another one builds in its place
        builder.errors.append(KeyboardInterrupt())
        builder.permit.set()
        outcomes = [type(future.exception()) for future in waiting]
    assert sorted(outcomes, key=str) == [KeyboardInterrupt, *[type(None)] * 2]
    assert builder.count == 2


def test_submitted_calls_build_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvmconv.dynamic.host_cores", lambda: 3)
    model = built()
    assert model.threads == 1
    with pytest.raises(InputError, match=r"cpus='0'.*no shape is built.*compiled\(shapes\)"):
        model.streams(cpus="0")
    futures = [model.submit(data(rows)) for rows in (2, 4, 2, 3)]
    for rows, future in zip((2, 4, 2), futures, strict=False):
        wanted = data(rows)["x"].reshape(2, rows // 2, 4) + data(rows)["b"]
        np.testing.assert_array_equal(future.result(60)[0], wanted)
    with pytest.raises(ModelError):
        futures[3].result(60)
    assert model._streams is not None and model._streams.count == 3
    first = next(iter(os.sched_getaffinity(0)))
    with model.streams(2, cpus=str(first)) as streams:
        assert streams.cpus == ((first,), (first,))
        assert streams.submit(data(2)).result(60)[0].shape == (2, 1, 4)


def test_another_process_builds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVMCONV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TVMCONV_CACHE_SIZE", "1GiB")
    onnx.save(network(), tmp_path / "halves.onnx")
    program = (
        "import sys, numpy, tvmconv; model = tvmconv.build(sys.argv[1], dynamic=True)\n"
        "for rows in (2, 4): model.run(numpy.ones((rows, 4), 'f'), numpy.ones(4, 'f'))\n"
        "print('tvm' in sys.modules)"
    )
    for expected in ("True", "False"):
        command = [sys.executable, "-c", program, str(tmp_path / "halves.onnx")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


@pytest.mark.parametrize("is_external", [False, True])
def test_the_model_keeps_the_content_of_its_files(tmp_path: Path, is_external: bool) -> None:
    path = tmp_path / "scaled.onnx"
    options = {"save_as_external_data": is_external, "location": "w", "size_threshold": 0}
    onnx.save(network(scale=3), path, **options)
    model = tvmconv.build(path, dynamic=True, threads=1)
    for file in tmp_path.iterdir():
        file.write_bytes(b"another")
    x = np.ones((2, 512), np.float32)
    np.testing.assert_array_equal(model(x)[0], 3 * x)
    assert model.name == "scaled"


def test_faults_of_the_model_are_found_at_once() -> None:
    proto = network()
    proto.graph.node[0].op_type = "Unknown"
    with pytest.raises(ModelError, match="Unknown"):
        tvmconv.build(proto, dynamic=True)
    with pytest.raises(ModelError, match="named dimensions"):
        built(shapes={"lines": 3})
    with pytest.raises(ConfigError, match="max_shapes=0"):
        built(max_shapes=0)
    with pytest.raises(ConfigError, match="batch='any' is given with dynamic=True"):
        built(batch="any")
    with pytest.raises(ConfigError, match="without dynamic=True"):
        tvmconv.build(network(), max_shapes=2)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="2 shapes for cuda"):
        built(target="cuda:sm_90", shapes={"columns": 4, "rows": [2, 4]})


def test_a_file_serves_known_shapes(model: tvmconv.DynamicModel, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"dynamic=True.*shapes="):
        model.save(tmp_path / "model.so")
    check(tvmconv.load(model.compiled({"x": (4, 4), "b": (4,)}).save(tmp_path / "four.so")), 4)
    with pytest.raises(TypeError, match="machine code"):
        copy.copy(model)
