"""Files that are read whole or not at all, and written complete or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from .errors import ArtifactError, TvmconvError

_LOCK_SECONDS = 60.0
_POLL_SECONDS = 0.01


def open_regular(
    path: str | os.PathLike[str],
    limit: int,
    error: type[TvmconvError],
    *,
    flags: int = 0,
    dir_fd: int | None = None,
) -> int:
    """Open a user's file for reading: a regular one, of a size that can be meant.

    A named pipe or a device would let the reader wait, or never end. Raises ``OSError`` if it
    cannot be opened. Raises ``error`` if the file is of another kind, or larger than ``limit``
    bytes. ``flags`` and ``dir_fd`` are as of ``os.open``. The caller closes the returned
    descriptor.
    """
    try:
        flags |= os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags, dir_fd=dir_fd)
    except ValueError as problem:  # a NUL in the name
        raise OSError(errno.EINVAL, str(problem)) from None
    info = os.fstat(descriptor)
    if not stat.S_ISREG(info.st_mode):
        os.close(descriptor)
        if stat.S_ISDIR(info.st_mode):
            raise error(
                f"{os.fspath(path)} is not a regular file but a folder. Name the file in it."
            )
        raise error(f"{os.fspath(path)} is not a regular file. Give the file itself or a copy.")
    if info.st_size > limit:
        os.close(descriptor)
        raise error(
            f"{os.fspath(path)} has {info.st_size} bytes, and the limit is {limit}. Name the right "
            "file."
        )
    return descriptor


def read_regular(
    path: str | os.PathLike[str], limit: int, error: type[TvmconvError] = ArtifactError
) -> bytes:
    """The content of a user's file; see :func:`open_regular`."""
    with os.fdopen(open_regular(path, limit, error), "rb") as file:
        # files of the system say a size of 0, and others may grow meanwhile
        content = file.read(limit + 1)
    if len(content) > limit:
        raise error(f"{os.fspath(path)} has more than {limit} bytes. Name the right file.")
    return content


def check_destination(path: Path, suffix: str = "", *, replaced: bool = False) -> None:
    """Refuse a destination before work is spent on it.

    Raises ``ArtifactError`` if the name has another suffix, the folder is missing or not writable,
    or ``path`` is a folder or not writable. ``suffix`` is the required ending of the name, if any.
    A file that is ``replaced`` needs access to its folder only. Otherwise the existing file is
    written.
    """
    folder = path.parent
    if suffix and path.suffix != suffix:
        example = path / f"model{suffix}" if path.is_dir() else path.with_name(path.stem + suffix)
        raise ArtifactError(f"{path}: the file name must end in {suffix}. Write {example}.")
    if not folder.is_dir():
        raise ArtifactError(f"{path}: the folder {folder} does not exist; create it first")
    if path.is_dir():
        raise ArtifactError(f"{path} is a folder; name a file in it")
    if replaced or not path.exists():
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ArtifactError(f"{path}: the folder {folder} is not writable; name another one")
    elif not os.access(path, os.W_OK):
        raise ArtifactError(f"{path} is not writable; name another file")


def unwritable(
    path: Path, error: OSError, remedy: str = "Free space, or name another folder."
) -> ArtifactError:
    """The error to raise for a file or folder that the system does not let us write."""
    return ArtifactError(f"cannot write {path}: {error.strerror or error}. {remedy}")


def check_folder(path: Path) -> None:
    """Refuse a folder to fill before work is spent on it.

    Raises ``ArtifactError`` if it is not a folder, cannot be made, or is not writable.
    """
    if path.is_dir():
        if not os.access(path, os.W_OK | os.X_OK):
            raise ArtifactError(f"{path}: the folder is not writable; name another one")
    elif os.path.lexists(path):
        raise ArtifactError(f"{path} is not a folder; name another one")
    else:
        check_destination(path)


@contextlib.contextmanager
def replacing(modes: Mapping[Path, int]) -> Iterator[list[int]]:
    """Write files under temporary names, and rename them when the block succeeds.

    Until the first file is renamed, nothing has changed; after that, all others are renamed, too.
    If the process is killed in between, complete files with temporary names remain. The function
    :func:`pending` finds them. Raises ``ArtifactError`` if the system refuses, e.g. because the
    disk is full; the old files are as they were.

    ``modes`` has the files in the order of renaming, and their permissions, which the user's mask
    limits. The block gets descriptors that are open for writing.
    """
    paths = list(modes)
    written: list[tuple[Path, int]] = []
    try:
        for path, mode in modes.items():
            written.append(_new_temporary(path, mode))
        yield [descriptor for _, descriptor in written]
        for _, descriptor in written:
            os.fsync(descriptor)
        _flush_folders(paths)
        with folder_lock(paths[0].parent):
            moves = [(file, path) for (file, _), path in zip(written, paths, strict=True)]
            try:
                _move(moves)
            finally:
                if not moves[0][0].exists():
                    _move(moves)
        _flush_folders(paths)
    except OSError as error:
        raise unwritable(paths[0], error) from error
    finally:
        unchanged = bool(written) and written[0][0].exists()
        for file, descriptor in written:
            if unchanged:
                file.unlink(missing_ok=True)
            os.close(descriptor)


def _move(moves: list[tuple[Path, Path]]) -> None:
    for file, path in moves:
        if file.exists():
            file.replace(path)


def _new_temporary(path: Path, mode: int) -> tuple[Path, int]:
    """A new file with a temporary name, locked as long as its writer lives."""
    while True:
        file = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        descriptor = os.open(file, flags, mode)
        if _lock(descriptor, unsupported=True) and os.fstat(descriptor).st_nlink:
            return file, descriptor
        # someone took it for a killed writer's before it was locked
        file.unlink(missing_ok=True)
        os.close(descriptor)


def pending(path: Path) -> list[Path]:
    """Files that writers of ``path`` have begun, living ones and killed ones."""
    name = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{12}")
    try:
        return sorted(file for file in path.parent.iterdir() if name.fullmatch(file.name))
    except OSError:
        return []


@contextlib.contextmanager
def abandoned(file: Path) -> Iterator[bool]:
    """Whether the writer of a pending file is gone; if so, nobody else tidies it up meanwhile."""
    try:
        descriptor = open_regular(file, 1 << 62, ArtifactError, flags=os.O_NOFOLLOW)
    except (OSError, ArtifactError):
        yield False
        return
    try:
        yield _lock(descriptor) and os.fstat(descriptor).st_nlink > 0
    finally:
        os.close(descriptor)


def remove_abandoned(path: Path) -> None:
    """Remove what killed writers of ``path`` left."""
    for file in pending(path):
        with abandoned(file) as gone, contextlib.suppress(OSError):
            if gone:
                file.unlink()


@contextlib.contextmanager
def folder_lock(folder: Path, seconds: float = _LOCK_SECONDS) -> Iterator[None]:
    """Exclude other processes and threads that rename files in a folder.

    Raises ``ArtifactError`` if another one holds the lock all the time.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        end = time.monotonic() + seconds
        while not _lock(descriptor, unsupported=True):
            if time.monotonic() > end:
                raise ArtifactError(
                    f"another process has held the lock of {folder} for {seconds:.0f} seconds. End "
                    "that process, or wait for it."
                )
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, unsupported: bool = False) -> bool:
    """Take a file's lock if it is free; ``unsupported`` if the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return unsupported
    return True


def write_all(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    """Write all bytes to an open file."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _flush_folders(paths: list[Path]) -> None:
    for folder in {path.parent for path in paths}:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
