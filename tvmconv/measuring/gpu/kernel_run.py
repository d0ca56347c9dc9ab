"""One compiled convolution on a GPU with its arguments there, ready to be launched and timed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from tvmconv.algorithms.cuda.im2win import FUSED
from tvmconv.core.launch import Launch
from tvmconv.core.tensor import Array
from tvmconv.kernels.arguments import Constants, constant_arguments
from tvmconv.kernels.kernel import Kernel
from tvmconv.machines.cuda import CudaMachine
from tvmconv.measuring.gpu.compiled import Compiled
from tvmconv.measuring.gpu.driver import DeviceArray, Gpu
from tvmconv.measuring.operands import kernel_facts


class GpuCall:
    """Launches of a compiled function on arrays of the GPU."""

    def __init__(self, gpu: Gpu, compiled: Compiled) -> None:
        self._gpu, self.launches = gpu, compiled.launches
        self.module = gpu.load(compiled.fatbin)
        self._functions = [
            gpu.function(self.module, each.kernel, each.dynamic_shared_bytes)
            for each in compiled.launches
        ]

    def bind(self, arrays: Sequence[DeviceArray], count: int | None = None) -> Callable[[], None]:
        """A function that enqueues the launches, or the first ``count`` of them, on some arrays."""
        steps = [
            (function, launch, _pointers([arrays[place] for place in launch.arguments]))
            for function, launch in zip(self._functions, self.launches, strict=True)
        ][:count]

        def enqueue() -> None:
            for function, launch, pointers in steps:
                self._gpu.launch(
                    function, launch.grid, launch.block, launch.dynamic_shared_bytes, pointers[0]
                )

        return enqueue


def _pointers(arrays: Sequence[DeviceArray]) -> tuple[Any, list[Any]]:
    """The array that ``cuLaunchKernel`` takes, and the values that must live as long."""
    values = [ctypes.c_uint64(array.pointer) for array in arrays]
    table = (ctypes.c_void_p * len(values))(
        *(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values)
    )
    return table, values


class GpuKernelRun:
    """A kernel with a layer's operands on the GPU.

    ``inputs`` are ``data`` (N, C, H, W) and ``residual``, on the GPU and only read. ``constants``
    are ``weight`` (K, C/groups, R, S) and ``bias`` (K,), FP32.
    """

    def __init__(
        self,
        gpu: Gpu,
        kernel: Kernel,
        compiled: Compiled,
        inputs: Mapping[str, DeviceArray],
        constants: Mapping[str, Array],
    ) -> None:
        self._gpu, self.kernel, self._compiled = gpu, kernel, compiled
        w = kernel.workload
        start = perf_counter()
        known = Constants(constants["weight"], constants["bias"] if w.has("bias") else None)
        packed = constant_arguments(kernel, known)
        self._pack_seconds = perf_counter() - start
        self._arrays = [inputs["data"], *map(gpu.array, packed)]
        self._arrays += [inputs["residual"]] if w.has("add") else []
        given = len(self._arrays)
        self._arrays += [DeviceArray(gpu, shape, "float32") for shape in compiled.shapes[given:]]
        self._output = self._arrays[given]
        self.device_bytes = sum(array.nbytes for array in self._arrays)
        self._call = GpuCall(gpu, compiled)
        self._enqueue = self._call.bind(self._arrays)
        # old contents must not count as a result
        results = self._arrays[given:]
        self.call_bytes = sum(array.nbytes for array in results)
        for array in results:
            array.poison()

    def __call__(self) -> None:
        """Enqueue one call."""
        self._enqueue()

    def output(self) -> Array:
        """The result, (N, K, OH, OW), after the calls so far."""
        return self._output.numpy().reshape(self.kernel.workload.result_shape)

    def stages(self) -> dict[str, Callable[[], None]]:
        """The kernels of a call in order, each with a function that enqueues launches up to it."""
        names = stage_names(self.kernel, self._compiled.launches)
        calls = {
            name: self._call.bind(self._arrays, count) for count, name in enumerate(names[:-1], 1)
        }
        return {**calls, names[-1]: partial(self.__call__)}

    def facts(self) -> dict[str, Any]:
        """As :meth:`tvmconv.lab.bench.kernel_run.KernelRun.facts`, with launches and memory."""
        kernel, machine = self.kernel, self.kernel.machine
        assert isinstance(machine, CudaMachine)
        return {
            **kernel_facts(kernel),
            "pack_seconds": self._pack_seconds,
            "workload": str(kernel.workload),
            "algorithm": kernel.algorithm,
            "data_layout": "NCHW",
            "precision": kernel.expression.precision(kernel.config),
            "device_bytes": self.device_bytes,
            "call_bytes": self.call_bytes,
            "predicted_seconds": kernel.predicted_cycles / machine.clock_hertz,
            **self._compiled.facts(),
            **({"translated_by_cuda": self._gpu.translated} if self._gpu.translated else {}),
        }


def stage_names(kernel: Kernel, launches: Sequence[Launch]) -> list[str]:
    """The stage of each launch of a call; its number and kernel where no name is known."""
    knobs = kernel.config
    named = [name for name, _ in kernel.expression.stages] or ["product"] * ("split" in knobs)
    if knobs.get("windows") == FUSED:
        # the tensor of windows is not made
        named = named[1:]
    if knobs.get("split", 1) != 1 and len(launches) == len(named) + 1:
        named.append("sum of the parts")
    if len(named) == len(launches):
        return named
    return [f"{number} {each.kernel}" for number, each in enumerate(launches, 1)]
