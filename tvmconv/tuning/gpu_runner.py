"""Candidates for GPUs: on the GPU of this machine, or on the GPU of a tracker's device.

A process has one GPU context, which begins after the compilation, so that a faulting kernel ends no
other candidate. Consecutive calls are timed, which share L2.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvmconv.core.decision import KernelCall
from tvmconv.core.tensor import Array
from tvmconv.kernels.arguments import Constants
from tvmconv.kernels.kernel import Kernel
from tvmconv.machines.cuda import CudaMachine
from tvmconv.measuring.gpu.compiled import Compiled, compile_kernel, spill_bytes
from tvmconv.measuring.gpu.driver import DeviceArray, Gpu
from tvmconv.measuring.gpu.kernel_run import GpuCall
from tvmconv.measuring.gpu.timing import Timer
from tvmconv.tuning.runner import CandidateRunner, session_of


def make_gpu_runner(
    remote: Mapping[str, Any] | None,
    kernels: Sequence[Kernel],
    constants: Constants,
) -> CandidateRunner:
    """Compile kernels for this machine's GPU, or for the device that ``remote`` names."""
    if remote:
        return RemoteGpuRunner(remote, kernels, constants)
    return GpuRunner([compile_kernel(kernel) for kernel in kernels])


class GpuRunner:
    """The GPU of this machine."""

    shared = False

    def __init__(self, compiled: Sequence[Compiled]) -> None:
        self.spill_bytes = sum(each.spill_bytes for each in compiled)
        self._gpu = Gpu().open()
        self._timer = Timer(self._gpu)
        self._compiled = compiled
        self._calls = [GpuCall(self._gpu, each) for each in compiled]
        self._bound: dict[int, tuple[Sequence[Any], Callable[[], object], list[DeviceArray]]] = {}

    def tensors(self, arrays: Sequence[Array]) -> list[Any]:
        """See :class:`~tvmconv.tuning.runner.CandidateRunner`."""
        return [self._gpu.array(array) for array in arrays]

    def call(self, number: int, tensors: Sequence[Any]) -> None:
        """See :class:`~tvmconv.tuning.runner.CandidateRunner`."""
        self._run(number, tensors)()
        self._gpu.wait()

    def time(
        self, number: int, tensors: Sequence[Any], samples: int, seconds: float
    ) -> list[float]:
        """See :class:`~tvmconv.tuning.runner.CandidateRunner`: means of calls in a graph."""
        return self._timer.samples(self._run(number, tensors), samples)

    def _run(self, number: int, tensors: Sequence[Any]) -> Callable[[], object]:
        known = self._bound.get(number)
        if known is None or known[0] is not tensors:
            shapes = self._compiled[number].shapes[len(tensors) :]
            workspace = [DeviceArray(self._gpu, shape, "float32") for shape in shapes]
            for array in workspace:
                array.poison()
            run = self._calls[number].bind([*tensors, *workspace])
            known = self._bound[number] = (tensors, run, workspace)
        return known[1]


class RemoteGpuRunner:
    """The GPU of a device of TVM's RPC tracker.

    Each candidate is a saved model of its layer, so the device needs TVM's RPC server but not TVM's
    CUDA. The model's profile gives the times: events on the GPU, without copies.
    """

    shared = True

    def __init__(
        self,
        remote: Mapping[str, Any],
        kernels: Sequence[Kernel],
        constants: Constants,
    ) -> None:
        self._remote, self._workload = remote, kernels[0].workload
        self._folder = tempfile.TemporaryDirectory(prefix="tvmconv-")
        self._paths: list[Path] = []
        self._layers: list[int] = []
        self.spill_bytes = 0
        for number, kernel in enumerate(kernels):
            path, calls = _saved(kernel, constants, Path(self._folder.name), number)
            self._paths.append(path)
            self._layers.append(len(calls))
            self.spill_bytes += sum(spill_bytes(call.launches) for call in calls)
        self._session: Any = None
        self._loaded: list[Any] = []

    def tensors(self, arrays: Sequence[Array]) -> list[Any]:
        """See :class:`~tvmconv.tuning.runner.CandidateRunner`; the models hold their constants."""
        from tvmconv.tvm_api import runtime

        self._open()
        w, device = self._workload, self._session.cpu(0)
        given = {0: w.data_shape, len(arrays) - 1: w.result_shape}
        if w.has("add"):
            given[len(arrays) - 2] = w.result_shape
        return [
            runtime.tensor(np.ascontiguousarray(arrays[runner]).reshape(shape), device)
            for runner, shape in sorted(given.items())
        ]

    def call(self, number: int, tensors: Sequence[Any]) -> None:
        """See :class:`~tvmconv.tuning.runner.CandidateRunner`."""
        self._loaded[number]["main"](*tensors)

    def time(
        self, number: int, tensors: Sequence[Any], samples: int, seconds: float
    ) -> list[float]:
        """See :class:`~tvmconv.tuning.runner.CandidateRunner`; one call a sample."""
        from tvmconv.tvm_api import runtime

        device = self._session.cpu(0)
        found = []
        for _ in range(samples):
            times = runtime.empty((self._layers[number],), "int64", device)
            self._loaded[number]["profile"](*tensors, times)
            found.append(float(times.numpy().sum()) * 1e-9)
        return found

    def _open(self) -> None:
        """Request the device and send the models."""
        if self._session is not None:
            return
        self._session = session_of(self._remote)
        for path in self._paths:
            self._session.upload(str(path))
            self._loaded.append(self._session.load_module(path.name))


def _saved(
    kernel: Kernel, constants: Constants, folder: Path, number: int
) -> tuple[Path, Sequence[KernelCall]]:
    """A saved model of one layer by one kernel, and its calls."""
    import tvmconv
    from tvmconv.measuring.layer_model import layer_model

    given = {"weight": constants.weight}
    if constants.bias is not None and kernel.workload.has("bias"):
        given["bias"] = constants.bias
    model, _ = layer_model(kernel.workload, given)
    chosen = {"algorithm": kernel.algorithm, "knobs": kernel.config.to_json()}
    machine = kernel.machine
    assert isinstance(machine, CudaMachine)
    built = tvmconv.build(model, machine, overrides={"*": chosen}, log="none")
    return built.save(folder / f"candidate{number}.so"), built.calls
