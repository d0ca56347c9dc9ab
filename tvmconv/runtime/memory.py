"""Memory of numpy arrays: their addresses, and new arrays that are aligned for kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, PYFUNCTYPE, Structure, c_char, c_char_p, c_int, c_void_p, py_object
from typing import Any

import numpy as np

from ..core.stored_types import numpy_type
from ..core.tensor import Array, TensorInfo

ALIGNMENT = 64
# bytes that are cleared quicker than numpy's memory tells its address
_CLEARED = 8192


class _Interface(Structure):
    """``PyArrayInterface``, which numpy documents as its array interface for C."""

    _fields_ = (
        ("two", c_int),
        ("rank", c_int),
        ("kind", c_char),
        ("itemsize", c_int),
        ("flags", c_int),
        *((name, c_void_p) for name in ("shape", "strides", "data", "description")),
    )


_interface = PYFUNCTYPE(POINTER(_Interface), py_object, c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_BYTES = np.dtype(np.uint8)
_shared: Callable[[Any], Any] = (c_char * 0).from_buffer


def address_of(array: Array) -> int:
    """The address of the first element of a C-contiguous array."""
    # `array.ctypes` and `__array_interface__` build objects for longer than a small kernel runs
    try:
        return ctypes.addressof(_shared(array))
    except (TypeError, ValueError):  # read-only, or of a type that buffers lack
        return int(_interface(array.__array_struct__, None).contents.data)


def in_memory(arrays: Sequence[Array]) -> tuple[list[Array], list[int]]:
    """The arrays that kernels can read in place, copies of the others, and all addresses."""
    held, addresses = [], []
    for array in arrays:
        flags = array.flags
        in_place = flags.carray or (flags.c_contiguous and flags.aligned)
        dense = array if in_place else np.array(array, order="C")
        held.append(dense)
        addresses.append(address_of(dense))
    return held, addresses


class Blanks:
    """Makes uninitialized arrays for tensors, aligned for the kernels."""

    def __init__(self, tensors: Sequence[TensorInfo]) -> None:
        self._forms: list[tuple[tuple[int, ...], Any, int, Any]] = []
        for info in tensors:
            size = info.bytes + ALIGNMENT
            # ctypes knows the address of its memory, but clears it
            block = c_char * size if size <= _CLEARED else None
            self._forms.append((info.shape, numpy_type(info.dtype), size, block))

    def make(self) -> tuple[list[Array], list[int]]:
        """Arrays, and their addresses."""
        arrays, addresses = [], []
        for shape, kind, size, block in self._forms:
            memory: Any = block() if block else np.empty(size, _BYTES)
            start = ctypes.addressof(memory if block else _shared(memory))
            offset = -start % ALIGNMENT
            arrays.append(np.ndarray(shape, kind, memory, offset))
            addresses.append(start + offset)
        return arrays, addresses


def empty_aligned(shape: tuple[int, ...], dtype: str) -> Array:
    """An uninitialized array whose first element is aligned as the kernels require."""
    return Blanks([TensorInfo("", shape, dtype)]).make()[0][0]
