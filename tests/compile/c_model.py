"""A model's C interface through ctypes, as ``tvmconv.h`` declares it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int64, c_void_p
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tvmconv.runtime.binding import DTYPES as TYPES
from tvmconv.runtime.interface import Description, LayerRecord, ModelTable, Options, TensorRecord


class CModel:
    """One state of the model in a shared object."""

    def __init__(self, path: str | Path, symbol: str = "tvmconv_model", **options: Any) -> None:
        self.library = ctypes.CDLL(str(path))
        self.interface = ModelTable.in_dll(self.library, symbol)
        self.description = self.interface.description.contents
        given = Options(size=ctypes.sizeof(Options), **options)
        self.state = c_void_p()
        message = ctypes.create_string_buffer(300)
        if self.interface.create(given, self.state, message, len(message)):
            raise RuntimeError(message.value.decode())

    @classmethod
    def of(cls, library: Any, **options: Any) -> CModel:
        """The C interface of a :class:`tvmconv.runtime.library.Library`.

        The dynamic linker takes files of one name for one library: the name must be new.
        """
        with TemporaryDirectory() as folder:
            link = Path(folder) / f"{Path(folder).name}.so"
            link.symlink_to(f"/proc/self/fd/{library._descriptor}")
            return cls(link, **options)

    @property
    def inputs(self) -> list[TensorRecord]:
        return self.description.inputs[: self.description.input_count]

    @property
    def outputs(self) -> list[TensorRecord]:
        return self.description.outputs[: self.description.output_count]

    @property
    def layers(self) -> list[LayerRecord]:
        return self.description.layers[: self.description.layer_count]

    @property
    def programs(self) -> list[Description]:
        description = self.interface.description.contents
        listed = description.programs[: description.program_count]
        return [Description.from_address(address) for address in listed]

    def set_shapes(self, *shapes: Sequence[int]) -> None:
        """Call the program for these shapes of the inputs from now on."""
        if self.interface.set_shapes(
            self.state, addresses([np.array(each, np.int64) for each in shapes])
        ):
            raise RuntimeError(self.interface.message(self.state).decode())
        wanted = list(map(tuple, shapes))
        (self.description,) = [p for p in self.programs if wanted == _input_shapes(p)]

    def run(self, *inputs: np.ndarray, offset: int = 0) -> list[np.ndarray]:
        """Outputs, at addresses so many bytes after a multiple of 64."""
        results = [at_offset(np.empty(shape(t), TYPES[t.dtype]), offset) for t in self.outputs]
        if self.interface.run(self.state, addresses(inputs), addresses(results)):
            raise RuntimeError(self.interface.message(self.state).decode())
        return results

    def run_batch(self, images: int, *inputs: np.ndarray) -> list[np.ndarray]:
        """Outputs of a number of images."""
        shapes = [(images * shape(t)[0], *shape(t)[1:]) for t in self.outputs]
        pairs = zip(shapes, self.outputs, strict=True)
        results = [np.empty(sizes, TYPES[t.dtype]) for sizes, t in pairs]
        status = self.interface.run_batch(self.state, images, addresses(inputs), addresses(results))
        if status:
            raise RuntimeError(self.interface.message(self.state).decode())
        return results

    def profile(self, *inputs: np.ndarray) -> list[int]:
        """Nanoseconds of each layer."""
        results = [np.empty(shape(t), TYPES[t.dtype]) for t in self.outputs]
        times = (c_int64 * self.description.layer_count)()
        assert not self.interface.profile(
            self.state, addresses(inputs), addresses(results), times
        ), self.interface.message(self.state)
        return list(times)

    def close(self) -> None:
        self.interface.destroy(self.state)


def _input_shapes(description: Description) -> list[tuple[int, ...]]:
    return [shape(tensor) for tensor in description.inputs[: description.input_count]]


def shape(tensor: TensorRecord) -> tuple[int, ...]:
    return tuple(tensor.shape[: tensor.rank])


def addresses(arrays: Sequence[np.ndarray]) -> Any:
    return (c_void_p * max(len(arrays), 1))(*(array.ctypes.data for array in arrays))


def at_offset(array: np.ndarray, offset: int) -> np.ndarray:
    """A copy that starts so many bytes after a multiple of 64."""
    memory = np.empty(array.nbytes + 192, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
