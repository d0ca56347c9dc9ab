"""Entries of the cache: files with a checksum, written complete or not at all.

The name of an entry is its kind and the hash of everything that its content depends on, so an
entry never changes. A damaged entry counts as missing and is removed. No fault of the folder ends a
build.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvmconv.cache.folder import entries_folder, limit_bytes, opened, warn_once
from tvmconv.core.huge_pages import write_blocks

Bytes = npt.NDArray[np.uint8]
Piece = bytes | memoryview

KERNEL, LIBRARY, MODEL = "kernel", "library", "model"
# start of a content in memory, as constants require it: the length of the head
ALIGNMENT = 64
_MAGIC = b"tvmconv-cache-1\n".ljust(32, b"\0")
_HEAD_BYTES = len(_MAGIC) + 32
_NAME = re.compile(r"([a-z]+)-[0-9a-f]{64}")
_NEW = ".new-"
# files of writers that were killed
_ABANDONED_SECONDS = 3600
# entries are removed down to this share of the limit, so that not every write looks for the oldest
_KEPT_SHARE = 0.9
# an entry larger than this share would drive out nearly all others
_LARGEST_SHARE = 0.5
# bytes that one process writes between two looks at the folder
_LOOK_BYTES = 64 << 20

_written: dict[str, int] = {}


@dataclass(frozen=True)
class Entry:
    """A file of the cache: its name and kind, its size, and when it was last used."""

    name: str
    kind: str
    bytes: int
    used: float


def load(kind: str, key: str) -> Bytes | None:
    """The content of an entry, mapped and checked; None if there is none.

    It is aligned like constants. Entries are replaced and removed, never changed in place.
    """
    folder = entries_folder()
    if folder is None:
        return None
    name = f"{kind}-{key}"
    with opened(folder) as place:
        if place is None:
            return None
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
        except OSError:
            return None
        try:
            content = _checked(descriptor)
            with suppress(OSError):
                if content is None:
                    os.unlink(name, dir_fd=place)
                else:
                    os.utime(descriptor)
            return content
        finally:
            os.close(descriptor)


def _checked(descriptor: int) -> Bytes | None:
    """The content of an open entry, mapped; None if it is damaged."""
    try:
        if os.fstat(descriptor).st_size < _HEAD_BYTES:
            return None
        mapping = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    # the system may refuse the advice
    with suppress(OSError, AttributeError):
        mapping.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(mapping, np.uint8)
    head, content = whole[:_HEAD_BYTES].tobytes(), whole[_HEAD_BYTES:]
    return content if head == _MAGIC + _hash([content.data]) else None


def _hash(pieces: Iterable[Piece]) -> bytes:
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.digest()


def store(kind: str, key: str, pieces: Sequence[Piece]) -> None:
    """Write an entry. A failure warns once and is otherwise ignored."""
    folder = entries_folder()
    if folder is None:
        return
    size, limit = _HEAD_BYTES + sum(map(len, pieces)), limit_bytes()
    if size > limit * _LARGEST_SHARE:
        return
    with opened(folder, create=True) as place:
        if place is None:
            return
        fresh = f"{_NEW}{os.getpid()}-{os.urandom(8).hex()}"
        try:
            _write(fresh, place, [_MAGIC + _hash(pieces), *pieces])
            os.replace(fresh, f"{kind}-{key}", src_dir_fd=place, dst_dir_fd=place)
            _bound(place, str(folder), size, limit)
        except OSError as error:
            with suppress(OSError):
                os.unlink(fresh, dir_fd=place)
            warn_once(f"cannot write to the cache folder {folder}: {error.strerror or error}")


def _write(name: str, place: int, pieces: Sequence[Piece]) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=place)
    try:
        write_blocks(descriptor, pieces)
    finally:
        os.close(descriptor)


def _bound(place: int, folder: str, size: int, limit: int) -> None:
    """Remove the oldest entries, if this process may have filled the folder."""
    _written[folder] = _written.get(folder, _LOOK_BYTES) + size
    if _written[folder] < min(_LOOK_BYTES, limit // 10):
        return
    _written[folder] = 0
    found = _listed(place)
    if sum(entry.bytes for entry in found) > limit:
        _prune(place, found, int(limit * _KEPT_SHARE))


def entries() -> list[Entry]:
    """All entries, the last used first."""
    folder = entries_folder()
    if folder is None:
        return []
    with opened(folder) as place:
        return [] if place is None else _listed(place)


def _listed(place: int) -> list[Entry]:
    found = []
    for name in os.listdir(place):
        match = _NAME.fullmatch(name)
        with suppress(OSError):
            status = os.stat(name, dir_fd=place, follow_symlinks=False)
            if match:
                found.append(Entry(name, match[1], status.st_size, status.st_mtime))
            elif name.startswith(_NEW) and status.st_mtime < time.time() - _ABANDONED_SECONDS:
                os.unlink(name, dir_fd=place)
    return sorted(found, key=lambda entry: -entry.used)


def prune(limit: int) -> list[Entry]:
    """Remove the entries that were not used for the longest time, until the rest fits the limit."""
    folder = entries_folder()
    if folder is None:
        return []
    with opened(folder) as place:
        return [] if place is None else _prune(place, _listed(place), limit)


def _prune(place: int, found: Iterable[Entry], limit: int) -> list[Entry]:
    """Remove what does not fit the limit, of entries in the order of their last use."""
    removed, total = [], 0
    for entry in found:
        if total + entry.bytes <= limit:
            total += entry.bytes
            continue
        with suppress(OSError):
            os.unlink(entry.name, dir_fd=place)
            removed.append(entry)
    return removed
