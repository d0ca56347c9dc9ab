"""The cache folder: where it is, and whether its content can be trusted.

Entries are machine code. So their folder must belong to the user, and nobody else may write to it.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tvmconv.core.arguments import size_bytes

ENVIRONMENT = "TVMCONV_CACHE"
SIZE_ENVIRONMENT = "TVMCONV_CACHE_SIZE"
NEVER = "none"
DEFAULT_BYTES = 2 << 30
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

_warned: set[str] = set()


def base_folder() -> Path | None:
    """The user's cache folder of tvmconv, or the one that the variable names; None without one."""
    named = os.environ.get(ENVIRONMENT)
    if named == NEVER:
        return None
    if named:
        return Path(named)
    from platformdirs import user_cache_path

    return user_cache_path("tvmconv", appauthor=False)


def entries_folder() -> Path | None:
    """The folder of the entries; None if the user turned the cache off."""
    base = base_folder()
    return None if base is None or not limit_bytes() else base / "compiled"


def limit_bytes() -> int:
    """Maximum bytes of all entries, 0 to keep none.

    Raises :class:`ConfigError` if the variable holds no size.
    """
    text = os.environ.get(SIZE_ENVIRONMENT)
    return DEFAULT_BYTES if not text else size_bytes(text, SIZE_ENVIRONMENT)


@contextmanager
def opened(folder: Path, create: bool = False) -> Iterator[int | None]:
    """A descriptor of the folder; None if it is missing, or others may have written to it.

    Names in the folder are used relative to the descriptor, so that nobody can exchange the folder
    after the check.
    """
    descriptor = None
    try:
        if create:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                folder.mkdir(0o700)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(folder, flags)
    except OSError as error:
        if create:
            warn_once(f"cannot make the cache folder {folder}: {error.strerror or error}")
    try:
        yield descriptor if descriptor is not None and _is_own(descriptor, folder) else None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _is_own(descriptor: int, folder: Path) -> bool:
    found = os.fstat(descriptor)
    if found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE:
        return True
    warn_once(
        f"the cache folder {folder} is not used: it belongs to another user, or others may write "
        "to it. Expected your own folder with mode 700"
    )
    return False


def warn_once(text: str) -> None:
    """Report a problem of the cache; only the first one, as builds go on without it."""
    if _warned:
        return
    _warned.add(text)
    remedy = f"Set {ENVIRONMENT} to another folder, or to {NEVER}."
    warnings.warn(f"{text}. {remedy}", UserWarning, stacklevel=2)
