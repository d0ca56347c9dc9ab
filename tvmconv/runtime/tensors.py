"""Tensors in the GPU's memory: inputs that callers pass by DLPack, and results of models."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..core.errors import ArtifactError, InputError
from ..core.stored_types import numpy_type
from ..core.tensor import Array, Declared, TensorInfo
from . import dlpack
from .driver import DEFAULT_STREAM, driver
from .memory import empty_aligned


class GpuTensor:
    """A dense tensor in the memory of a GPU.

    torch, cupy and others take it by DLPack, without a copy: ``torch.from_dlpack(tensor)``.
    :meth:`numpy`, and ``numpy.asarray``, copy it to the CPU's memory. ``stream`` orders its
    writing; without a stream it is complete. ``owner`` keeps its memory, by default the tensor.
    """

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        dtype: str,
        stream: int | None = None,
        owner: object = None,
        device: int = 0,
    ) -> None:
        self.address = address
        self.shape = shape
        self.dtype = numpy_type(dtype)
        self.stream = stream
        self.device = device
        self._owner = owner

    @classmethod
    def empty(cls, info: TensorInfo, stream: int | None = None, device: int = 0) -> GpuTensor:
        """Uninitialized memory for an input or output."""
        tensor = cls(0, info.shape, info.dtype, stream, device=device)
        try:
            tensor.address = driver(device).allocate(tensor.nbytes, tensor)
        except ArtifactError as error:
            raise ArtifactError(f"no memory for {info} on the GPU: {error}") from error
        return tensor

    @classmethod
    def of(
        cls, source: Array | GpuTensor, info: TensorInfo, stream: int, device: int = 0
    ) -> GpuTensor:
        """A copy of an array, or of a complete tensor, in the order of a stream."""
        tensor = cls.empty(info, stream, device)
        if isinstance(source, GpuTensor):
            driver(device).copy(tensor.address, source.address, tensor.nbytes, stream)
        else:
            # the driver has read pageable memory when it returns
            dense = np.ascontiguousarray(source)
            driver(device).copy(tensor.address, dense.ctypes.data, tensor.nbytes, stream)
        return tensor

    @property
    def nbytes(self) -> int:
        """Its size."""
        return prod(self.shape) * self.dtype.itemsize

    def numpy(self) -> Array:
        """A copy in the CPU's memory, after the tensor is complete."""
        stream = DEFAULT_STREAM if self.stream is None else self.stream
        array = empty_aligned(self.shape, self.dtype.name)
        driver(self.device).copy(array.ctypes.data, self.address, self.nbytes, stream)
        driver(self.device).wait(stream)
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("cannot convert a GPU tensor to NumPy without a copy. Call .numpy().")
        return self.numpy().astype(dtype or self.dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule for a consumer that uses the tensor in the order of ``stream``."""
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(
                "cannot export a GPU tensor to another device or as a copy. Copy the tensor first."
            )
        # -1: the consumer orders its work itself
        reader = DEFAULT_STREAM if stream is None else stream
        if self.stream is not None and reader not in (-1, self.stream):
            driver(self.device).order(reader, after=self.stream)
        return dlpack.lend(self.address, self.shape, self.dtype.name, self.device, self)

    def __repr__(self) -> str:
        return f"GpuTensor({self.dtype}[{', '.join(map(str, self.shape))}])"


def own_copy(array: Array | GpuTensor) -> Array:
    """A copy in the CPU's memory."""
    return array.numpy() if isinstance(array, GpuTensor) else array.copy()


def stream_handle(stream: Any) -> int | None:
    """The handle of a CUDA stream: an integer, or an object of torch, cupy or cuda.core."""
    if stream is None:
        return None
    handle = stream
    if hasattr(stream, "__cuda_stream__"):
        handle = stream.__cuda_stream__()[1]
    else:
        for name in ("cuda_stream", "ptr"):
            handle = getattr(handle, name, handle)
    if isinstance(handle, bool) or not isinstance(handle, int) or handle < 0:
        raise InputError(
            f"stream={stream!r} is not a CUDA stream. Expected its handle as an integer, or an "
            "object with cuda_stream or ptr, as torch and cupy have."
        )
    # the driver calls the default stream 0, DLPack calls it 1
    return int(handle) or DEFAULT_STREAM


def borrowed(
    value: Any, info: Declared, what: str, stream: int | None, device: int = 0
) -> GpuTensor:
    """A caller's tensor, checked; a stream orders its use, without one the default stream.

    Any shape passes for an input of a dynamic model, which checks it later.
    """
    if isinstance(value, GpuTensor) and value.stream in (None, stream):
        given = (value.address, value.shape, value.dtype.name, True, value.device, value)
        found = dlpack.Borrowed(*given)
    else:
        try:
            found = dlpack.borrow(value, DEFAULT_STREAM if stream is None else stream)
        except (TypeError, ValueError, BufferError, RuntimeError) as error:
            raise InputError(f"{what} is not a tensor: {error}") from None
    wanted = info.shape if isinstance(info, TensorInfo) else found.shape
    if (found.shape, found.dtype) != (wanted, info.dtype):
        said = f"{found.dtype or 'an unsupported type'} {found.shape}"
        raise InputError(f"{what} must be {info.dtype} {info.shape}, got {said}")
    if not found.dense:
        raise InputError(
            f"{what} must be C-contiguous. Call .contiguous() or np.ascontiguousarray."
        )
    if found.device != device:
        raise InputError(
            f"{what} is on GPU {found.device}, and this model on GPU {device}. Move the tensor, or "
            f"open the model with device={found.device}."
        )
    return GpuTensor(found.address, found.shape, found.dtype, stream, found.owner, device)
