"""Weights in a file of their own: a header, then the constants; mapped, never copied.

The header is ``tvmconv_weights_header`` of ``c/program.h``; ``c/weights.c`` makes the same checks,
less the hash.
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
    """Where the weights of ``model.so`` stand: ``model.weights`` in the same folder."""
    return library.with_suffix(".weights")


def pack_header(size: int, sha256: bytes) -> bytes:
    """What stands before ``size`` bytes of constants."""
    return _HEADER.pack(_MAGIC, size, sha256)


def hash_of(pieces: Iterable[Bytes]) -> bytes:
    """SHA-256 of constants, which identifies a file of weights."""
    found = hashlib.sha256()
    for piece in pieces:
        for start in range(0, piece.size, _CHUNK):
            found.update(piece[start : start + _CHUNK].data)
    return found.digest()


def recorded(path: Path) -> str | None:
    """The hash in a file's header; None where it has none, and is no file of weights."""
    try:
        descriptor = files.open_regular(path, _MAX_BYTES, ArtifactError)
    except (OSError, ArtifactError):
        return None
    try:
        return recorded_in(os.pread(descriptor, _HEADER.size, 0))
    finally:
        os.close(descriptor)


def recorded_in(content: Bytes | bytes) -> str | None:
    """The hash in the header at the start of a content; None where it has none."""
    if len(content) < _HEADER.size:
        return None
    magic, _, sha256 = _HEADER.unpack(bytes(content[: _HEADER.size]))
    return sha256.hex() if magic == _MAGIC else None


def map_weights(library: Path, sha256: str, size: int, verify: bool = True) -> Bytes:
    """The content of the file beside a shared object, read-only and shared between processes.

    Parameters
    ----------
    library
        The shared object.
    sha256, size
        Hash and bytes of its constants.
    verify
        Whether to hash them.

    Raises
    ------
    ArtifactError
        If the file is missing, belongs to another model, or is damaged.
    """
    path = weights_path(library)
    # a save that goes on, or was killed, has switched the shared object first
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
            raise ArtifactError(f"{path} is not a file of weights; copy it again")
        if found != sha256:
            raise ArtifactError(
                f"{path} belongs to another model than {library}, or to another build of it; "
                "save the model again, or copy all of its files together"
            )
        count, expected = os.fstat(descriptor).st_size, _HEADER.size + size
        if count != expected:
            raise ArtifactError(
                f"{path} has {count} bytes, expected {expected}: it was damaged or cut short; "
                "copy it again"
            )
        mapping = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    # where the file is cached in huge pages; without them the advice is refused
    with contextlib.suppress(OSError, AttributeError):
        mapping.madvise(mmap.MADV_HUGEPAGE)
    content = np.frombuffer(mapping, np.uint8)
    if verify and hash_of([content[_HEADER.size :]]).hex() != sha256:
        raise ArtifactError(f"{path} was damaged: its constants have another hash; copy it again")
    return content
