"""Compare what tvmconv computes for a whole network with what onnxruntime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from onnx import ModelProto

import tvmconv

Array = npt.NDArray[Any]
# relative to max|reference|; FP32 sums in another order differ by about 1e-6 a layer
TOLERANCE = 1e-4


def random_inputs(model: ModelProto, seed: int = 1) -> dict[str, Array]:
    """A normally distributed value for every graph input without an initializer."""
    rng = np.random.default_rng(seed)
    weights = {tensor.name for tensor in model.graph.initializer}
    return {
        value.name: rng.standard_normal(
            [dim.dim_value for dim in value.type.tensor_type.shape.dim], dtype=np.float32
        )
        for value in model.graph.input
        if value.name not in weights
    }


def onnxruntime_outputs(model: ModelProto, inputs: dict[str, Array]) -> dict[str, Array]:
    """Output name to value."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def assert_close(expected: dict[str, Array], actual: dict[str, Array]) -> None:
    """Same names, shapes and types, and an error below the tolerance of each output's range."""
    assert list(expected) == list(actual.keys())
    for name, reference in expected.items():
        value = np.asarray(actual[name])
        assert (reference.shape, reference.dtype) == (value.shape, value.dtype), name
        scale = np.abs(reference).max()
        error = np.abs(value.astype(np.float64) - reference).max() / scale
        assert error <= TOLERANCE, f"{name}: max error {error:.2e} of the range {scale:.3g}"


def assert_matches_onnxruntime(model: ModelProto, **build_options: Any) -> Any:
    """Build, run and compare; returns the compiled model for further checks."""
    inputs = random_inputs(model)
    expected = onnxruntime_outputs(model, inputs)
    # a network whose output does not depend on its input would prove nothing
    assert all(np.ptp(value) > 0 for value in expected.values())
    compiled = tvmconv.build(model, **build_options)
    assert_close(expected, compiled.run(inputs))
    return compiled
