"""What was counted and estimated before, in the user's cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """Where programs and results are kept; made if it does not exist.

    The variable ``TVMCONV_CACHE`` names another one than the system's for this user.
    """
    from platformdirs import user_cache_path

    named = os.environ.get("TVMCONV_CACHE")
    base = Path(named) if named else user_cache_path("tvmconv", appauthor=False)
    folder = base / "estimation"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def digest(*parts: str | bytes) -> str:
    """A name for content: hash of texts and bytes, in order and apart from each other."""
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
    """Keep JSON under a name."""
    write(cache_folder() / f"{kind}-{key}.json", [json.dumps(data).encode()])


def write(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file of the cache; others see it complete or not at all."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                file.write(piece)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
