"""onnxruntime on the CPU, inputs and outputs bound once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .case import CHANNELS_LAST, Array, Case, Session, Unsupported


def version() -> str:
    """Version of onnxruntime."""
    import onnxruntime

    return str(onnxruntime.__version__)


def export(case: Case, threads: int) -> dict[str, Any]:
    """The ONNX file is what onnxruntime loads."""
    return {"file": str(case.onnx)}


def open_export(case: Case, threads: int, exported: Mapping[str, Any]) -> Session:
    """As :func:`prepare`: the optimization of the graph is part of loading."""
    return prepare(case, threads)


def prepare(case: Case, threads: int) -> Session:
    """All graph optimizations, plain NCHW tensors in and out, or NHWC for INT8 layers.

    Its INT8 kernel reads NHWC and would transpose plain tensors before and after. The option
    ``exact`` disables optimizations: INT8 models are then computed as ONNX defines, where the
    optimized kernels saturate. With the option ``streams``, so many calls may run at the same time.
    They share one session and its weights where a call has one thread; others have one each.
    """
    if case.options.get("product", "").endswith(":s16s16s32s32"):
        raise Unsupported("ONNX has no 16-bit products")
    last = case.folder / CHANNELS_LAST
    path = last if last.exists() else case.onnx
    session = _open(case, path, threads)
    run, bound = _bind(case, session, channels_last=path == last)

    def outputs() -> dict[str, Array]:
        found = {name: value.numpy() for name, value in bound.items()}
        if path != last:
            return found
        return {name: value.transpose(0, 3, 1, 2) for name, value in found.items()}

    streams = int(case.options.get("streams", 0))
    callers = [run] if streams else []
    while len(callers) < streams:
        another = session if threads == 1 else _open(case, path, threads)
        callers.append(_bind(case, another, channels_last=path == last)[0])
    return Session(run, outputs, callers=callers)


def _open(case: Case, path: Path, threads: int) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if case.options.get("exact"):
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _bind(
    case: Case, session: Any, channels_last: bool
) -> tuple[Callable[[], object], dict[str, Any]]:
    """A call with inputs and outputs bound, and its outputs."""
    import numpy as np
    import onnxruntime as ort

    binding = session.io_binding()
    for name, value in case.inputs.items():
        given = np.ascontiguousarray(value.transpose(0, 2, 3, 1)) if channels_last else value
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(given))
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")
    # The first call finds the output shapes; bound buffers then save an allocation a call.
    session.run_with_iobinding(binding)
    bound: dict[str, Any] = {}
    names = [output.name for output in session.get_outputs()]
    for name, value in zip(names, binding.get_outputs(), strict=True):
        bound[name] = value
        binding.bind_ortvalue_output(name, value)
    return lambda: session.run_with_iobinding(binding), bound
