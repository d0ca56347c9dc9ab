"""Networks saved by onnxruntime's optimizer and by its float16 converter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import tvmconv
from examples.networks import NETWORKS
from tests.networks.compare import Array, assert_close, onnxruntime_outputs, random_inputs
from tests.networks.test_builders import SMALL
from tests.networks.test_light import LIGHT, NAMES, with_random_weights

# half a millesimal of the range for each of many layers: float16 has 11 bits
HALF_TOLERANCE = 2e-2


def optimized(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """The model as onnxruntime saves it at its extended level."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    providers = ["CPUExecutionProvider"]
    ort.InferenceSession(model.SerializeToString(), options, providers=providers)
    return onnx.load(options.optimized_model_filepath)


def halved(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in float16, with inputs and outputs in float32."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return convert_float_to_float16(copy, keep_io_types=True)


def network(name: str) -> onnx.ModelProto:
    if name in NETWORKS:
        return NETWORKS[name](**SMALL[name])
    return with_random_weights(onnx.load(LIGHT / f"{name}.onnx"))


def check(name: str, folder: Path) -> None:
    model = network(name)
    inputs = random_inputs(model)
    expected = onnxruntime_outputs(model, inputs)
    assert_close(expected, tvmconv.build(optimized(model, folder)).run(inputs))
    half = halved(model)
    for saved in (half, optimized(half, folder)):
        assert_near(expected, tvmconv.build(saved).run(inputs))


def assert_near(expected: dict[str, Array], actual: dict[str, Array]) -> None:
    for name, reference in expected.items():
        error = np.abs(np.float64(actual[name]) - reference).max() / np.abs(reference).max()
        assert error <= HALF_TOLERANCE, f"{name}: {error:.1e}"


@pytest.mark.parametrize("name", ["squeezenet1_1", "text_recognition"])
def test_small_networks(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sorted({*NETWORKS, *NAMES} - {"squeezenet1_1", "text_recognition"})
)
def test_all_networks(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


def test_layers_are_those_of_the_model(tmp_path: Path) -> None:
    """What onnxruntime fuses and what tvmconv fuses end in the same kernels."""

    def kernels(model: onnx.ModelProto) -> list[str]:
        return sorted(call.kernel for call in tvmconv.build(model).calls)

    model = NETWORKS["squeezenet1_1"](image=33, width=0.1)
    assert kernels(optimized(model, tmp_path)) == kernels(model)
