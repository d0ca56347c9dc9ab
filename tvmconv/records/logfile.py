"""Tuning log files: tolerant reading, atomic appending, several writers at a time."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from tvmconv.core import files
from tvmconv.core.errors import TvmconvError
from tvmconv.records.fields import RecordError
from tvmconv.records.record import MAX_LINE_BYTES, Record

MAX_FILE_BYTES = 256 * 1024 * 1024
# builds read no log of this name
NEVER = "none"
LOGGER = logging.getLogger("tvmconv.tuning")
# skipped lines that are reported one by one
MOST_SHOWN = 20
_MAX_LINES = 4_000_000
_LOCK_SECONDS = 60.0


@dataclass(frozen=True)
class Skipped:
    """A line that was not read, and why."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: skipped: {self.reason}"


@dataclass(frozen=True)
class Log:
    """The records of a file in order, and the lines that could not be read."""

    records: tuple[Record, ...]
    skipped: tuple[Skipped, ...] = ()


def read_log(path: Path, *, warn: bool = True) -> Log:
    """Read a log, and skip lines that hold no valid record.

    With ``warn``, the logger ``tvmconv.tuning`` warns about skipped lines. Raises ``TvmconvError``
    if the file cannot be opened, is larger than any log or has more lines.
    """
    records: list[Record] = []
    skipped: list[Skipped] = []
    for number, line in read_lines(path):
        try:
            records.append(_record(line))
        except RecordError as error:
            skipped.append(Skipped(path, number, str(error)))
    if warn:
        for entry in skipped[:MOST_SHOWN]:
            LOGGER.warning("%s", entry)
        if len(skipped) > MOST_SHOWN:
            LOGGER.warning("%s: %d more lines skipped", path, len(skipped) - MOST_SHOWN)
    return Log(tuple(records), tuple(skipped))


def _record(line: bytes) -> Record:
    if len(line) > MAX_LINE_BYTES:
        raise RecordError(f"longer than {MAX_LINE_BYTES} bytes")
    return Record.from_line(line)


def check_log(path: Path) -> None:
    """Raise :class:`TvmconvError` for a file with lines, but without a record.

    An empty file is a log. Files that cannot be opened, or are too large, are refused as well.
    """
    reason = ""
    for number, line in read_lines(path):
        try:
            _record(line)
            return
        except RecordError as error:
            reason = reason or f"line {number}: {error}"
    if reason:
        raise TvmconvError(f"no line of {path} is a tuning record ({reason}). Name another file.")


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that are not empty; overlong lines are cut.

    Raises ``TvmconvError`` if the file cannot be opened or is larger than any log.
    """
    try:
        with os.fdopen(files.open_regular(path, MAX_FILE_BYTES, TvmconvError), "rb") as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES + 2):
                number += 1
                if number > _MAX_LINES:
                    raise TvmconvError(f"{path} has more than {_MAX_LINES} lines; split it")
                rest = line
                while rest and not rest.endswith(b"\n"):
                    rest = file.readline(MAX_LINE_BYTES)
                if line.strip():
                    yield number, line
    except OSError as error:
        raise TvmconvError(f"cannot read the tuning log {path}: {error.strerror}") from None


def check_destination(path: Path) -> None:
    """Raise :class:`TvmconvError` for a log that cannot be written, before work is spent.

    An existing file must hold records. Missing folders are made later.
    """
    if str(path) == NEVER:
        raise TvmconvError(f"the tuning log {NEVER!r} means no log to builds. Name another file.")
    if os.path.lexists(path):
        if not path.is_file():
            raise TvmconvError(f"{path} is not a regular file. Name another tuning log.")
        if not os.access(path, os.W_OK):
            raise TvmconvError(f"the tuning log {path} is not writable. Name another one.")
        check_log(path)
    folder = next(parent for parent in path.absolute().parents if os.path.lexists(parent))
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise TvmconvError(
            f"cannot write the tuning log {path}: {folder} is not a writable folder. Name another "
            "file."
        )


def append(path: Path, lines: Iterable[str]) -> None:
    """Add lines to a file that others may be writing: whole lines or nothing.

    Without lines, the file exists afterwards, so that later commands can name it.
    If the file ends in an unfinished line, that line is ended first. Then only that line is lost.
    Raises ``TvmconvError`` if the file cannot be written.
    """
    data = "".join(line + "\n" for line in lines).encode()
    with locked(path), _reported(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data
            files.write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def rewrite(path: Path, lines: Iterable[str]) -> None:
    """Replace a file's content; readers find the old or the new one, never a part.

    The caller holds :func:`locked` if the new content depends on the old. Raises ``TvmconvError``
    if the file cannot be written.
    """
    files.remove_abandoned(path)
    with _reported(path), files.replacing({path: 0o666}) as (descriptor,):
        files.write_all(descriptor, "".join(line + "\n" for line in lines).encode())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a log; released by the system if the process dies.

    Raises ``TvmconvError`` if another process holds the lock for a minute, or the folder cannot be
    written.
    """
    from filelock import FileLock, Timeout

    with _reported(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        place = path.with_name(f".{path.name}.lock")
        if not place.exists():
            # filelock retries for the whole timeout in folders that hold no new files, as /proc
            TemporaryFile(dir=path.parent).close()
        lock = FileLock(place, is_singleton=True)
        try:
            lock.acquire(timeout=_LOCK_SECONDS)
        except Timeout:
            raise TvmconvError(
                f"another process has held the lock of {path} for a minute. End that process, or "
                "wait for it."
            ) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TvmconvError(
            f"cannot write the tuning log {path}: {error.strerror}. Name another file."
        ) from None
