"""Earlier counts and estimates, in the user's cache folder."""

from __future__ import annotations

import atexit
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from tvmconv.cache.folder import base_folder
from tvmconv.core.errors import ArtifactError
from tvmconv.core.files import unwritable


def cache_folder() -> Path:
    """The folder of programs and results, made on first use; ``TVMCONV_CACHE`` names another one.

    Raises :class:`ArtifactError` if it cannot be made.
    """
    folder = (base_folder() or _own_folder()) / "estimation"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_kept(folder, error) from error
    return folder


@lru_cache(maxsize=1)
def _own_folder() -> Path:
    """A folder of this process, for users who turned the cache off."""
    folder = tempfile.mkdtemp(prefix="tvmconv-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _not_kept(path: Path, error: OSError) -> ArtifactError:
    return unwritable(path, error, "Name another folder in TVMCONV_CACHE.")


def digest(*parts: str | bytes) -> str:
    """A name for content: hash of texts and bytes, in order and separated."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "little"))
        whole.update(data)
    return whole.hexdigest()[:40]


def recall(kind: str, key: str) -> Any | None:
    """JSON that :func:`remember` kept, or None; a damaged file counts as none."""
    try:
        return json.loads((cache_folder() / f"{kind}-{key}.json").read_text())
    except (OSError, ValueError):
        return None


def remember(kind: str, key: str, data: Any) -> None:
    """Store JSON under a name; raises :class:`ArtifactError` if it cannot be written."""
    with kept(cache_folder() / f"{kind}-{key}.json") as fresh:
        fresh.write_text(json.dumps(data))


@contextmanager
def kept(path: Path) -> Iterator[Path]:
    """The path where a block writes a file of the cache; others see it complete or not at all.

    Raises :class:`ArtifactError` if it cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".new-") as folder:
            fresh = Path(folder) / path.name
            yield fresh
            fresh.replace(path)
    except OSError as error:
        raise _not_kept(path, error) from error
