"""Bytecode and constants of a virtual machine's executable, as the bytes a library embeds."""

from __future__ import annotations

import contextlib
import os
import re
import struct
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.runtime import engine

Bytes = npt.NDArray[np.uint8]

_KIND = b"relax.VMExecutable"
# magic of bytecode format 2, the one with a section of memory scopes
_MAGIC = 0xD225DE2F4214151E
_NOISE = re.compile(rb"^.*Warning: Scope Saving:.*\n", re.MULTILINE)


def pack_executable(module: Any) -> tuple[Bytes, ...]:
    """Serialise an executable; the pieces follow each other in the library.

    A virtual machine that was created from it has entered an empty memory scope for every
    constant. TVM would write these, and print a warning for each, now and at every load; they
    say nothing and are left out.
    """
    from tvm import get_global_func

    with _without_noise():
        packed = get_global_func("runtime.ModulePackImportsToTensor")(module)
    return without_memory_scopes(engine.as_array(packed))


def without_memory_scopes(blob: Bytes) -> tuple[Bytes, ...]:
    """The same library content with an empty section of memory scopes, without copying it.

    Content of an unknown form, or with scopes that are not empty, is returned unchanged.
    """
    head = blob[: 1 << 24].tobytes()
    try:
        length_at, start = _value_of(head, _KIND)
        section = _after_functions(head, start)
        count, position = _read(head, section)
        for _ in range(count):
            scope_length, position = _read(head, position + 8)
            if scope_length:
                return (blob,)
    except (ValueError, struct.error):
        return (blob,)
    removed = position - section - 8
    front = bytearray(head[:section] + bytes(8))
    for offset in (0, length_at):  # lengths of the whole, and of the executable's part
        struct.pack_into("<Q", front, offset, _read(head, offset)[0] - removed)
    return np.frombuffer(front, np.uint8), blob[position:]


def _read(data: bytes, offset: int) -> tuple[int, int]:
    """A 64-bit number and the offset behind it."""
    return struct.unpack_from("<Q", data, offset)[0], offset + 8


def _value_of(data: bytes, key: bytes) -> tuple[int, int]:
    """Offsets of the length and of the first byte of a module's part."""
    name = struct.pack("<Q", len(key)) + key
    length_at = data.index(name) + len(name)
    return length_at, length_at + 8


def _after_functions(data: bytes, offset: int) -> int:
    """Offset behind the header and the function table of an executable."""
    magic, offset = _read(data, offset)
    if magic != _MAGIC:
        raise ValueError("another bytecode format")
    length, offset = _read(data, offset)  # the version
    count, offset = _read(data, offset + length)
    for _ in range(count):
        length, offset = _read(data, offset + 4)  # after the kind: the name
        parameters, offset = _read(data, offset + length + 4 * 8)
        for _ in range(parameters):
            length, offset = _read(data, offset)
            offset += length
    return offset


@contextlib.contextmanager
def _without_noise() -> Iterator[None]:
    """Hold back what C++ code prints to standard error, and pass on all but the warnings."""
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            held.seek(0)
            if text := _NOISE.sub(b"", held.read()):
                os.write(2, text)
