"""NVIDIA's driver through ctypes: properties, memory and streams of a GPU."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from enum import IntEnum
from functools import cache
from typing import Any

from ..core.errors import ArtifactError

_LIBRARY = "libcuda.so.1"
_NAME_BYTES = 128
# the default stream, under the number that DLPack uses as well
DEFAULT_STREAM = 1
_NO_TIMING = 2


class Attribute(IntEnum):
    """Values of ``CUdevice_attribute``, of cuda.h; clocks are in kHz."""

    CLOCK_RATE = 13
    MULTIPROCESSORS = 16
    MEMORY_CLOCK_RATE = 36
    MEMORY_BUS_BITS = 37
    L2_BYTES = 38
    THREADS = 39
    CAPABILITY_MAJOR = 75
    CAPABILITY_MINOR = 76
    SHARED_BYTES = 81
    REGISTERS = 82
    SHARED_BLOCK_BYTES = 97
    BLOCKS_RESIDENT = 106


class Driver:
    """The driver of this system, with one visible GPU; made by :func:`driver`."""

    def __init__(self, index: int = 0) -> None:
        try:
            self.library = ctypes.CDLL(_LIBRARY)
        except OSError:
            raise ArtifactError(
                f"this system has no driver for NVIDIA GPUs: {_LIBRARY} is not found"
            ) from None
        count = c_int()
        self.call("cuInit", c_uint(0))
        self.call("cuDeviceGetCount", byref(count))
        if not count.value:
            raise ArtifactError("NVIDIA's driver shows no GPU; CUDA_VISIBLE_DEVICES may hide it")
        if index >= count.value:
            raise ArtifactError(
                f"GPU {index} does not exist: NVIDIA's driver shows {count.value}, numbered from "
                "0. CUDA_VISIBLE_DEVICES may hide some."
            )
        self.device = c_int()
        self._retained: c_void_p | None = None
        self._process = os.getpid()
        self.call("cuDeviceGet", byref(self.device), c_int(index))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; an :class:`ArtifactError` has the driver's message."""
        function = getattr(self.library, name, None)
        if function is None:
            raise ArtifactError(f"{_LIBRARY} lacks {name}: NVIDIA's driver here is too old")
        if status := function(*arguments):
            text = c_char_p()
            self.library.cuGetErrorString(status, byref(text))
            said = (text.value or b"an error that the driver does not name").decode()
            raise ArtifactError(f"{name} of NVIDIA's driver failed: {said}")

    @property
    def name(self) -> str:
        """The GPU's, ``NVIDIA H100 80GB HBM3``."""
        text = ctypes.create_string_buffer(_NAME_BYTES)
        self.call("cuDeviceGetName", text, _NAME_BYTES, self.device)
        return text.value.decode(errors="replace")

    @property
    def bus_id(self) -> str:
        """The GPU's address on the PCI bus, ``0000:3b:00.0``, which ``nvidia-smi`` accepts."""
        text = ctypes.create_string_buffer(_NAME_BYTES)
        self.call("cuDeviceGetPCIBusId", text, _NAME_BYTES, self.device)
        return text.value.decode(errors="replace")

    @property
    def memory_bytes(self) -> int:
        """Size of the GPU's memory."""
        found = c_size_t()
        self.call("cuDeviceTotalMem_v2", byref(found), self.device)
        return found.value

    def attribute(self, which: Attribute) -> int:
        """A figure of the GPU; 0 if the driver does not know it."""
        found = c_int()
        self.call("cuDeviceGetAttribute", byref(found), c_int(which), self.device)
        return found.value

    def _context(self) -> c_void_p:
        """The GPU's primary context, which models and other libraries share; never released."""
        if self._retained is None:
            context = c_void_p()
            # concurrent threads may retain it more than once, which is harmless
            self.call("cuDevicePrimaryCtxRetain", byref(context), self.device)
            self._retained = context
        return self._retained

    @contextmanager
    def _current(self) -> Iterator[None]:
        if self._process != os.getpid():
            raise ArtifactError(
                "a forked child cannot use the GPU of its parent. Load models in the child only, "
                "or start it without fork."
            )
        self.call("cuCtxPushCurrent_v2", self._context())
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", None)

    def allocate(self, size: int, owner: object) -> int:
        """Memory of the GPU as long as ``owner`` lives, of at least one byte; its address."""
        address = c_size_t()
        with self._current():
            self.call("cuMemAlloc_v2", byref(address), c_size_t(max(size, 1)))
        weakref.finalize(owner, self._release, address).atexit = False
        return address.value

    def _release(self, address: c_size_t) -> None:
        # a forked child owns no memory of the GPU, and a lost GPU has none left
        with suppress(ArtifactError), self._current():
            self.call("cuMemFree_v2", address)

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """Copy memory, of either kind, in the order of a stream."""
        if size:
            addresses = c_size_t(target), c_size_t(source)
            with self._current():
                self.call("cuMemcpyAsync", *addresses, c_size_t(size), c_void_p(stream))

    def capture(self, stream: int) -> int:
        """The number of a stream's capture; 0 without a capture, or if the stream is invalid."""
        phase, number = c_int(), c_uint64()
        with suppress(ArtifactError), self._current():
            given = (c_void_p(stream), byref(phase), byref(number), None, None, None)
            self.call("cuStreamGetCaptureInfo_v2", *given)
        return number.value if phase.value else 0

    def wait(self, stream: int) -> None:
        """Wait until a stream is idle."""
        with self._current():
            self.call("cuStreamSynchronize", c_void_p(stream))

    def order(self, stream: int, after: int) -> None:
        """Let a stream wait for all earlier work of another stream."""
        event = c_void_p()
        with self._current():
            self.call("cuEventCreate", byref(event), c_uint(_NO_TIMING))
            try:
                self.call("cuEventRecord", event, c_void_p(after))
                self.call("cuStreamWaitEvent", c_void_p(stream), event, c_uint(0))
            finally:
                self.call("cuEventDestroy_v2", event)


@cache
def driver(index: int = 0) -> Driver:
    """The driver with a GPU, opened once for each GPU."""
    return Driver(index)
