"""onnxruntime on the CPU, inputs and outputs bound once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .case import Array, Case, Session


def version() -> str:
    """Version of onnxruntime."""
    import onnxruntime

    return str(onnxruntime.__version__)


def export(case: Case, threads: int) -> dict[str, Any]:
    """The ONNX file is what onnxruntime loads."""
    return {"file": str(case.onnx)}


def open_export(case: Case, threads: int, exported: Mapping[str, Any]) -> Session:
    """As :func:`prepare`: optimising the graph is a part of loading."""
    return prepare(case, threads)


def prepare(case: Case, threads: int) -> Session:
    """All graph optimisations, plain NCHW tensors in and out.

    With the option ``exact`` none of them: of 8-bit models onnxruntime then computes what ONNX
    defines, where its own 8-bit kernels saturate.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if case.options.get("exact"):
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(case.onnx), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in case.inputs.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value))
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")
    # The first call settles the output shapes; bound buffers then spare an allocation a call.
    session.run_with_iobinding(binding)
    bound: dict[str, Any] = {}
    names = [output.name for output in session.get_outputs()]
    for name, value in zip(names, binding.get_outputs(), strict=True):
        bound[name] = value
        binding.bind_ortvalue_output(name, value)

    def outputs() -> dict[str, Array]:
        return {name: value.numpy() for name, value in bound.items()}

    return Session(lambda: session.run_with_iobinding(binding), outputs)
