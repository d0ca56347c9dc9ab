"""Files that are complete or absent, never partial."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from tvmconv.errors import ArtifactError


def check_destination(path: Path, suffix: str) -> None:
    """Refuse a destination before work is spent on it.

    Raises
    ------
    ArtifactError
        If the name has another suffix, or the folder is missing or not writable.
    """
    if path.suffix != suffix:
        raise ArtifactError(f"{path}: the file name must end in {suffix}")
    folder = path.parent
    if not folder.is_dir():
        raise ArtifactError(f"{path}: the folder {folder} does not exist; create it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ArtifactError(f"{path}: the folder {folder} is not writable")
    if path.is_dir():
        raise ArtifactError(f"{path} is a folder")


@contextlib.contextmanager
def replacing(*paths: Path) -> Iterator[list[Path]]:
    """Temporary files beside ``paths`` that take their names together when the block succeeds.

    Each is flushed to disk before the first takes its name. The renames follow the given
    order; a reader that finds them half done must compare the files (the manifest holds the
    library's hash).
    """
    token = secrets.token_hex(6)
    temporary = [path.with_name(f".{path.name}.{token}") for path in paths]
    try:
        yield temporary
        for file in temporary:
            _flush(file)
        for file, path in zip(temporary, paths, strict=True):
            file.replace(path)
        for folder in {path.parent for path in paths}:
            _flush(folder)
    except OSError as error:
        raise ArtifactError(f"cannot write {paths[0]}: {error.strerror or error}") from error
    finally:
        for file in temporary:
            file.unlink(missing_ok=True)


def create(path: Path, mode: int, write: Callable[[int], None]) -> None:
    """Create a new file, permissions limited by the user's mask, and fill it."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
    try:
        write(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes to an open file."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
