"""Several threads build, load and run models at the same time, and every result is right."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import tvmconv
from tests.small_network import small_network
from tvmconv.frontend import read_model, to_relax
from tvmconv.machines.targets import resolve_device
from tvmconv.transform import SubstituteConv2d
from tvmconv.tuning.session import collect

CASES = [(8, 3), (12, 3), (16, 5), (10, 1)]


@cache
def network(channels: int, kernel: int) -> bytes:
    """Two convolutions with a residual."""
    pad = kernel // 2
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    two (float[1,3,14,14] x, float[{channels},3,{kernel},{kernel}] a,
         float[{channels},{channels},3,3] b) => (float[1,{channels},14,14] y)
    {{
      stem = Conv <pads = [{pad}, {pad}, {pad}, {pad}]> (x, a)
      left = Relu (stem)
      right = Conv <pads = [1, 1, 1, 1]> (left, b)
      y = Add (left, right)
    }}"""
    model = onnx.parser.parse_model(text)
    generator = np.random.default_rng(channels)
    for value in list(model.graph.input)[1:]:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        weight = generator.standard_normal(shape).astype("float32") * 0.2
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, value.name))
        model.graph.input.remove(value)
    return model.SerializeToString()


@cache
def expected(channels: int, kernel: int) -> tuple[np.ndarray, np.ndarray]:
    """An input, and what onnxruntime makes of it."""
    value = np.random.default_rng(1).standard_normal((1, 3, 14, 14)).astype("float32")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        network(channels, kernel), options, providers=["CPUExecutionProvider"]
    )
    return value, session.run(None, {"x": value})[0]


def check(model: tvmconv.CompiledModel, case: tuple[int, int]) -> None:
    value, right = expected(*case)
    np.testing.assert_allclose(model.run(value)[0], right, rtol=1e-4, atol=1e-4)


def together(threads: int, work: Callable[[int], object]) -> None:
    """Call a function in several threads, which begin at the same moment."""
    barrier = threading.Barrier(threads)

    def begin(index: int) -> object:
        barrier.wait()
        return work(index)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(begin, range(threads)))


def build_load_run(threads: int, builds: int, folder: Path) -> None:
    for case in CASES:
        expected(*case)
    shared = tvmconv.build(network(*CASES[0]), threads=1)
    saved = shared.save(folder / "shared.so")

    def work(index: int) -> None:
        for number in range(builds):
            case = CASES[(index + number) % len(CASES)]
            model = tvmconv.build(network(*case), threads=1)
            check(model, case)
            check(shared, CASES[0])
            own = model.save(folder / f"{index}_{number}.so")
            check(tvmconv.load(own), case)
            check(tvmconv.load(saved), CASES[0])

    together(threads, work)


def test_four_threads(tmp_path: Path) -> None:
    build_load_run(4, 1, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_eight_threads_of_fifty_builds(tmp_path: Path) -> None:
    build_load_run(8, 50, tmp_path)


def test_a_failing_build_leaves_the_others_alone() -> None:
    def work(index: int) -> None:
        if index % 2:
            with pytest.raises(tvmconv.TvmconvError):
                tvmconv.build(small_network(), threads=1, overrides={"left": {"algorithm": "?"}})
        else:
            check(tvmconv.build(network(8, 3), threads=1), (8, 3))

    together(4, work)


def test_passes_explanations_and_workloads(tmp_path: Path) -> None:
    """The other ways into TVM, while a model is built."""
    onnx.save(small_network(), tmp_path / "small.onnx")
    machine = resolve_device("native", 1)
    module = to_relax(read_model(network(10, 1), None, None))
    replaced = SubstituteConv2d("native", threads=1)
    calls = dict(replaced(module).attrs["tvmconv.calls"])
    layers = [str(task.workload) for task in collect(machine, [tmp_path / "small.onnx"])]

    def substitute() -> None:
        assert dict(replaced(module).attrs["tvmconv.calls"]) == calls

    def explain() -> None:
        report = tvmconv.build(network(10, 1), threads=1).explain()
        assert json.loads(json.dumps(report.to_json()))

    def tune() -> None:
        tasks = collect(machine, [tmp_path / "small.onnx"])
        assert [str(task.workload) for task in tasks] == layers

    work = [substitute, explain, tune]
    together(6, lambda index: work[index % 3]())
