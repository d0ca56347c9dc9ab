"""The constants of a program as one piece of memory or file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from tvmconv.program.program import ALIGNMENT, Constant, Program
from tvmconv.runtime.weights import Bytes, hash_of, pack_header

# the hash of constants in the memory of the process that built their model
IN_MEMORY = bytes(32)


def pieces(constants: Iterable[Constant]) -> Iterator[Bytes]:
    """Constants and the zeros between them, in order."""
    end = 0
    for constant in constants:
        if constant.offset > end:
            yield np.zeros(constant.offset - end, np.uint8)
        data = _flat(constant)
        yield data
        end = constant.offset + data.nbytes


def digest(program: Program) -> bytes:
    """SHA-256 of the constants, which identifies a file of weights."""
    return hash_of(pieces(program.constants))


def content(program: Program, sha256: bytes) -> Iterator[Bytes]:
    """A file of weights in pieces: its header, then the constants."""
    yield np.frombuffer(pack_header(program.constant_bytes, sha256), np.uint8)
    yield from pieces(program.constants)


def gathered(program: Program) -> tuple[Program, Bytes]:
    """The program with constants as views of one block: a file of weights of :data:`IN_MEMORY`."""
    header = pack_header(program.constant_bytes, IN_MEMORY)
    start = len(header)
    # zeros, because the bytes between constants are saved, too
    memory = np.zeros(start + program.constant_bytes + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    block = memory[first : first + start + program.constant_bytes]
    block[:start] = np.frombuffer(header, np.uint8)
    views = []
    for constant in program.constants:
        piece = _flat(constant)
        place = block[start + constant.offset :][: piece.nbytes]
        place[...] = piece
        views.append(Constant(constant.offset, place.view(constant.data.dtype)))
    return replace(program, constants=tuple(views)), block


def _flat(constant: Constant) -> Bytes:
    return np.ascontiguousarray(constant.data).reshape(-1).view(np.uint8)
