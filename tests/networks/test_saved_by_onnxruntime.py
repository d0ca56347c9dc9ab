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
    assert_close(expected, results(optimized(model, folder), inputs))
    for saved in (halved(model), optimized(halved(model), folder)):
        assert_near(expected, results(saved, inputs))


def results(saved: onnx.ModelProto, inputs: dict[str, Array]) -> dict[str, Array]:
    """The results of the built model.

    onnxruntime leaves inputs of which it has dropped the initializers, because no node reads them.
    """
    model = tvmconv.build(saved)
    unread = {i.name: np.zeros(i.shape, i.dtype) for i in model.inputs if i.name not in inputs}
    return dict(model.run({**unread, **inputs}))


def assert_near(expected: dict[str, Array], actual: dict[str, Array]) -> None:
    for name, reference in expected.items():
        error = np.abs(np.float64(actual[name]) - reference).max() / np.abs(reference).max()
        assert error <= HALF_TOLERANCE, f"{name}: {error:.1e}"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*NETWORKS, *NAMES}))
def test_all_networks(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


def test_a_network_in_float16(tmp_path: Path) -> None:
    model = network("text_recognition")
    inputs = random_inputs(model)
    expected = onnxruntime_outputs(model, inputs)
    assert_near(expected, tvmconv.build(optimized(halved(model), tmp_path)).run(inputs))


def test_an_optimized_network_has_the_kernels_of_the_model(tmp_path: Path) -> None:
    """Operators that onnxruntime fused end in the kernels that tvmconv fuses."""
    model = NETWORKS["squeezenet1_1"](image=33, width=0.1)
    inputs = random_inputs(model)
    built = [tvmconv.build(each) for each in (model, optimized(model, tmp_path))]
    kernels = [sorted(call.kernel for call in each.calls) for each in built]
    assert kernels[0] == kernels[1]
    assert_close(onnxruntime_outputs(model, inputs), built[1].run(inputs))
