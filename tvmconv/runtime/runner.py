"""Calls of a loaded model: virtual machines, argument tensors, result arrays."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.core.arguments import shown
from tvmconv.core.errors import InputError
from tvmconv.core.tensor import TensorInfo
from tvmconv.runtime import engine, threads
from tvmconv.runtime.memory import returns_constants
from tvmconv.runtime.outputs import empty_aligned

Array = npt.NDArray[Any]

_ALIGNMENT = 64  # what generated vector loads assume of every argument
_SMALL = 64 * 1024  # outputs up to this size are copied, so that they own their memory


class Lease:
    """Held by everything that uses activation memory; the last to go returns it to the system.

    Holders keep it as their last attribute: attributes are dropped in the order of assignment.
    """

    def __init__(self) -> None:
        weakref.finalize(self, engine.release_free_memory).atexit = False


class Instance:
    """One virtual machine with its argument buffers; used by one call at a time."""

    def __init__(self, module: Any, inputs: Sequence[TensorInfo], lease: Lease) -> None:
        self.machine = engine.virtual_machine(module)
        self.main = self.machine["main"]
        self._from_dlpack = engine.ffi().from_dlpack
        self._inputs = inputs
        self._staged: list[tuple[Array, Any] | None] = [None] * len(inputs)
        self._lease = lease

    def tensors(self, arrays: Sequence[Array]) -> list[Any]:
        """Checked arrays as TVM tensors, without a copy where memory layout allows."""
        return [self._tensor(index, array) for index, array in enumerate(arrays)]

    def _tensor(self, index: int, array: Array) -> Any:
        if array.flags.c_contiguous and array.size:
            try:
                tensor = self._from_dlpack(array)
            except BufferError:  # a read-only array
                pass
            else:
                if tensor.data_ptr() % _ALIGNMENT == 0:
                    return tensor
        staged = self._staged[index]
        if staged is None:
            info = self._inputs[index]
            buffer = empty_aligned(info.shape, info.dtype, _ALIGNMENT)
            staged = self._staged[index] = (buffer, self._from_dlpack(buffer))
        np.copyto(staged[0], array)
        return staged[1]


class Runner:
    """Runs one model from any number of threads."""

    def __init__(
        self,
        module: Any,
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        thread_count: int,
    ) -> None:
        self._module = module
        self._inputs = inputs
        self._outputs = outputs
        self._threads = thread_count
        # append and pop of a deque are atomic: no lock between concurrent calls
        self._idle: deque[Instance] = deque()
        self._always_copy = returns_constants(str(module["as_text"]()))
        self.lease = Lease()

    def new_instance(self) -> Instance:
        """An instance that the caller keeps."""
        return Instance(self._module, self._inputs, self.lease)

    def acquire(self) -> Instance:
        """An instance that no other call uses."""
        try:
            return self._idle.pop()
        except IndexError:
            return self.new_instance()

    def release(self, instance: Instance) -> None:
        """Make an instance available to the next call."""
        self._idle.append(instance)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """One call; the results are arrays of the caller's own."""
        instance = self.acquire()
        # an instance whose call failed is dropped: its frames may be in any state
        tensors = instance.tensors(arrays)
        result = self.invoke(instance, tensors)
        results = self.arrays(result, tensors)
        self.release(instance)
        return results

    def run_into(self, arrays: Sequence[Array], destinations: Sequence[Array]) -> None:
        """One call with the results copied into existing arrays.

        Raises
        ------
        InputError
            If a destination has another shape or type than its output, or cannot be written.
        """
        for info, array in zip(self._outputs, destinations, strict=True):
            if not isinstance(array, np.ndarray):
                raise InputError(
                    f"the destination of output {info.name!r} must be an array, not {shown(array)}"
                )
            if array.shape != info.shape or array.dtype != info.dtype or not array.flags.writeable:
                raise InputError(
                    f"the destination of output {info.name!r} must be a writable {info.dtype} "
                    f"array of shape {info.shape}, got {array.dtype} {array.shape}"
                )
        instance = self.acquire()
        result = self.invoke(instance, instance.tensors(arrays))
        for tensor, array in zip(_as_list(result, len(self._outputs)), destinations, strict=True):
            np.copyto(array, engine.as_array(tensor))
        self.release(instance)

    def invoke(self, instance: Instance, tensors: Sequence[Any]) -> Any:
        """One call on TVM tensors."""
        return threads.call(self._threads, instance.main, *tensors)

    def arrays(self, result: Any, tensors: Sequence[Any]) -> list[Array]:
        """Result tensors as arrays that alias neither each other nor anything of the model."""
        arrays: list[Array] = []
        for tensor in _as_list(result, len(self._outputs)):
            view = engine.as_array(tensor)
            shared = (
                view.nbytes <= _SMALL
                or self._always_copy
                or not view.flags.writeable
                or any(np.may_share_memory(view, other) for other in arrays)
                or any(np.may_share_memory(view, engine.as_array(t)) for t in tensors)
            )
            arrays.append(view.copy() if shared else view)
        return arrays


def _as_list(result: Any, count: int) -> list[Any]:
    if count == 1 and hasattr(result, "__dlpack__"):
        return [result]
    return [result[index] for index in range(count)]
