"""Shared objects: held open, hashed, copied and loaded.

A library is held by its file descriptor, not its name: what was hashed is what is loaded
and copied, also when the file is replaced or removed meanwhile.

A saved model's file goes on behind the shared object: the manifest's text, compressed by zlib,
the SHA-256 and the length as 64 bits of that, and a mark. The dynamic linker does not look there.
So one file holds the whole model, and giving it its name is all of saving that others can see.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import struct
import weakref
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..core import files, huge_pages
from ..core.errors import ArtifactError
from . import forks
from .binding import Code
from .weights import Bytes, recorded_in

# of the C side; without it in the package for devices
C_SOURCES = Path(__file__).parent / "c"
MAX_FILE_BYTES = 1 << 40
MAX_MANIFEST_BYTES = 1 << 28

_MARK = b"tvmconv-manifest"
_END = struct.Struct(f"<32sQ{len(_MARK)}s")

_loading = forks.Lock()
_loads = itertools.count()


class Library:
    """An immutable shared object.

    Parameters
    ----------
    descriptor
        Open for reading; owned by this object from now on.

    Attributes
    ----------
    manifest
        The manifest that follows the shared object; empty where none does.
    bytes
        Size of the shared object alone.
    weights
        The content of the file of weights beside it; None where they are part of it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)
        size = os.fstat(descriptor).st_size
        self.manifest, self.bytes = embedded_manifest(descriptor, size)
        self.weights: Bytes | None = None
        self._sha256 = ""
        self._code: Code | None = None

    @classmethod
    def open(cls, path: Path) -> Library:
        """Open an existing file.

        Raises
        ------
        ArtifactError
            If it is missing or cannot be read.
        """
        try:
            return cls(files.open_regular(path, MAX_FILE_BYTES, ArtifactError))
        except FileNotFoundError:
            raise ArtifactError(f"{path} does not exist") from None
        except OSError as error:
            raise ArtifactError(f"cannot read {path}: {error.strerror}") from error

    @property
    def sha256(self) -> str:
        """Hash of the shared object alone; computed once."""
        self._sha256 = self._sha256 or self._hash()
        return self._sha256

    def difference(self, size: int, sha256: str, verify: bool) -> str:
        """How the shared object differs from a record of it, as a clause; empty if it does not.

        Without ``verify`` the size alone is compared, and nothing of the file is read.
        """
        if self.bytes != size:
            return f"{self.bytes} bytes, expected {size} bytes"
        if verify and self.sha256 != sha256:
            return f"sha256 {self.sha256[:12]}..., expected {sha256[:12]}..."
        return ""

    def _hash(self) -> str:
        digest = hashlib.sha256()
        for chunk in huge_pages.read_chunks(self._descriptor, self.bytes):
            digest.update(chunk)
        return digest.hexdigest()

    def linked(self, separate: bool | None = None) -> Linked:
        """What is saved of a model that was loaded: what it was loaded from.

        Raises
        ------
        ArtifactError
            If its weights are not where ``separate`` wants them.
        """
        if separate not in (None, self.weights is not None):
            where = "a file of their own" if self.weights is not None else "part of its .so"
            raise ArtifactError(
                f"the weights of this model are {where}, which saving a loaded model cannot "
                "change; build the model again"
            )
        if self.weights is None:
            return Linked(self)
        return Linked(self, [self.weights], recorded_in(self.weights) or "")

    def write_to(self, descriptor: int, manifest: bytes) -> None:
        """Write the shared object and a manifest behind it into another open file."""
        packed = zlib.compress(manifest)
        end = _END.pack(hashlib.sha256(packed).digest(), len(packed), _MARK)
        content = huge_pages.read_chunks(self._descriptor, self.bytes)
        huge_pages.write_blocks(descriptor, itertools.chain(content, (packed, end)))
        if os.fstat(descriptor).st_size != self.bytes + len(packed) + len(end):
            raise ArtifactError(
                "another program truncated the library's file while it was read; save the model "
                "again and load it again"
            )

    def code(self) -> Code:
        """The model's code; loaded on first use."""
        with _loading:
            if self._code is None:
                self._code = self._load()
            return self._code

    def _load(self) -> Code:
        # The dynamic linker recognises libraries by name before it looks at the file, and would
        # return an older one that was loaded from the same path: the name must be new. This one
        # counts with steps that lead nowhere, and needs no folder to write to.
        steps = f"{next(_loads):b}".replace("0", "/").replace("1", "./")
        return Code(f"/proc/self/fd/{steps}{self._descriptor}")


@dataclass(frozen=True)
class Linked:
    """What is saved of a model.

    Parameters
    ----------
    library
        The shared object.
    weights
        The content of the file of weights in pieces; empty where they are part of the library.
    weights_sha256
        Hash of the constants in it; empty where there is none.
    """

    library: Library
    weights: Iterable[Bytes] = ()
    weights_sha256: str = ""


def embedded_manifest(descriptor: int, size: int) -> tuple[bytes, int]:
    """The manifest at the end of an open file, and where it begins.

    Empty where none is, or a damaged one; then the shared object is all of the file.
    """
    if size < _END.size:
        return b"", size
    digest, length, mark = _END.unpack(os.pread(descriptor, _END.size, size - _END.size))
    start = size - _END.size - length
    if mark != _MARK or start < 0 or length > MAX_MANIFEST_BYTES:
        return b"", size
    packed = os.pread(descriptor, length, start)
    if hashlib.sha256(packed).digest() != digest:
        return b"", size
    if packed.startswith(b"{"):  # of a version that did not compress
        return packed, start
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(packed, MAX_MANIFEST_BYTES)
    except zlib.error:
        return b"", size
    return (text, start) if stream.eof else (b"", size)
