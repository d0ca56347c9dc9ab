"""DLPack's structures through ctypes, for tensors in a GPU's memory, which numpy does not take."""

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint64,
    c_void_p,
    py_object,
)
from dataclasses import dataclass
from typing import Any

# DLDeviceType: kDLCUDA, kDLCUDAManaged
CUDA, MANAGED = 2, 13

_NAME, _USED = b"dltensor", b"used_dltensor"
# numpy's name -> code and bits of DLDataType
_TYPES = {
    **{f"float{bits}": (2, bits) for bits in (16, 32, 64)},
    **{f"int{bits}": (0, bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (1, bits) for bits in (8, 16, 32, 64)},
    "bfloat16": (4, 16),
    "bool": (6, 8),
}
_NAMES = {code: name for name, code in _TYPES.items()}


class _DlTensor(Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class _Managed(Structure):
    pass


_Deleter = CFUNCTYPE(None, POINTER(_Managed))
_Managed._fields_ = (("tensor", _DlTensor), ("context", c_void_p), ("deleter", _Deleter))
_CapsuleDestructor = CFUNCTYPE(None, c_void_p)

_api = ctypes.pythonapi


def _function(name: str, result: Any, *arguments: Any) -> Any:
    """A function of Python's C interface. It keeps the GIL: Python 3.12 crashes without it."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, _api))


_new = _function("PyCapsule_New", py_object, c_void_p, c_char_p, c_void_p)
# a capsule that is being freed has an address only, and is not an object any more
_is_valid = _function("PyCapsule_IsValid", ctypes.c_int, c_void_p, c_char_p)
_pointer = _function("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)
_rename = _function("PyCapsule_SetName", ctypes.c_int, py_object, c_char_p)


@dataclass(frozen=True, eq=False)
class Borrowed:
    """A tensor of another library in a GPU's memory.

    ``dtype`` is numpy's name of its type, or empty if numpy lacks the type. ``dense`` means
    C-contiguous. ``owner`` keeps the memory.
    """

    address: int
    shape: tuple[int, ...]
    dtype: str
    dense: bool
    device: int
    owner: object


class _Owner:
    """Calls a tensor's deleter after the last use of the tensor."""

    def __init__(self, managed: Any) -> None:
        self._managed = managed

    def __del__(self) -> None:
        # a null pointer means nothing to free
        if self._managed.contents.deleter:
            self._managed.contents.deleter(self._managed)


def on_gpu(value: Any) -> bool:
    """Whether an object offers DLPack a tensor in a GPU's memory."""
    asked = getattr(value, "__dlpack_device__", None)
    return asked is not None and int(asked()[0]) in (CUDA, MANAGED)


def borrow(value: Any, stream: int) -> Borrowed:
    """Take the tensor of an object with ``__dlpack__``, for which :func:`on_gpu` holds.

    The producer orders its work before later work of ``stream``; this function does not wait.
    """
    capsule = value.__dlpack__(stream=stream)
    address = id(capsule)
    if not _is_valid(address, _NAME):
        raise TypeError(f"{type(value).__name__}.__dlpack__ returned no unused capsule of DLPack")
    managed = ctypes.cast(_pointer(address, _NAME), POINTER(_Managed))
    _rename(capsule, _USED)
    owner = _Owner(managed)
    tensor = managed.contents.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    dtype = _NAMES.get((tensor.code, tensor.bits), "") if tensor.lanes == 1 else ""
    dense, stride = True, 1
    for axis in reversed(range(tensor.ndim if tensor.strides else 0)):
        dense = dense and (shape[axis] == 1 or tensor.strides[axis] == stride)
        stride *= shape[axis]
    start = (tensor.data or 0) + tensor.byte_offset
    return Borrowed(start, shape, dtype, dense or 0 in shape, int(tensor.device_id), owner)


# exported tensors by address, until their deleter is called
_lent: dict[int, tuple[object, ...]] = {}


def _returned(managed: Any) -> None:
    _lent.pop(ctypes.addressof(managed.contents), None)


def _forgotten(capsule: int) -> None:
    """Release a capsule that no library consumed."""
    if _is_valid(capsule, _NAME):
        _lent.pop(_pointer(capsule, _NAME), None)


_deleter = _Deleter(_returned)
_destructor = _CapsuleDestructor(_forgotten)


def lend(address: int, shape: tuple[int, ...], dtype: str, device: int, owner: object) -> Any:
    """A capsule of a dense tensor in a GPU's memory, which ``owner`` keeps."""
    extents = (c_int64 * max(len(shape), 1))(*shape)
    managed = _Managed()
    tensor = managed.tensor
    tensor.data, tensor.device_type, tensor.device_id = address, CUDA, device
    tensor.ndim, tensor.lanes = len(shape), 1
    tensor.code, tensor.bits = _TYPES[dtype]
    tensor.shape = ctypes.cast(extents, POINTER(c_int64))
    managed.deleter = _deleter
    _lent[ctypes.addressof(managed)] = (managed, extents, owner)
    return _new(ctypes.addressof(managed), _NAME, ctypes.cast(_destructor, c_void_p))
