"""Shared objects: held open, hashed, copied and loaded.

A library is held by its file descriptor, not its name: what was hashed is what is loaded
and copied, also when the file is replaced or removed meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

from tvmconv.errors import ArtifactError
from tvmconv.runtime import engine

_CHUNK = 1 << 20

# One TVM module for each content: a library's own state (its context pointer) exists once for
# a process, however often the file is opened.
_loaded: weakref.WeakValueDictionary[str, _Loaded] = weakref.WeakValueDictionary()
_loading = threading.Lock()


class _Loaded:
    """A TVM module that a weak reference can watch."""

    def __init__(self, module: Any) -> None:
        self.module = module


class Library:
    """An immutable shared object.

    Parameters
    ----------
    descriptor
        Open for reading; owned by this object from now on.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)
        self.bytes = os.fstat(descriptor).st_size
        self.sha256 = self._hash()
        self._module: _Loaded | None = None

    @classmethod
    def open(cls, path: Path) -> Library:
        """Open an existing file.

        Raises
        ------
        ArtifactError
            If it is missing or cannot be read.
        """
        try:
            return cls(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            raise ArtifactError(f"{path} does not exist") from None
        except OSError as error:
            raise ArtifactError(f"cannot read {path}: {error.strerror}") from error

    def _hash(self) -> str:
        digest = hashlib.sha256()
        offset = 0
        while chunk := os.pread(self._descriptor, _CHUNK, offset):
            digest.update(chunk)
            offset += len(chunk)
        return digest.hexdigest()

    def file(self) -> Library:
        """The complete shared object: this one."""
        return self

    def write_to(self, descriptor: int) -> None:
        """Copy the whole library into another open file."""
        offset = 0
        while offset < self.bytes:
            count = os.sendfile(descriptor, self._descriptor, offset, self.bytes - offset)
            if count == 0:
                raise ArtifactError("the library's file was truncated by another program")
            offset += count

    def module(self) -> Any:
        """The TVM module; loaded on first use, shared by libraries of equal content."""
        with _loading:
            if self._module is None:
                self._module = _loaded.get(self.sha256)
            if self._module is None:
                self._module = _loaded[self.sha256] = _Loaded(self._load())
            return self._module.module

    def _load(self) -> Any:
        # The dynamic linker recognises libraries by name before it looks at the file, and would
        # return an older one that was loaded from the same path: the name must be new.
        with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
            link = Path(folder) / f"{self.sha256[:16]}.so"
            link.symlink_to(f"/proc/self/fd/{self._descriptor}")
            try:
                return engine.load_library(str(link))
            except RuntimeError as error:
                raise ArtifactError(
                    f"the shared object cannot be loaded: {error}; its folder must allow "
                    "execution (a new model is linked in TMPDIR)"
                ) from error
