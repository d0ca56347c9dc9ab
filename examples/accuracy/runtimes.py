"""The network as an 8-bit ONNX model, run by onnxruntime and by tvmconv."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import ModelProto

import tvmconv
from examples.accuracy.network import Floats
from examples.quantise import quantise


def _onnxruntime(model: ModelProto) -> Callable[[Floats], Floats]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    # optimised, it saturates sums of pairs where the processor has no VNNI
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda x: session.run(None, {"input": x})[0]


def _tvmconv(model: ModelProto) -> Callable[[Floats], Floats]:
    compiled = tvmconv.build(model)
    return lambda x: compiled.run({"input": x})[0]


RUNTIMES = {"onnxruntime": _onnxruntime, "tvmconv": _tvmconv}


def quantised_logits(
    model: ModelProto, calibration: Floats, images: Floats, runtimes: Sequence[str]
) -> dict[str, Floats]:
    """Logits of shape (N, classes) by runtime, of the model that :func:`quantise` makes.

    Parameters
    ----------
    model
        In float32, for one image.
    calibration, images
        Shape (N, 3, 32, 32).
    runtimes
        Names in :data:`RUNTIMES`.
    """
    result = quantise(model, calibration)
    logits = {}
    for name in runtimes:
        run = RUNTIMES[name](result)
        logits[name] = np.concatenate([np.array(run(image[None])) for image in images])
    return logits
