"""NVIDIA's driver through ctypes: memory, launches, events and graphs of one of its GPUs.

Models do not use it: their own C runtime calls the driver. It is for kernels that are measured by
themselves, in a process of their own.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from tvmconv.core.errors import ArtifactError
from tvmconv.core.fatbin import translatable
from tvmconv.core.tensor import Array
from tvmconv.runtime.driver import Attribute, Driver

Handle = ctypes.c_void_p

_NON_BLOCKING = 1
_THREAD_LOCAL_CAPTURE = 1
_MOST_DYNAMIC_SHARED = 8
_FACTS = {
    "clock_khz": Attribute.CLOCK_RATE,
    "multiprocessors": Attribute.MULTIPROCESSORS,
    "memory_clock_khz": Attribute.MEMORY_CLOCK_RATE,
    "memory_bus_bits": Attribute.MEMORY_BUS_BITS,
    "l2_bytes": Attribute.L2_BYTES,
    "capability_major": Attribute.CAPABILITY_MAJOR,
    "capability_minor": Attribute.CAPABILITY_MINOR,
}
_POISON = 0xFF


class DeviceArray:
    """An array in the GPU's memory; freed with the object."""

    def __init__(self, gpu: Gpu, shape: Sequence[int], dtype: str) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        self._gpu = gpu
        self.pointer = gpu.allocate(max(self.nbytes, 1))
        self._free = weakref.finalize(self, gpu.free, self.pointer, self.nbytes)

    def numpy(self) -> Array:
        """A copy in this process's memory, after all earlier work of the stream."""
        result: Array = np.empty(self.shape, self.dtype)
        self._gpu.copy(result.ctypes.data, self.pointer, self.nbytes)
        self._gpu.wait()
        return result

    def poison(self) -> None:
        """Fill with bytes that are NaN as floating-point numbers."""
        self._gpu.fill(self.pointer, _POISON, self.nbytes)


class CapturedGraph:
    """Captured launches, to be repeated by one call."""

    def __init__(self, gpu: Gpu, executable: Handle) -> None:
        self._gpu, self._executable = gpu, executable
        self._free = weakref.finalize(self, gpu.call, "cuGraphExecDestroy", executable)

    def __call__(self) -> None:
        """Launch it; does not wait."""
        self._gpu.call("cuGraphLaunch", self._executable, self._gpu.stream)


class Gpu:
    """One of the driver's GPUs, by default the first, with one stream; for one thread.

    Raises :class:`ArtifactError` if the driver or the GPU is missing, or cannot be used.
    """

    def __init__(self, index: int = 0) -> None:
        self._driver = Driver(index)
        self.call = self._driver.call
        self.used_bytes = self.most_bytes = 0
        # the driver's CUDA version, where it translated PTX instead of machine code
        self.translated = ""
        self.stream = Handle()
        self._open = False

    def open(self) -> Gpu:
        """Make the context and the stream, which all further calls need. Returns itself."""
        if self._open:
            return self
        context = Handle()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._driver.device)
        self.call("cuCtxPushCurrent_v2", context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), _NON_BLOCKING)
        self._open = True
        return self

    def facts(self) -> dict[str, Any]:
        """Name, bus, capability, clocks in kHz, sizes and version, as the driver reports them."""
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return {
            "name": self._driver.name,
            "pci_bus": self._driver.bus_id,
            **{key: self._driver.attribute(which) for key, which in _FACTS.items()},
            "memory_bytes": self._driver.memory_bytes,
            "driver_cuda": f"{version.value // 1000}.{version.value % 1000 // 10}",
        }

    def allocate(self, size: int) -> int:
        """Memory of the GPU."""
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        self.used_bytes += size
        self.most_bytes = max(self.most_bytes, self.used_bytes)
        return pointer.value

    def free(self, pointer: int, size: int) -> None:
        """Give memory back."""
        self.used_bytes -= size
        self.call("cuMemFree_v2", ctypes.c_uint64(pointer))

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy between the memories of the GPU and of this process, in the stream."""
        target_, source_ = ctypes.c_uint64(target), ctypes.c_uint64(source)
        self.call("cuMemcpyAsync", target_, source_, ctypes.c_size_t(size), self.stream)

    def fill(self, pointer: int, value: int, size: int) -> None:
        """Set bytes, in the stream."""
        size_ = ctypes.c_size_t(size)
        self.call(
            "cuMemsetD8Async", ctypes.c_uint64(pointer), ctypes.c_ubyte(value), size_, self.stream
        )

    def array(self, values: Array) -> DeviceArray:
        """A copy of an array in the GPU's memory."""
        values = np.ascontiguousarray(values)
        found = DeviceArray(self, values.shape, str(values.dtype))
        self.copy(found.pointer, values.ctypes.data, values.nbytes)
        self.wait()
        return found

    def load(self, fatbin: bytes) -> Handle:
        """The module of some machine code, or of its PTX where the driver does not know the code.

        Raises :class:`ArtifactError` if it is for another GPU, or for a CUDA that the driver does
        not know.
        """
        module = Handle()
        try:
            self.call("cuModuleLoadData", ctypes.byref(module), fatbin)
        except ArtifactError as error:
            known = self.facts()["driver_cuda"]
            if (ptx := translatable(fatbin)) is not None:
                with suppress(ArtifactError):
                    self.call("cuModuleLoadData", ctypes.byref(module), ptx)
                    self.translated = known
                    return module
            raise ArtifactError(f"{error}; the driver knows CUDA up to {known}") from None
        return module

    def function(self, module: Handle, name: str, dynamic_shared_bytes: int = 0) -> Handle:
        """A kernel of a module."""
        function = Handle()
        text = ctypes.c_char_p(name.encode())
        self.call("cuModuleGetFunction", ctypes.byref(function), module, text)
        if dynamic_shared_bytes:
            self.call("cuFuncSetAttribute", function, _MOST_DYNAMIC_SHARED, dynamic_shared_bytes)
        return function

    def launch(
        self,
        function: Handle,
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int,
        arguments: Any,
    ) -> None:
        """Launch a kernel; ``arguments`` are pointers to its parameters."""
        self.call(
            "cuLaunchKernel", function, *grid, *block, shared_bytes, self.stream, arguments, None
        )

    def wait(self) -> None:
        """Until all work is done; errors of kernels appear here."""
        self.call("cuStreamSynchronize", self.stream)

    def capture(self, enqueue: Callable[[], object]) -> CapturedGraph:
        """A graph of the work that a function enqueues."""
        graph, executable = Handle(), Handle()
        self.call("cuStreamBeginCapture_v2", self.stream, _THREAD_LOCAL_CAPTURE)
        try:
            enqueue()
        finally:
            self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        flags = ctypes.c_ulonglong(0)
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, flags)
        self.call("cuGraphDestroy", graph)
        return CapturedGraph(self, executable)

    def elapsed(
        self, enqueue: Callable[[], object], before: Callable[[], object] | None = None
    ) -> float:
        """Seconds between two events around the work that ``enqueue`` adds to the stream.

        The work of ``before`` comes before the first event.
        """
        events = [Handle(), Handle()]
        for event in events:
            self.call("cuEventCreate", ctypes.byref(event), 0)
        if before is not None:
            before()
        self.call("cuEventRecord", events[0], self.stream)
        enqueue()
        self.call("cuEventRecord", events[1], self.stream)
        self.wait()
        milliseconds = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), *events)
        for event in events:
            self.call("cuEventDestroy_v2", event)
        return milliseconds.value * 1e-3
