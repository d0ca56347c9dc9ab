"""Calls of a loaded model from any number of threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.arguments import shown
from ..core.errors import ArtifactError, DataError, InputError
from ..core.stored_types import numpy_type
from ..core.tensor import Array, TensorInfo
from .arguments import shared_array
from .binding import Code, ProgramCode, State
from .dlpack import on_gpu
from .driver import DEFAULT_STREAM, driver
from .gpu_options import GpuOptions
from .idle import IdleStates
from .memory import Blanks, address_of, empty_aligned, in_memory
from .outputs import cut, part
from .tensors import GpuTensor, borrowed


class Runner:
    """Runs one program of a model; concurrent calls have a state each.

    ``idle`` are states without a call. Runners of one model's programs share them.
    """

    def __init__(
        self,
        code: Code,
        program: ProgramCode,
        threads: int,
        weights: npt.NDArray[np.uint8] | None,
        gpu: GpuOptions | None,
        idle: IdleStates,
    ) -> None:
        self._gpu = gpu or GpuOptions()
        self._gpu.check(code.on_gpu)
        self._code = code
        self._program = program
        self._inputs = program.inputs
        self._outputs = outputs = program.outputs
        self._types = [numpy_type(info.dtype) for info in outputs]
        self._results = Blanks(outputs)
        batched = (place for place, info in enumerate(program.inputs) if info.batched)
        self._batched = next(batched, None)
        self._varying = any(info.varying is not None for info in outputs)
        self._threads = threads
        self._weights = weights
        self._idle = idle
        # a caller's graph uses the memory of the captured state, which so is never idle again
        self._captured: dict[int, State] = {}

    @classmethod
    def each(
        cls,
        code: Code,
        threads: int,
        weights: npt.NDArray[np.uint8] | None = None,
        gpu: GpuOptions | None = None,
    ) -> tuple[Runner, ...]:
        """A runner of each program of a model."""
        idle = IdleStates()
        return tuple(cls(code, each, threads, weights, gpu, idle) for each in code.programs)

    @property
    def on_gpu(self) -> bool:
        """Whether kernels run on a GPU."""
        return bool(self._code.on_gpu)

    def cpus(self, text: str | None) -> tuple[int, ...]:
        """CPUs for the threads of streams; see :meth:`Code.cpus`."""
        return self._code.cpus(text)

    @property
    def inputs(self) -> Sequence[TensorInfo]:
        """Inputs in argument order."""
        return self._inputs

    @property
    def outputs(self) -> Sequence[TensorInfo]:
        """Outputs in result order."""
        return self._outputs

    def new_state(self) -> State:
        """A state that the caller keeps."""
        state = State(self._code, self._threads, self._weights, self._gpu)
        if state.program is not self._program:
            state.select(self._program)
        return state

    def prepare(self) -> None:
        """Have a state for the next call."""
        if not self._idle:
            self._idle.append(self.new_state())

    def operands(
        self, arrays: Sequence[Array | GpuTensor]
    ) -> tuple[list[Array | GpuTensor], list[Array | GpuTensor]]:
        """Copies of inputs, and memory for outputs, on the model's device."""
        if self.on_gpu:
            pairs = zip(arrays, self._inputs, strict=True)
            device = self._gpu.device
            copies = [GpuTensor.of(array, info, DEFAULT_STREAM, device) for array, info in pairs]
            results = [GpuTensor.empty(info, device=device) for info in self._outputs]
            driver(device).wait(DEFAULT_STREAM)
            return list(copies), list(results)
        self._on_host(arrays, None)
        inputs = [empty_aligned(array.shape, info.dtype) for array, info in self._named(arrays)]
        for copy, array in zip(inputs, arrays, strict=True):
            np.copyto(copy, np.asarray(array))
        return list(inputs), list(self._blanks(self.images(arrays)).make()[0])

    def images(self, arrays: Sequence[Array | GpuTensor]) -> int:
        """The number of images that the inputs of a call hold."""
        return 1 if self._batched is None else int(arrays[self._batched].shape[0])

    def _named(
        self, arrays: Sequence[Array | GpuTensor]
    ) -> Iterator[tuple[Array | GpuTensor, TensorInfo]]:
        return zip(arrays, self._inputs, strict=True)

    def _blanks(self, images: int) -> Blanks:
        """Memory for the outputs of so many images."""
        if images == 1:
            return self._results
        return Blanks([info.for_images(images) for info in self._outputs])

    def run(
        self, arrays: Sequence[Array | GpuTensor], stream: int | None = None
    ) -> list[Array | GpuTensor]:
        """One call; the caller owns the results.

        They are in the GPU's memory with a stream, or if an input is there. Without a stream they
        are complete.
        """
        if (host := self._on_host(arrays, stream)) is not None:
            images = self.images(host)
            results, outputs = self._blanks(images).make()
            # copies of inputs live until the call ends
            _held, inputs = in_memory(host)
            extents = self._call(inputs, outputs, images)
            return list(map(cut, results, self._outputs, extents) if self._varying else results)
        if self._capture(stream):
            raise InputError(
                "the stream is being captured, where results cannot be allocated. Call run_into "
                "with inputs and outputs in the GPU's memory."
            )
        tensors = [GpuTensor.empty(info, stream, self._gpu.device) for info in self._outputs]
        self._queue(arrays, tensors, stream)
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
        there = [type(value) is not np.ndarray and on_gpu(value) for value in destinations]
        if any(there):
            if not all(there):
                names = [i.name for i, on in zip(self._outputs, there, strict=True) if not on]
                raise InputError(
                    f"the destination(s) of {', '.join(names)} are in the CPU's memory, and the "
                    "others in the GPU's. Pass all in one memory."
                )
            self._check_gpu()
            pairs = zip(self._outputs, destinations, strict=True)
            whats = (f"the destination of output {info.name!r}" for info in self._outputs)
            tensors = [
                borrowed(value, info, what, stream, self._gpu.device)
                for (info, value), what in zip(pairs, whats, strict=True)
            ]
            self._queue(arrays, tensors, stream)
            return list(destinations)
        destinations = [shared_array(value) for value in destinations]
        host = self._on_host(arrays, stream)
        if host is not None:
            return self._into_arrays(host, destinations)
        if stream is not None:
            raise InputError("stream= requires destinations in the GPU's memory")
        results = self.run(arrays)
        self._check_destinations(destinations, 1)
        for result, array in zip(results, destinations, strict=True):
            np.copyto(array, np.asarray(result))
        return list(destinations)

    def _on_host(self, arrays: Sequence[Any], stream: int | None) -> Sequence[Array] | None:
        """The inputs, if the call uses the CPU's memory only."""
        if stream is None and GpuTensor not in map(type, arrays):
            return arrays
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
        arrays: Sequence[Array | GpuTensor],
        results: Sequence[GpuTensor],
        stream: int | None,
    ) -> None:
        """A call with all operands in the GPU's memory; without a stream it ends complete."""
        if self._varying:
            name = next(info.name for info in self._outputs if info.varying is not None)
            raise InputError(
                f"the shape of output {name!r} depends on the data, and a call in the GPU's memory "
                "does not return it. Pass arrays in the CPU's memory, without stream=."
            )
        queue, device = DEFAULT_STREAM if stream is None else stream, self._gpu.device
        capture = self._capture(stream)
        if capture and not all(isinstance(array, GpuTensor) for array in arrays):
            raise InputError(
                "the stream is being captured, where arrays in the CPU's memory cannot be copied. "
                "Pass inputs in the GPU's memory."
            )
        held = [
            array if isinstance(array, GpuTensor) else GpuTensor.of(array, info, queue, device)
            for array, info in zip(arrays, self._inputs, strict=True)
        ]
        state = self._take_for(capture) if capture else self._take()
        state.bind(addresses(held), addresses(results))
        state.enqueue(queue)
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

    def _check_destinations(self, destinations: Sequence[Any], images: int) -> None:
        for info, kind, array in zip(self._outputs, self._types, destinations, strict=True):
            info = info.for_images(images)
            if not isinstance(array, np.ndarray):
                raise InputError(
                    f"the destination of output {info.name!r} must be an array, not {shown(array)}"
                )
            if array.shape != info.shape or array.dtype != kind or not array.flags.writeable:
                raise InputError(
                    f"the destination of output {info.name!r} must be a writable {info.dtype} "
                    f"array of shape {info.shape}, got {array.dtype} {array.shape}"
                )

    def _into_arrays(self, arrays: Sequence[Array], destinations: Sequence[Array]) -> list[Array]:
        images = self.images(arrays)
        self._check_destinations(destinations, images)
        held, inputs = in_memory(arrays)
        # results are written before the last input is read
        taken = [(start, start + a.nbytes) for start, a in zip(inputs, held, strict=True)]
        results: list[Array] = []
        outputs: list[int] = []
        for info, array in zip(self._outputs, destinations, strict=True):
            result = array
            start = address_of(array) if array.flags.carray else None
            if start is None or _overlaps(start, start + array.nbytes, taken):
                result = empty_aligned(array.shape, info.dtype)
                start = address_of(result)
            results.append(result)
            outputs.append(start)
            taken.append((start, start + result.nbytes))
        extents = self._call(inputs, outputs, images)
        for result, array in zip(results, destinations, strict=True):
            if result is not array:
                np.copyto(array, result)
        return list(map(part, destinations, self._outputs, extents))

    def _call(
        self, inputs: Sequence[int], outputs: Sequence[int], images: int
    ) -> Sequence[int | None]:
        """Run with tensors at these addresses; gives the extents of varying axes of outputs."""
        state = self._take()
        try:
            state.bind(inputs, outputs, images)
            state.run()
            extents = state.extents()
        except DataError:
            self._idle.append(state)
            raise
        # the state of a call that failed otherwise is dropped
        self._idle.append(state)
        return extents

    def _take(self) -> State:
        """A state that no call uses."""
        try:
            state = self._idle.pop()
        except IndexError:
            return self.new_state()
        if state.program is not self._program:
            state.select(self._program)
        return state


def _overlaps(start: int, end: int, others: Sequence[tuple[int, int]]) -> bool:
    """Whether memory is a part of another tensor's."""
    return any(start < last and first < end for first, last in others)


def addresses(tensors: Sequence[Array | GpuTensor]) -> list[int]:
    """Addresses for :meth:`State.bind`; keep the tensors alive."""
    return [t.address if isinstance(t, GpuTensor) else address_of(t) for t in tensors]
