"""tvmconv on a GPU: one convolution kernel, or a built model with its tensors on the GPU."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from .case import Array, Case, Session
from .own import layer_kernel

if TYPE_CHECKING:
    from tvmconv.measuring.gpu.driver import DeviceArray, Gpu

# by the case's folder and the input's name, as long as a prepared session uses it
_held: WeakValueDictionary[tuple[str, str], DeviceArray] = WeakValueDictionary()


def version() -> str:
    """Version of tvmconv."""
    from tvmconv.core.version import __version__

    return __version__


def prepare(case: Case, threads: int) -> Session:
    """A layer where the options name a workload, else the whole model."""
    return (_layer if "workload" in case.options else _model)(case)


@lru_cache(maxsize=1)
def _gpu() -> Gpu:
    from tvmconv.measuring.gpu.driver import Gpu

    return Gpu().open()


def broken() -> bool:
    """Whether the GPU refuses this process: after a fault of a kernel it does so for good."""
    from tvmconv.core.errors import ArtifactError

    try:
        _gpu().wait()
    except ArtifactError:
        return True
    return False


def _inputs(case: Case) -> dict[str, DeviceArray]:
    """The inputs of a case on the GPU, one copy for all interleaved forms of an algorithm."""
    found = {}
    for name in case.inputs:
        held = _held.get((str(case.folder), name))
        found[name] = held if held is not None else _gpu().array(case.inputs[name])
        _held[str(case.folder), name] = found[name]
    return found


def _layer(case: Case) -> Session:
    from tvmconv.machines.targets import resolve_device
    from tvmconv.measuring.gpu.compiled import kernel_code
    from tvmconv.measuring.gpu.kernel_run import GpuKernelRun
    from tvmconv.measuring.gpu.timing import Timer

    kernel = layer_kernel(case, resolve_device(case.options["target"]))
    gpu = _gpu()
    code = kernel_code(kernel, case.options.get("kernels"))
    run = GpuKernelRun(gpu, kernel, code, _inputs(case), case.constants)
    name = case.outputs[0]
    return Session(
        run,
        lambda: {name: run.output()},
        info=f"{kernel.algorithm} {kernel.config}",
        facts=run.facts(),
        stages=run.stages() if case.options.get("stages") else {},
        sampler=Timer(gpu).samples,
    )


def _model(case: Case) -> Session:
    import numpy as np

    from tvmconv.lab.bench.gpu.models import built_model

    shapes = {name: tuple(value.shape) for name, value in case.inputs.items()}
    model = built_model(
        case.onnx,
        case.options["target"],
        None if case.options.get("fixed") else shapes,
        case.options.get("kernels"),
        algorithms=case.options.get("algorithms"),
        log=case.options.get("log"),
        fold_budget=case.options.get("fold_budget"),
        precision=case.options.get("precision", "float32"),
    )
    # as in torch's calls, at every batch size
    os.environ["TVMCONV_CUDA_GRAPH"] = "1"
    gpu = _gpu()
    inputs = [gpu.array(value) for value in case.inputs.values()]
    outputs = [gpu.array(np.zeros(info.shape, info.dtype)) for info in model.outputs]
    state = model._ready().new_state()
    state.bind([array.pointer for array in inputs], [array.pointer for array in outputs])

    def run(held: object = inputs) -> None:
        # the caller owns the inputs, which is this function
        state.run()

    def results() -> dict[str, Array]:
        return {n: array.numpy() for n, array in zip(case.outputs, outputs, strict=True)}

    facts = {
        "device_bytes": model.memory.arena_bytes + model.memory.constant_bytes,
        "precision": next((d.precision for d in model.decisions if d.chosen.precision), ""),
    }
    return Session(run, results, info="CUDA graph, host's clock", facts=facts, colds=False)
