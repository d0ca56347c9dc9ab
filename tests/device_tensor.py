"""A library of tensors in a GPU's memory, other than tvmconv's own, that speaks DLPack.

For processes on the emulated driver. Capsules are numpy's, with another device and address.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_int32, c_size_t, c_uint, c_void_p, py_object

import numpy as np

CUDA, CPU = 2, 1
library = ctypes.CDLL("libcuda.so.1")
library.emulated_count.restype = ctypes.c_long
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [py_object, ctypes.c_char_p]


class Head(ctypes.Structure):
    """How DLTensor begins."""

    _fields_ = (("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32))


def call(name: str, *arguments) -> None:
    status = getattr(library, name)(*arguments)
    assert not status, (name, status)


def count(what: str) -> int:
    return library.emulated_count(what.encode())


def enter(device: int = 0) -> None:
    """Make a GPU the thread's."""
    context = c_void_p()
    call("cuInit", c_uint(0))
    call("cuDevicePrimaryCtxRetain", byref(context), c_int(device))
    call("cuCtxPushCurrent_v2", context)


def new_stream() -> int:
    stream = c_void_p()
    call("cuStreamCreate", byref(stream), c_uint(1))
    return stream.value


def wait(stream: int) -> None:
    call("cuStreamSynchronize", c_void_p(stream))


def order(stream: int, behind: int) -> None:
    event = c_void_p()
    call("cuEventCreate", byref(event), c_uint(2))
    call("cuEventRecord", event, c_void_p(behind))
    call("cuStreamWaitEvent", c_void_p(stream), event, c_uint(0))


def begin_capture(stream: int, mode: int = 0) -> None:
    """As torch does by default: nothing is allocated or asked for meanwhile, in any thread."""
    call("cuStreamBeginCapture_v2", c_void_p(stream), c_int(mode))


def end_capture(stream: int) -> c_void_p:
    """The captured graph, to be launched by :func:`replay`."""
    captured, graph = c_void_p(), c_void_p()
    call("cuStreamEndCapture", c_void_p(stream), byref(captured))
    call("cuGraphInstantiateWithFlags", byref(graph), captured, ctypes.c_ulonglong(0))
    call("cuGraphDestroy", captured)
    return graph


def replay(graph: c_void_p, stream: int) -> None:
    call("cuGraphLaunch", graph, c_void_p(stream))


class DeviceTensor:
    """A copy of an array; one that a stream has yet to make, where a stream is given."""

    def __init__(self, array: np.ndarray, stream: int | None = None, offset: int = 0, device=0):
        self.form = array.copy()
        self.stream = stream
        self.device = device
        self.asked = []
        address = c_size_t()
        call("cuMemAlloc_v2", byref(address), c_size_t(array.nbytes + offset + 1))
        self.address = address.value + offset
        kept = c_size_t(self.address)
        if stream is None:
            call("cuMemcpyHtoD_v2", kept, c_void_p(self.form.ctypes.data), c_size_t(array.nbytes))
            wait(0)  # it returns when the array was read
        else:
            source = DeviceTensor(array)
            call(
                "cuMemcpyAsync",
                kept,
                c_size_t(source.address),
                c_size_t(array.nbytes),
                c_void_p(stream),
            )

    def write(self, array: np.ndarray) -> None:
        """Other contents, complete on return."""
        size = c_size_t(array.nbytes)
        call("cuMemcpyHtoD_v2", c_size_t(self.address), c_void_p(array.ctypes.data), size)
        wait(0)

    def numpy(self, stream: int | None = None) -> np.ndarray:
        """The memory's values after the stream has finished."""
        result = np.empty_like(self.form)
        if stream is not None:
            wait(stream)
        size = c_size_t(result.nbytes)
        call("cuMemcpyDtoH_v2", c_void_p(result.ctypes.data), c_size_t(self.address), size)
        return result

    def __dlpack_device__(self):
        return CUDA, self.device

    def __dlpack__(self, stream=None):
        self.asked.append(stream)
        if self.stream is not None and stream not in (-1, self.stream):
            order(stream, self.stream)
        capsule = self.form.__dlpack__()
        head = Head.from_address(_pointer(capsule, b"dltensor"))
        head.data, head.device_type, head.device_id = self.address, CUDA, self.device
        return capsule


class View:
    """A lent tensor as numpy reads it: the emulated GPU's memory is the process's own."""

    def __init__(self, tensor, stream=None):
        self.capsule = tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return CPU, 0

    def __dlpack__(self, **_):
        head = Head.from_address(_pointer(self.capsule, b"dltensor"))
        assert head.device_type == CUDA
        head.device_type = CPU
        return self.capsule
