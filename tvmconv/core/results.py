"""Files and folders of results, which a user named: written complete or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .files import remove_abandoned, replacing, unwritable, write_all


def write_result(path: Path, content: bytes) -> None:
    """Write a file completely, or leave the existing one unchanged.

    Pipes, devices, and files in folders without write access are written in place. Raises
    ``ArtifactError`` if the operating system refuses, e.g. because the disk is full.
    """
    if os.access(path.parent, os.W_OK | os.X_OK) and (path.is_file() or not path.exists()):
        remove_abandoned(path)
        with replacing({path: 0o666}) as (descriptor,):
            write_all(descriptor, content)
        return
    try:
        path.write_bytes(content)
    except OSError as error:
        raise unwritable(path, error) from None


@contextmanager
def filled_folder(path: Path) -> Iterator[None]:
    """Make a folder for the block to fill; one that is new is gone again if the block fails.

    Raises ``ArtifactError`` if it cannot be made.
    """
    new = not path.exists()
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        yield
    except BaseException:
        if new:
            shutil.rmtree(path, ignore_errors=True)
        raise
