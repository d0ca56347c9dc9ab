"""oneDNN's engine through its C API: memories, layouts, and the run of a primitive.

The PyPI package is a SYCL build whose CPU engine needs the OpenCL CPU runtime. That runtime is
installed with it, so its libraries are loaded by path, dependencies first.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .case import Array, Session

# oneapi/dnnl/dnnl_types.h, oneDNN 3
_CPU, _F32, _ANY, _IN_ORDER = 1, 3, 1, 1
_SRC, _DST, _WEIGHTS, _BIAS = 1, 17, 33, 41
_QUERY_IMPL = 8
_ALLOCATE = ctypes.c_void_p(-1)
_DEPENDENCIES = (
    "libintlc.so.5",
    "libimf.so",
    "libsvml.so",
    "libirc.so",
    "libtbb.so.12",
    "libhwloc.so.15",
    "libumf.so",
    "libur_loader.so",
    "libsycl.so",
)
Dims = ctypes.c_int64 * 12


class _Argument(ctypes.Structure):
    _fields_ = (("index", ctypes.c_int), ("memory", ctypes.c_void_p))


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    folder = Path(sys.prefix) / "lib"
    if not (folder / "libdnnl.so").exists():
        raise ImportError(f"{folder} holds no libdnnl.so; install onednn")
    runtime = sorted(folder.glob("libintelocl.so.2*"))
    if runtime:
        os.environ.setdefault("OCL_ICD_FILENAMES", str(runtime[0]))
    for name in _DEPENDENCIES:
        found = sorted(folder.glob(f"{name}*"))
        if found:
            ctypes.CDLL(str(found[0]), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(folder / "libdnnl.so"))


def version() -> str:
    """Version of the library itself."""

    class Version(ctypes.Structure):
        _fields_ = (("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int))

    function = _library().dnnl_version
    function.restype = ctypes.POINTER(Version)
    found = function().contents
    return f"{found.major}.{found.minor}.{found.patch}"


class Engine:
    """The CPU engine and stream, and the few calls that a convolution needs."""

    # arguments of a primitive
    SRC, WEIGHTS, BIAS = _SRC, _WEIGHTS, _BIAS

    def __init__(self) -> None:
        self.library = _library()
        self.handle = self.create("dnnl_engine_create", _CPU, ctypes.c_size_t(0))
        self.stream = self.create("dnnl_stream_create", self.handle, _IN_ORDER)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function and check its status."""
        status = getattr(self.library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} returned {status}")

    def create(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """Call a function whose first argument receives a new object."""
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle

    def query(self, descriptor: ctypes.c_void_p, what: int) -> ctypes.c_void_p:
        """A memory descriptor that a primitive descriptor holds."""
        function = self.library.dnnl_primitive_desc_query_md
        function.restype = ctypes.c_void_p
        return ctypes.c_void_p(function(descriptor, what, 0))

    def any_layout(self, shape: tuple[int, ...]) -> ctypes.c_void_p:
        """A float32 tensor whose layout the library chooses."""
        return self.create("dnnl_memory_desc_create_with_tag", len(shape), Dims(*shape), _F32, _ANY)

    def plain(self, shape: tuple[int, ...]) -> ctypes.c_void_p:
        """A dense float32 tensor in row-major order."""
        strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
        name = "dnnl_memory_desc_create_with_strides"
        return self.create(name, len(shape), Dims(*shape), _F32, Dims(*strides))

    def memory(self, descriptor: Any, data: ctypes.c_void_p = _ALLOCATE) -> ctypes.c_void_p:
        """Memory of a layout; the library's own unless ``data`` points to some."""
        return self.create("dnnl_memory_create", descriptor, self.handle, data)

    def packed(self, array: Array, descriptor: Any) -> ctypes.c_void_p:
        """An array in the given layout."""
        array = np.ascontiguousarray(array, "float32")
        plain = self.plain(array.shape)
        source = self.memory(plain, array.ctypes.data_as(ctypes.c_void_p))
        target = self.memory(descriptor)
        self.reorder(plain, source, descriptor, target)
        return target

    def unpacked(self, memory: ctypes.c_void_p, shape: tuple[int, ...]) -> Array:
        """A memory's values in row-major order."""
        array = np.empty(shape, "float32")
        plain = self.plain(shape)
        target = self.memory(plain, array.ctypes.data_as(ctypes.c_void_p))
        descriptor = ctypes.c_void_p()
        self.call("dnnl_memory_get_memory_desc", memory, ctypes.byref(descriptor))
        self.reorder(descriptor, memory, plain, target)
        return array

    def reorder(self, from_: Any, source: Any, to: Any, target: Any) -> None:
        """Copy between layouts and wait."""
        name = "dnnl_reorder_primitive_desc_create"
        descriptor = self.create(name, from_, self.handle, to, self.handle, None)
        primitive = self.create("dnnl_primitive_create", descriptor)
        pair = (_Argument * 2)(_Argument(_SRC, source), _Argument(_DST, target))
        self.execute(primitive, pair)

    def session(
        self,
        descriptor: ctypes.c_void_p,
        inputs: Sequence[tuple[int, ctypes.c_void_p]],
        result: ctypes.c_void_p,
        name: str,
        shape: tuple[int, ...],
    ) -> Session:
        """A session that runs a primitive.

        ``inputs`` are numbers of arguments and their memories; ``result``, ``name`` and ``shape``
        belong to the output.
        """
        primitive = self.create("dnnl_primitive_create", descriptor)
        pairs = [*inputs, (_DST, result)]
        arguments = (_Argument * len(pairs))(*(_Argument(*pair) for pair in pairs))

        def run() -> None:
            self.execute(primitive, arguments)

        def outputs() -> dict[str, Array]:
            return {name: self.unpacked(result, shape)}

        info = ctypes.c_char_p()
        self.call("dnnl_primitive_desc_query", descriptor, _QUERY_IMPL, 0, ctypes.byref(info))
        return Session(run, outputs, info=(info.value or b"").decode())

    def execute(self, primitive: ctypes.c_void_p, arguments: Any) -> None:
        """Run a primitive to its end."""
        self.library.dnnl_primitive_execute(primitive, self.stream, len(arguments), arguments)
        self.library.dnnl_stream_wait(self.stream)
