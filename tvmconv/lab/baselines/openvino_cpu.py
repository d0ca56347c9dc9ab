"""OpenVINO on the CPU in FP32; its default would be bfloat16 where the CPU has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .case import Array, Case, Session


def version() -> str:
    """Version of OpenVINO."""
    import openvino

    return str(openvino.__version__).split("-")[0]


def prepare(case: Case, threads: int) -> Session:
    """Latency mode, one stream, FP32 forced; throughput mode with the option ``streams``."""
    streams = int(case.options.get("streams", 0))
    if not streams:
        run, _, outputs, compiled = open_request(case, threads)
        return Session(run, outputs, info=_primitives(compiled))
    compiled = _compile(
        case, int(case.options["cpus"]), PERFORMANCE_HINT="THROUGHPUT", NUM_STREAMS=str(streams)
    )
    requests = [_request(case, compiled) for _ in range(streams)]
    run, _, outputs = requests[0]
    return Session(run, outputs, info=_primitives(compiled), callers=[r[0] for r in requests])


def open_request(
    case: Case, threads: int, **more: str
) -> tuple[Callable[[], None], Any, Callable[[], dict[str, Array]], Any]:
    """One synchronous call, the request, its outputs and the compiled model.

    ``more`` are further settings.
    """
    compiled = _compile(case, threads, **more)
    return *_request(case, compiled), compiled


def _compile(case: Case, threads: int, **more: str) -> Any:
    import openvino as ov

    core = ov.Core()
    model = core.read_model(str(case.onnx))
    if model.is_dynamic():
        model.reshape({name: list(value.shape) for name, value in case.inputs.items()})
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": "1",
        "PERFORMANCE_HINT": "LATENCY",
        **more,
    }
    return core.compile_model(model, "CPU", settings)


def _request(
    case: Case, compiled: Any
) -> tuple[Callable[[], None], Any, Callable[[], dict[str, Array]]]:
    """One synchronous call, its request and its outputs."""
    import openvino as ov

    request = compiled.create_infer_request()
    tensors = {name: ov.Tensor(value, shared_memory=True) for name, value in case.inputs.items()}
    for name, tensor in tensors.items():
        request.set_tensor(name, tensor)

    def run() -> None:
        request.start_async()
        request.wait()

    def outputs() -> dict[str, Array]:
        # the closure also keeps the shared input memory alive
        assert tensors
        return {name: np.array(request.get_tensor(name).data) for name in case.outputs}

    return run, request, outputs


def _primitives(compiled: object) -> str:
    """Kernel names of the convolutions."""
    names = set()
    for node in compiled.get_runtime_model().get_ordered_ops():  # type: ignore[attr-defined]
        info = node.get_rt_info()
        if "Conv" in str(info["layerType"].astype(str) if "layerType" in info else ""):
            names.add(info["primitiveType"].astype(str))
    return ", ".join(sorted(names))
