"""The C interface of compiled models (``tvmconv.h``), called through ctypes."""

from __future__ import annotations

import _ctypes
import ctypes
import os
import weakref
from collections.abc import Sequence
from ctypes import POINTER, byref, c_int32, c_int64, c_void_p
from dataclasses import replace
from typing import Any

from ..core.errors import ArtifactError, DataError
from ..core.tensor import TensorInfo
from .gpu_options import GpuOptions
from .interface import ABI, Description, LayerRecord, ModelTable, Options

SYMBOL = "tvmconv_model"

_MESSAGE_BYTES = 512
# the most that the runtime lists
_MOST_CPUS = 1024
# TVMCONV_DATA
_DATA = 7
# the values of tvmconv_dtype
DTYPES = (
    *("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float4_e2m1fn", "int4", "uint4", "int2", "uint2"),
)


class Code:
    """The code of one model, loaded into this process until the last reference is gone.

    ``target`` is the target that runs here, or that :meth:`select` has named. Models that run
    nowhere here have the names of all targets.
    """

    def __init__(self, path: str) -> None:
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise ArtifactError(
                f"cannot load the shared object: {error}. Check that its folder allows execution, "
                "that TMPDIR does where the model is new, and that it was built for this "
                "architecture and C library."
            ) from error
        weakref.finalize(self, _ctypes.dlclose, library._handle).atexit = False
        try:
            self._model = ModelTable.in_dll(library, SYMBOL)
        except ValueError:
            raise ArtifactError(
                "the shared object holds no model of this version of tvmconv. Build the model "
                "again."
            ) from None
        if self._model.abi != ABI:
            raise ArtifactError(
                f"the model's interface has version {self._model.abi}. Expected {ABI}. Build the "
                "model again, or install the tvmconv that built it."
            )
        self._library = library
        here = self.described(None)
        # the target of new states; None for older models, and if none runs here
        self.asked = None if here is None else bytes(here.target)
        description: Description = here or self._model.description.contents
        self.name = _text(description.name)
        self.target = _text(description.target)
        self.threads = int(description.threads)
        self.weight_bytes = int(description.weight_bytes)
        self.separate_weights = bool(description.separate_weights)
        # older models, all for CPUs, lack the field
        knows = description.size > Description.device.offset
        self.on_gpu = knows and description.device == 1
        records = [ctypes.pointer(description)]
        if description.size > Description.program_count.offset:
            addresses = description.programs[: description.program_count]
            records = [ctypes.cast(address, POINTER(Description)) for address in addresses]
        self.programs = tuple(ProgramCode(record.contents) for record in records)

    def select(self, target: str) -> None:
        """Run the code for this target in new states."""
        self.target, self.asked = target, target.encode()

    def described(self, state: c_void_p | None) -> Description | None:
        """The description of a state, or of a new one; None for older models."""
        if self._model.size <= ModelTable.describe.offset:
            return None
        found = self._model.describe(state)
        return ctypes.cast(found, POINTER(Description)).contents if found else None

    def cpus(self, text: str | None) -> tuple[int, ...]:
        """The CPUs that a text names, or all, if this process may use them.

        At most as many as may run at a time. Empty for a text of another form.
        """
        if self._model.size <= ModelTable.cpus.offset:
            if text is None:
                return tuple(sorted(os.sched_getaffinity(0)))
            raise ArtifactError(
                f"model {self.name!r} is older than cpus=. Leave cpus= out, or build it again."
            )
        numbers = (c_int32 * _MOST_CPUS)()
        name = None if text is None else text.encode(errors="replace")
        return tuple(numbers[: max(self._model.cpus(name, numbers, _MOST_CPUS), 0)])


class ProgramCode:
    """One program of a model: its tensors and layers; a model has one for each input shape."""

    def __init__(self, description: Description) -> None:
        self._description = description
        self.layers = int(description.layer_count)
        self.inputs = _tensors(description.inputs, description.input_count)
        outputs = _tensors(description.outputs, description.output_count)
        if description.size > Description.varying_axes.offset and description.varying_axes:
            axes = description.varying_axes[: len(outputs)]
            pairs = zip(outputs, axes, strict=True)
            outputs = tuple(replace(t, varying=None if a < 0 else a) for t, a in pairs)
        if description.size > Description.batched.offset and description.batched:
            flags = description.batched[: len(self.inputs)]
            pairs = zip(self.inputs, flags, strict=True)
            self.inputs = tuple(replace(t, batched=bool(flag)) for t, flag in pairs)
            outputs = tuple(replace(t, batched=True) for t in outputs)
        self.outputs = outputs
        extents = [(c_int64 * max(len(i.shape), 1))(*i.shape) for i in self.inputs]
        # the argument of set_shapes; it needs the extents
        self.shapes = pointers([ctypes.addressof(each) for each in extents])
        self._extents = extents

    def layer(self, index: int) -> dict[str, Any]:
        """One kernel call: name, operation, algorithm, workload, kernel, flops, bytes."""
        layer = self._description.layers[index]
        values = {field[0]: getattr(layer, field[0]) for field in LayerRecord._fields_}
        return {k: _text(v) if isinstance(v, bytes | None) else int(v) for k, v in values.items()}


class State:
    """Activation memory and threads of one call at a time.

    ``weights`` is the array of external weights, which lives as long as this object. Errors have
    the model's own message.
    """

    def __init__(
        self, code: Code, threads: int, weights: Any = None, gpu: GpuOptions | None = None
    ) -> None:
        self._code = code
        self._weights = weights
        model = code._model
        self._run, self._profile, self._message = model.run, model.profile, model.message
        options = Options(size=ctypes.sizeof(Options), threads=threads, target=code.asked)
        if gpu is not None:
            options.gpu = gpu.device
            options.cuda_graph = {None: 0, True: 1, False: -1}[gpu.cuda_graph]
        if weights is not None:
            options.weights, options.weight_bytes = weights.ctypes.data, weights.nbytes
        handle = c_void_p()
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        if model.create(byref(options), byref(handle), message, _MESSAGE_BYTES):
            raise ArtifactError(f"model {code.name!r}: {_text(message.value)}")
        self._handle = handle
        first = code.programs[0]
        self._input_pointers = pointers([0] * len(first.inputs))
        self._output_pointers = pointers([0] * len(first.outputs))
        # ctypes converts numbers faster than its own objects
        self._arguments = (
            handle.value,
            ctypes.addressof(self._input_pointers),
            ctypes.addressof(self._output_pointers),
        )
        self._images = 1
        self._fixed = [None] * len(first.outputs)
        outputs = (info for program in code.programs for info in program.outputs)
        self._shape = (c_int64 * max((len(info.shape) for info in outputs), default=0))()
        self._shape_at = ctypes.addressof(self._shape)
        self._use(first)
        # the code must outlive the state, whichever is collected first
        weakref.finalize(self, _destroy, model.destroy, handle, code).atexit = False

    def _use(self, program: ProgramCode) -> None:
        """Describe the program that calls run."""
        self.program = program
        axes = [info.varying for info in program.outputs]
        self._varying = [(output, axis) for output, axis in enumerate(axes) if axis is not None]
        # older models lack the function, and have no such outputs
        self._shape_of: Any = self._code._model.shape if self._varying else None

    def select(self, program: ProgramCode) -> None:
        """Run this program from now on."""
        if status := self._code._model.set_shapes(self._handle, program.shapes):
            self._fail(status)
        self._use(program)

    def bind(self, inputs: Sequence[int], outputs: Sequence[int], images: int = 1) -> None:
        """Set the addresses of the tensors of further calls; keep the tensors alive.

        ``images`` is the number of images in tensors that hold a batch.
        """
        self._input_pointers[:] = inputs
        self._output_pointers[:] = outputs
        self._images = images

    def run(self) -> None:
        """One call."""
        if self._images != 1:
            handle, *tensors = self._arguments
            status = self._code._model.run_batch(handle, self._images, *tensors)
        else:
            status = self._run(*self._arguments)
        if status:
            self._fail(status)

    def extents(self) -> Sequence[int | None]:
        """The size of the varying axis of each output after a call, or None."""
        if not self._varying:
            return self._fixed
        found: list[int | None] = list(self._fixed)
        handle = self._arguments[0]
        for output, axis in self._varying:
            self._shape_of(handle, output, self._shape_at)
            found[output] = self._shape[axis]
        return found

    def enqueue(self, stream: int) -> None:
        """One call, queued to a stream; all tensors are in the GPU's memory."""
        handle, *tensors = self._arguments
        if status := self._code._model.enqueue(handle, stream, *tensors):
            self._fail(status)

    def profile(self) -> list[int]:
        """One call; the nanoseconds that each layer took."""
        about = self._code.described(self._handle)
        layers = self.program.layers if about is None else about.layer_count
        times = (c_int64 * max(layers, 1))()
        if status := self._profile(*self._arguments, times):
            self._fail(status)
        return list(times[:layers])

    def _fail(self, status: int) -> None:
        kind = DataError if status == _DATA else ArtifactError
        raise kind(f"model {self._code.name!r}: {_text(self._message(self._handle))}")


def pointers(addresses: Sequence[int]) -> Any:
    """An array of pointers, as the C interface reads tensors."""
    return (c_void_p * len(addresses))(*addresses)


def _destroy(destroy: Any, handle: c_void_p, _code: Code) -> None:
    destroy(handle)


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")


def _tensors(table: Any, count: int) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo(_text(t.name), tuple(t.shape[: t.rank]), DTYPES[t.dtype])
        for t in (table[i] for i in range(count))
    )
