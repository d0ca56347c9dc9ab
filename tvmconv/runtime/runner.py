"""Calls of a loaded model from any number of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.arguments import shown
from ..core.errors import ArtifactError, DataError, InputError
from ..core.tensor import Array, TensorInfo
from .arguments import shared_array
from .binding import Code, ProgramCode, State, pointers
from .dlpack import on_gpu
from .driver import DEFAULT_STREAM, driver
from .gpu_options import GpuOptions
from .outputs import cut, empty_aligned, part
from .tensors import GpuTensor, borrowed


class Runner:
    """Runs one model; concurrent calls have a state each."""

    def __init__(
        self,
        code: Code,
        threads: int,
        weights: npt.NDArray[np.uint8] | None = None,
        gpu: GpuOptions | None = None,
    ) -> None:
        self._gpu = gpu or GpuOptions()
        self._gpu.check(code.on_gpu)
        self._code = code
        self._programs = {
            tuple(info.shape for info in program.inputs): program for program in code.programs
        }
        self._threads = threads
        self._weights = weights
        # append and pop of a deque are atomic: no lock between concurrent calls
        self._idle: deque[State] = deque()
        # a caller's graph uses the memory of the captured state, which so is never idle again
        self._captured: dict[int, State] = {}

    @property
    def on_gpu(self) -> bool:
        """Whether kernels run on a GPU."""
        return bool(self._code.on_gpu)

    def program_of(self, arrays: Sequence[Array | GpuTensor]) -> ProgramCode:
        """The program for inputs of these shapes."""
        return self._programs[tuple(array.shape for array in arrays)]

    def new_state(self) -> State:
        """A state that the caller keeps."""
        return State(self._code, self._threads, self._weights, self._gpu)

    def prepare(self) -> None:
        """Have a state for the next call."""
        if not self._idle:
            self._idle.append(self.new_state())

    def operands(
        self, arrays: Sequence[Array | GpuTensor]
    ) -> tuple[list[Array | GpuTensor], list[Array | GpuTensor]]:
        """Copies of inputs, and memory for outputs, on the model's device."""
        program = self.program_of(arrays)
        if self.on_gpu:
            pairs = zip(arrays, program.inputs, strict=True)
            device = self._gpu.device
            copies = [GpuTensor.of(array, info, DEFAULT_STREAM, device) for array, info in pairs]
            results = [GpuTensor.empty(info, device=device) for info in program.outputs]
            driver(device).wait(DEFAULT_STREAM)
            return list(copies), list(results)
        self._on_host(arrays, None)
        inputs = [empty_aligned(info.shape, info.dtype) for info in program.inputs]
        for copy, array in zip(inputs, arrays, strict=True):
            np.copyto(copy, np.asarray(array))
        return list(inputs), list(_empty(program.outputs))

    def run(
        self, arrays: Sequence[Array | GpuTensor], stream: int | None = None
    ) -> list[Array | GpuTensor]:
        """One call; the caller owns the results.

        They are in the GPU's memory with a stream, or if an input is there. Without a stream they
        are complete.
        """
        host = self._on_host(arrays, stream)
        program = self.program_of(arrays)
        if host is not None:
            results = _empty(program.outputs)
            shapes = self._call(program, host, results)
            return list(map(cut, results, program.outputs, shapes))
        if self._capture(stream):
            raise InputError(
                "the stream is being captured, where results cannot be allocated. Call run_into "
                "with inputs and outputs in the GPU's memory."
            )
        tensors = [GpuTensor.empty(info, stream, self._gpu.device) for info in program.outputs]
        self._queue(program, arrays, tensors, stream)
        return list(tensors)

    def run_into(
        self,
        arrays: Sequence[Array | GpuTensor],
        destinations: Sequence[Any],
        stream: int | None = None,
    ) -> list[Any]:
        """One call with the results in existing arrays or tensors, all in one memory.

        Gives these, cut to the sizes that depend on the data.
        """
        program = self.program_of(arrays)
        outputs = program.outputs
        there = [type(value) is not np.ndarray and on_gpu(value) for value in destinations]
        if any(there):
            if not all(there):
                names = [i.name for i, on in zip(outputs, there, strict=True) if not on]
                raise InputError(
                    f"the destination(s) of {', '.join(names)} are in the CPU's memory, and the "
                    "others in the GPU's. Pass all in one memory."
                )
            self._check_gpu()
            pairs = zip(outputs, destinations, strict=True)
            whats = (f"the destination of output {info.name!r}" for info in outputs)
            tensors = [
                borrowed(value, info, what, stream, self._gpu.device)
                for (info, value), what in zip(pairs, whats, strict=True)
            ]
            self._queue(program, arrays, tensors, stream)
            return list(destinations)
        destinations = [shared_array(value) for value in destinations]
        host = self._on_host(arrays, stream)
        if host is not None:
            return self._into_arrays(program, host, destinations)
        if stream is not None:
            raise InputError("stream= requires destinations in the GPU's memory")
        results = self.run(arrays)
        _check_destinations(outputs, destinations)
        for result, array in zip(results, destinations, strict=True):
            np.copyto(array, np.asarray(result))
        return list(destinations)

    def _on_host(
        self, arrays: Sequence[Array | GpuTensor], stream: int | None
    ) -> list[Array] | None:
        """The inputs, if the call uses the CPU's memory only."""
        host = [array for array in arrays if not isinstance(array, GpuTensor)]
        if len(host) == len(arrays) and stream is None:
            return host
        self._check_gpu()
        return None

    def _check_gpu(self) -> None:
        if not self.on_gpu:
            raise InputError(
                "this model runs on the CPU and does not support stream=. Pass arrays in the CPU's "
                "memory, without stream=."
            )

    def _queue(
        self,
        program: ProgramCode,
        arrays: Sequence[Array | GpuTensor],
        results: Sequence[GpuTensor],
        stream: int | None,
    ) -> None:
        """A call with all operands in the GPU's memory; without a stream it ends complete."""
        queue, device = DEFAULT_STREAM if stream is None else stream, self._gpu.device
        capture = self._capture(stream)
        if capture and not all(isinstance(array, GpuTensor) for array in arrays):
            raise InputError(
                "the stream is being captured, where arrays in the CPU's memory cannot be copied. "
                "Pass inputs in the GPU's memory."
            )
        held = [
            array if isinstance(array, GpuTensor) else GpuTensor.of(array, info, queue, device)
            for array, info in zip(arrays, program.inputs, strict=True)
        ]
        state = self._take_for(capture) if capture else self._take()
        state.enqueue(queue, addresses(held), addresses(results))
        if not capture:
            self._idle.append(state)
        if stream is None:
            driver(device).wait(queue)

    def _capture(self, stream: int | None) -> int:
        """The number of a stream's capture; 0 without one."""
        return 0 if stream is None else driver(self._gpu.device).capture(stream)

    def _take_for(self, capture: int) -> State:
        """An existing state for a capture, during which no state can be made."""
        if capture not in self._captured:
            try:
                self._captured[capture] = self._idle.pop()
            except IndexError:
                raise ArtifactError(
                    "the stream is being captured, and all memory of the model's calls belongs to "
                    "earlier graphs or to running calls. Call the model once before each capture."
                ) from None
        return self._captured[capture]

    def _into_arrays(
        self, program: ProgramCode, arrays: Sequence[Array], destinations: Sequence[Array]
    ) -> list[Array]:
        _check_destinations(program.outputs, destinations)
        # results are written before the last input is read
        taken = list(arrays)
        results: list[Array] = []
        for info, array in zip(program.outputs, destinations, strict=True):
            direct = array.flags.carray and not any(
                np.may_share_memory(array, other) for other in (*taken, *results)
            )
            results.append(array if direct else empty_aligned(info.shape, info.dtype))
        shapes = self._call(program, arrays, results)
        for result, array in zip(results, destinations, strict=True):
            if result is not array:
                np.copyto(array, result)
        return list(map(part, destinations, program.outputs, shapes))

    def _call(
        self, program: ProgramCode, arrays: Sequence[Array], results: Sequence[Array]
    ) -> Sequence[tuple[int, ...]]:
        """Run; gives the actual shapes of the results."""
        held = [in_memory(array) for array in arrays]
        state = self._take()
        state.select(program)
        try:
            state.run(addresses(held), addresses(results))
            shapes = state.shapes()
        except DataError:
            self._idle.append(state)
            raise
        # the state of a call that failed otherwise is dropped
        self._idle.append(state)
        return shapes

    def _take(self) -> State:
        """A state that no call uses."""
        try:
            return self._idle.pop()
        except IndexError:
            return self.new_state()


def _check_destinations(outputs: Sequence[TensorInfo], destinations: Sequence[Any]) -> None:
    for info, array in zip(outputs, destinations, strict=True):
        if not isinstance(array, np.ndarray):
            raise InputError(
                f"the destination of output {info.name!r} must be an array, not {shown(array)}"
            )
        if array.shape != info.shape or array.dtype != info.dtype or not array.flags.writeable:
            raise InputError(
                f"the destination of output {info.name!r} must be a writable {info.dtype} "
                f"array of shape {info.shape}, got {array.dtype} {array.shape}"
            )


def _empty(outputs: Sequence[TensorInfo]) -> list[Array]:
    """Uninitialized arrays for the results."""
    return [empty_aligned(info.shape, info.dtype) for info in outputs]


def in_memory(array: Array) -> Array:
    """The array itself if kernels can read it in place, or a copy."""
    return array if array.flags.c_contiguous and array.flags.aligned else np.array(array, order="C")


def addresses(arrays: Sequence[Array | GpuTensor]) -> Any:
    """Addresses of arrays for :class:`State`; keep the arrays alive."""
    return pointers(
        [
            array.address if isinstance(array, GpuTensor) else array.__array_interface__["data"][0]
            for array in arrays
        ]
    )
