"""Weights in a separate file: a header, then the constants; mapped, never copied.

The header is ``tvmconv_weights_header`` of ``c/program.h``. ``c/weights.c`` makes the same checks,
except the hash.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..core import files
from ..core.errors import ArtifactError

Bytes = npt.NDArray[np.uint8]

# magic, bytes of the constants, their SHA-256, reserved; as long as their alignment
_HEADER = struct.Struct("=8sQ32s16x")
_MAGIC = b"tvmconv\1"
_MAX_BYTES = 1 << 40
_CHUNK = 1 << 20


def weights_path(library: Path) -> Path:
    """The file of the weights of ``model.so``: ``model.weights`` in the same folder."""
    return library.with_suffix(".weights")


def pack_header(size: int, sha256: bytes) -> bytes:
    """The header before ``size`` bytes of constants."""
    return _HEADER.pack(_MAGIC, size, sha256)


def hash_of(pieces: Iterable[Bytes]) -> bytes:
    """SHA-256 of constants, which identifies a file of weights."""
    found = hashlib.sha256()
    for piece in pieces:
        for start in range(0, piece.size, _CHUNK):
            found.update(piece[start : start + _CHUNK].data)
    return found.digest()


def recorded(path: Path) -> str | None:
    """The hash in a file's header; None if the file does not hold weights."""
    try:
        descriptor = files.open_regular(path, _MAX_BYTES, ArtifactError)
    except (OSError, ArtifactError):
        return None
    try:
        return recorded_in(os.pread(descriptor, _HEADER.size, 0))
    finally:
        os.close(descriptor)


def recorded_in(content: Bytes | bytes) -> str | None:
    """The hash in the header at the start of a content; None without a header."""
    if len(content) < _HEADER.size:
        return None
    magic, _, sha256 = _HEADER.unpack(bytes(content[: _HEADER.size]))
    return sha256.hex() if magic == _MAGIC else None


def map_weights(library: Path, sha256: str, size: int, verify: bool = True) -> Bytes:
    """The content of a shared object's file of weights, read-only and shared between processes.

    ``sha256`` and ``size`` describe the constants, which ``verify`` hashes.

    Raises
    ------
    ArtifactError
        If the file is missing, belongs to another model, or is damaged.
    """
    path = weights_path(library)
    # a save that is running, or was killed, has replaced the shared object first
    places = (path, *files.pending(path))
    file = next((place for place in places if recorded(place) == sha256), path)
    try:
        descriptor = files.open_regular(file, _MAX_BYTES, ArtifactError)
    except FileNotFoundError:
        raise ArtifactError(
            f"{path} is missing: the weights of {library} are a separate file. Copy it "
            "together with the .so."
        ) from None
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb"):
        found = recorded_in(os.pread(descriptor, _HEADER.size, 0))
        if found is None:
            raise ArtifactError(f"{path} is not a file of weights. Copy it again.")
        if found != sha256:
            raise ArtifactError(
                f"{path} belongs to another model than {library}, or to another build of it. "
                "Save the model again, or copy all of its files together."
            )
        count, expected = os.fstat(descriptor).st_size, _HEADER.size + size
        if count != expected:
            raise ArtifactError(
                f"{path} has {count} bytes, expected {expected}: it was damaged or cut short. "
                "Copy it again."
            )
        mapping = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    # for a file that is cached in huge pages; without them the system refuses the advice
    with contextlib.suppress(OSError, AttributeError):
        mapping.madvise(mmap.MADV_HUGEPAGE)
    content = np.frombuffer(mapping, np.uint8)
    if verify and hash_of([content[_HEADER.size :]]).hex() != sha256:
        raise ArtifactError(f"{path} is damaged: its constants have another hash. Copy it again.")
    return content
