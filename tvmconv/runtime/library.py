"""Shared objects: held open, hashed, copied and loaded.

A library is held by its file descriptor, not its name. So the same content is hashed, loaded and
copied, even if the file is replaced or removed meanwhile.

In a saved model's file the manifest follows the shared object, where the dynamic linker does not
look. It is the text compressed by zlib, SHA-256 and 64-bit length of these bytes, and a mark. So
one file holds the whole model, and one renaming saves it.
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

# the C side, which the package for devices lacks
C_SOURCES = Path(__file__).parent / "c"
MAX_FILE_BYTES = 1 << 40
MAX_MANIFEST_BYTES = 1 << 28

_MARK = b"tvmconv-manifest"
_END = struct.Struct(f"<32sQ{len(_MARK)}s")

_loading = forks.Lock()
_loads = itertools.count()


class Library:
    """An immutable shared object, which owns a descriptor open for reading.

    ``manifest`` is the text that follows the shared object, perhaps empty, and ``bytes`` the size
    of the shared object alone. ``weights`` is the content of an external file of weights, or None.
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
        """Open an existing file."""
        try:
            return cls(files.open_regular(path, MAX_FILE_BYTES, ArtifactError))
        except FileNotFoundError:
            raise ArtifactError(f"{path} does not exist. Check the path.") from None
        except OSError as error:
            raise ArtifactError(f"cannot read {path}: {error.strerror}") from error

    @property
    def sha256(self) -> str:
        """Hash of the shared object alone, computed once."""
        self._sha256 = self._sha256 or self._hash()
        return self._sha256

    def difference(self, size: int, sha256: str, verify: bool) -> str:
        """How the shared object differs from the recorded one, as a clause; empty if they match.

        Without ``verify`` only the size is compared, and the file is not read.
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
        """The parts of a loaded model, to save it again with its weights in the same place."""
        if separate not in (None, self.weights is not None):
            where = "a separate file" if self.weights is not None else "part of its .so"
            raise ArtifactError(
                f"the weights of this loaded model are {where}. Expected the same place when it "
                "is saved. Build the model again to move them."
            )
        if self.weights is None:
            return Linked(self)
        return Linked(self, [self.weights], recorded_in(self.weights) or "")

    def write_to(self, descriptor: int, manifest: bytes) -> None:
        """Write the shared object, and a manifest after it, into another open file."""
        packed = zlib.compress(manifest)
        end = _END.pack(hashlib.sha256(packed).digest(), len(packed), _MARK)
        content = huge_pages.read_chunks(self._descriptor, self.bytes)
        huge_pages.write_blocks(descriptor, itertools.chain(content, (packed, end)))
        if os.fstat(descriptor).st_size != self.bytes + len(packed) + len(end):
            raise ArtifactError(
                "another program truncated the library's file while it was read. Save the model "
                "again and load it again."
            )

    def code(self) -> Code:
        """The model's code, loaded on first use."""
        with _loading:
            if self._code is None:
                self._code = self._load()
            return self._code

    def _load(self) -> Code:
        # The dynamic linker would return an older library that was loaded under the same name.
        # So each load counts with steps "/" and "./", which do not change the meaning of the path.
        steps = f"{next(_loads):b}".replace("0", "/").replace("1", "./")
        return Code(f"/proc/self/fd/{steps}{self._descriptor}")


@dataclass(frozen=True)
class Linked:
    """The parts of a model to save.

    ``weights`` is the content of an external file of weights in pieces, and ``weights_sha256`` the
    hash of its constants. Both are empty if the library holds the weights.
    """

    library: Library
    weights: Iterable[Bytes] = ()
    weights_sha256: str = ""


def embedded_manifest(descriptor: int, size: int) -> tuple[bytes, int]:
    """The manifest at the end of an open file, and its position.

    Without a manifest, or if it is damaged: empty, and the size of the file.
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
    if packed.startswith(b"{"):  # older versions did not compress
        return packed, start
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(packed, MAX_MANIFEST_BYTES)
    except zlib.error:
        return b"", size
    return (text, start) if stream.eof else (b"", size)
