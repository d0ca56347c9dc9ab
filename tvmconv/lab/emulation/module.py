"""Kernels of one CUDA source, compiled for the CPU."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.core.errors import ArtifactError
from tvmconv.lab.emulation.compiler import compile_cuda
from tvmconv.lab.emulation.translate import translate

Array = npt.NDArray[Any]


class EmulatedModule:
    """The kernels of one source of TVM's code generator, ready to run on numpy arrays.

    Fails as :func:`compile_cuda`.
    """

    def __init__(self, source: str) -> None:
        self.parameters = translate(source).kernels
        self._library = _loaded(source)

    @property
    def names(self) -> tuple[str, ...]:
        """Its kernels."""
        return tuple(self.parameters)

    def run(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Array | int | float],
        shared_bytes: int = 0,
    ) -> None:
        """Run a kernel in both orders of threads and blocks; the arrays then hold its results.

        ``grid`` and ``block`` are along x, y and z, 1 by default; ``shared_bytes`` are dynamic.
        Array arguments are contiguous with an alignment of 16 bytes; the kernel may touch nothing
        outside of them. Numbers are passed as 32-bit values. Raises :class:`ArtifactError` if a
        thread does something that CUDA leaves undefined (see ``c/cuda.h``). It also does if results
        depend on the order of threads or blocks: a barrier is missing, or blocks wait for each
        other.
        """
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        self.launch(name, grid, block, copies, shared_bytes, descending=True)
        self.launch(name, grid, block, arguments, shared_bytes)
        for parameter, first, second in zip(self.parameters[name], arguments, copies, strict=True):
            if isinstance(first, np.ndarray) and first.tobytes() != np.asarray(second).tobytes():
                count = int((first.view(np.uint8) != np.asarray(second).view(np.uint8)).sum())
                raise ArtifactError(
                    f"{count} bytes of {parameter} depend on the order of threads or blocks of "
                    f"{name}: a barrier is missing, or a block needs another block's result"
                )

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Array | int | float],
        shared_bytes: int = 0,
        *,
        descending: bool = False,
    ) -> None:
        """Run a kernel once, in one of the two orders; else as :meth:`run`."""
        if name not in self.parameters or len(arguments) != len(self.parameters[name]):
            raise ArtifactError(
                f"kernels are {self.parameters}; {name} was given {len(arguments)} arguments"
            )
        values = [_parameter(value) for value in arguments]
        pointers = (ctypes.c_void_p * len(values))(
            *(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values)
        )
        library, arrays = self._library, [a for a in arguments if isinstance(a, np.ndarray)]
        for array in arrays:
            library.emulation_remember(ctypes.c_void_p(array.ctypes.data), array.nbytes)
        call = library.launch_descending if descending else library.launch
        failed = call(name.encode(), _three(grid), _three(block), shared_bytes, pointers)
        for array in arrays:
            library.emulation_forget(ctypes.c_void_p(array.ctypes.data))
        if failed:
            raise ArtifactError(library.emulation_message().decode())


@cache
def _loaded(source: str) -> ctypes.CDLL:
    """The library of a source, compiled once in a process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.so"
        compile_cuda(source, path)
        library = ctypes.CDLL(str(path))
    library.emulation_message.restype = ctypes.c_char_p
    pointer = ctypes.c_void_p
    for function in (library.launch, library.launch_descending):
        function.argtypes = [ctypes.c_char_p, pointer, pointer, ctypes.c_size_t, pointer]
    library.emulation_remember.argtypes = [pointer, ctypes.c_size_t]
    library.emulation_forget.argtypes = [pointer]
    return library


def _three(extents: Sequence[int]) -> Any:
    return (ctypes.c_uint * 3)(*extents, *[1] * (3 - len(extents)))


def _parameter(value: Array | int | float) -> Any:
    """A parameter as a kernel takes it: a pointer or a number of 32 bits."""
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous or value.ctypes.data % 16:
            raise ArtifactError("a kernel's array must be contiguous and aligned to 16 bytes")
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int32(value)
