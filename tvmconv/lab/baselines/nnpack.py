"""NNPACK on the CPU, out of torch's library, which exports its C interface; NCHW in and out."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version as installed
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .case import Array, Case, CaseNode, Session, Unsupported
from .fusion import fuse

_LIBRARY = "lib/libtorch_cpu.so"
# nnp_status
_SUCCESS = 0
# nnp_convolution_algorithm
_AUTO, _WINOGRAD = 0, 3
# nnp_convolution_transform_strategy
_COMPUTE, _PRECOMPUTE, _REUSE = 1, 2, 3
_ACTIVATIONS = {"": 0, "relu": 1}
_ALIGNMENT = 64


class _Size(ctypes.Structure):
    _fields_ = (("width", ctypes.c_size_t), ("height", ctypes.c_size_t))


class _Padding(ctypes.Structure):
    _fields_ = tuple((side, ctypes.c_size_t) for side in ("top", "right", "bottom", "left"))


def version() -> str:
    """Version of the torch that the library belongs to; NNPACK has none."""
    _library()
    return f"in torch {installed('torch')}"


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    """The library without torch's Python part, whose import takes minutes under emulation."""
    found = find_spec("torch")
    if found is None or not found.submodule_search_locations:
        raise ImportError("No module named 'torch', whose library has NNPACK")
    path = Path(found.submodule_search_locations[0]) / _LIBRARY
    try:
        library = ctypes.CDLL(str(path))
        status = library.nnp_initialize()
    except (OSError, AttributeError) as error:
        raise ImportError(f"torch's library has no NNPACK: {error}") from None
    if status != _SUCCESS:
        raise ImportError(f"NNPACK does not run on this processor: status {status}")
    return library


def prepare(case: Case, threads: int) -> Session:
    """One convolution of one image by one thread.

    3x3 kernels without a stride use Winograd's F(6x6) with weights that were transformed before.
    Others use NNPACK's choice, which transforms weights inside the call.
    """
    if threads != 1:
        raise Unsupported(f"{threads} threads; this adapter calls NNPACK with one")
    node, activation = _convolution(case)
    data = np.ascontiguousarray(case.single_input()[1])
    weights = np.ascontiguousarray(case.constant(node.input(1)))
    bias = np.zeros(weights.shape[0], np.float32)
    if node.input(2):
        bias = np.ascontiguousarray(case.constant(node.input(2)))
    result: Array = np.empty(case.shapes[case.outputs[0]], np.float32)
    winograd = weights.shape[2:] == (3, 3) and list(node.attrs["strides"]) == [1, 1]
    call = _caller(node, data, bias, result, _ACTIVATIONS[activation])
    if winograd:
        packed = _workspace(lambda *room: call(_WINOGRAD, _PRECOMPUTE, weights, *room))
        weights, strategy, algorithm = packed, _REUSE, _WINOGRAD
    else:
        strategy, algorithm = _COMPUTE, _AUTO
    scratch = _workspace(lambda *room: call(algorithm, strategy, weights, *room))
    size = ctypes.c_size_t(scratch.nbytes)

    def run() -> None:
        call(algorithm, strategy, weights, scratch.ctypes.data, ctypes.byref(size))

    return Session(
        run,
        lambda: {case.outputs[0]: result},
        info="Winograd F(6x6)" if winograd else "NNPACK's choice",
    )


def _convolution(case: Case) -> tuple[CaseNode, str]:
    """The only operator, and the activation after it."""
    steps = fuse(case)
    if len(steps) != 1 or steps[0].node.op != "Conv" or steps[0].activation not in _ACTIVATIONS:
        raise Unsupported("one convolution only, alone or with relu")
    node = steps[0].node
    if len(node.attrs["strides"]) != 2 or case.single_input()[1].shape[0] != 1:
        raise Unsupported("two dimensions of one image only")
    if node.attrs["group"] != 1 or list(node.attrs["dilations"]) != [1, 1]:
        raise Unsupported("NNPACK has no groups and no dilation")
    return node, steps[0].activation


def _caller(
    node: CaseNode, data: Array, bias: Array, result: Array, activation: int
) -> Callable[..., None]:
    """``nnp_convolution_inference`` of an algorithm, a strategy, weights and a workspace."""
    function = _library().nnp_convolution_inference
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    enum = ctypes.c_int
    function.argtypes = [enum, enum, size, size, _Size, _Padding, _Size, _Size]
    function.argtypes += [pointer] * 6 + [enum] + [pointer] * 3
    top, left, bottom, right = node.attrs["pads"]
    kernel_h, kernel_w = node.attrs["kernel_shape"]
    stride_h, stride_w = node.attrs["strides"]
    window = (
        _Size(data.shape[3], data.shape[2]),
        _Padding(top, right, bottom, left),
        _Size(kernel_w, kernel_h),
        _Size(stride_w, stride_h),
    )
    channels = (data.shape[1], bias.size)

    def call(algorithm: int, strategy: int, weights: Array, room: Any, room_size: Any) -> None:
        status = function(
            algorithm,
            strategy,
            *channels,
            *window,
            data.ctypes.data,
            weights.ctypes.data,
            bias.ctypes.data,
            result.ctypes.data,
            room,
            room_size,
            activation,
            None,
            None,
            None,
        )
        if status != _SUCCESS:
            raise Unsupported(f"NNPACK's status {status}")

    return call


def _workspace(call: Callable[..., None]) -> Array:
    """Memory of the size that a call asks for, with the content that the call leaves there."""
    size = ctypes.c_size_t()
    call(None, ctypes.byref(size))
    memory = np.zeros(size.value + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    aligned = memory[start : start + size.value]
    call(aligned.ctypes.data, ctypes.byref(size))
    return aligned
