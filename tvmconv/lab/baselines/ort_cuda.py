"""onnxruntime's CUDA provider: FP32, TF32 only on request, cuDNN searched exhaustively."""

from __future__ import annotations

from typing import Any

from .case import Array, Case, Session, Unsupported

_PROVIDER = "CUDAExecutionProvider"
_OPTIONS = {"cudnn_conv_algo_search": "EXHAUSTIVE"}


def version() -> str:
    """Version of onnxruntime; raises :class:`ImportError` without its CUDA provider."""
    import onnxruntime as ort

    if _PROVIDER not in ort.get_available_providers():
        raise ImportError(
            f"onnxruntime {ort.__version__} has no {_PROVIDER}; install onnxruntime-gpu"
        )
    return str(ort.__version__)


def prepare(case: Case, threads: int) -> Session:
    """All graph optimizations; with a CUDA graph where the provider can capture one."""
    if case.options.get("precision") == "fp16":
        raise Unsupported("onnxruntime computes in the model's types, which are float32")
    problems = []
    for graph in (True, False):
        try:
            return _prepared(case, graph)
        except Unsupported:
            raise
        except Exception as error:
            problems.append(str(error))
    raise Unsupported(" ".join(problems[-1].split())[:300])


def _prepared(case: Case, graph: bool) -> Session:
    import onnxruntime as ort

    # loads pip's CUDA and cuDNN, which the system's linker does not find; new in release 1.21
    getattr(ort, "preload_dlls", lambda: None)()
    options = ort.SessionOptions()
    options.log_severity_level = 3
    tf32 = case.options.get("precision") == "tf32"
    switches = {"use_tf32": tf32, "enable_cuda_graph": graph}
    provider = {**_OPTIONS, **{name: str(int(on)) for name, on in switches.items()}}
    session = ort.InferenceSession(str(case.onnx), options, providers=[(_PROVIDER, provider)])
    if session.get_providers()[0] != _PROVIDER:
        raise Unsupported(f"onnxruntime {ort.__version__} could not start its {_PROVIDER}")
    binding = session.io_binding()
    bound: dict[str, Any] = {}
    for name, value in case.inputs.items():
        tensor = ort.OrtValue.ortvalue_from_numpy(value.copy(), "cuda", 0)
        bound[name] = tensor
        binding.bind_ortvalue_input(name, tensor)
    for output in session.get_outputs():
        shape = case.shapes[output.name]
        kind = {"tensor(float)": "float32"}.get(output.type)
        if kind is None:
            raise Unsupported(f"an output of {output.type}")
        tensor = ort.OrtValue.ortvalue_from_shape_and_type(shape, kind, "cuda", 0)
        bound[output.name] = tensor
        binding.bind_ortvalue_output(output.name, tensor)

    def run() -> None:
        session.run_with_iobinding(binding)

    run()
    names = [output.name for output in session.get_outputs()]

    def outputs() -> dict[str, Array]:
        return {name: bound[name].numpy() for name in names}

    how = "CUDA graph" if graph else "no CUDA graph"
    # the size of its arena is unknown
    facts = {"device_bytes": None, "precision": "tf32" if tf32 else ""}
    return Session(run, outputs, info=f"{how}, host's clock", facts=facts, colds=False)
