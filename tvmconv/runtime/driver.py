"""NVIDIA's driver through ctypes: what Python asks of a GPU by itself, beside what models do."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint
from enum import IntEnum
from functools import cache
from typing import Any

from ..core.errors import ArtifactError

_LIBRARY = "libcuda.so.1"
_NAME_BYTES = 128


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
    """The driver of this system, with the first GPU that it shows; made by :func:`driver`."""

    def __init__(self) -> None:
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
        self._device = c_int()
        self.call("cuDeviceGet", byref(self._device), 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Call one of its functions.

        Raises
        ------
        ArtifactError
            If it is not there, or fails; in the driver's words.
        """
        function = getattr(self.library, name, None)
        if function is None:
            raise ArtifactError(f"{_LIBRARY} has no {name}: NVIDIA's driver here is too old")
        if status := function(*arguments):
            text = c_char_p()
            self.library.cuGetErrorString(status, byref(text))
            said = (text.value or b"an error that the driver does not name").decode()
            raise ArtifactError(f"{name} of NVIDIA's driver failed: {said}")

    @property
    def name(self) -> str:
        """The GPU's, ``NVIDIA H100 80GB HBM3``."""
        text = ctypes.create_string_buffer(_NAME_BYTES)
        self.call("cuDeviceGetName", text, _NAME_BYTES, self._device)
        return text.value.decode(errors="replace")

    @property
    def memory_bytes(self) -> int:
        """All of the GPU's memory."""
        found = c_size_t()
        self.call("cuDeviceTotalMem_v2", byref(found), self._device)
        return found.value

    def attribute(self, which: Attribute) -> int:
        """One figure of the GPU; 0 where the driver gives none."""
        found = c_int()
        self.call("cuDeviceGetAttribute", byref(found), c_int(which), self._device)
        return found.value


@cache
def driver() -> Driver:
    """The driver, opened once.

    Raises
    ------
    ArtifactError
        If there is none, it does not start, or it shows no GPU.
    """
    return Driver()
