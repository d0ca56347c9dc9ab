"""Bytes and seconds for people."""

from __future__ import annotations

_BYTES = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def bytes_text(count: float) -> str:
    """A number of bytes for people."""
    for size, unit in _BYTES:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def seconds_text(seconds: float) -> str:
    """A time for people, with four digits."""
    size, unit = next((scale for scale in _SECONDS if seconds >= scale[0]), _SECONDS[-1])
    return f"{seconds / size:.4g} {unit}"
