"""Arguments of the public functions, checked before anything is done with them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from operator import index
from pathlib import Path
from typing import Any

from .errors import ConfigError, InputError, TvmconvError

Refusal = Callable[[str], TvmconvError]

MOST_THREADS = 1 << 16
MOST_REPEATS = 1 << 24

_BYTES = {"": 1, "b": 1, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_BYTES |= {"kb": 1000, "mb": 1000**2, "gb": 1000**3}


def whole(
    value: Any,
    name: str,
    low: int = 1,
    high: int = MOST_REPEATS,
    error: Refusal = InputError,
) -> int:
    """A whole number, also of numpy; raises ``error`` for booleans, strings and other values."""
    try:
        number = index(value)
    except TypeError:
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise error(f"{name}={shown(value)} must be a whole number from {low} to {high}")
    return number


def file_path(value: Any, name: str, error: Refusal = InputError) -> Path:
    """The path of a file; raises ``error`` for empty names and names that cannot be encoded."""
    try:
        text = os.fspath(value)
        if isinstance(text, str) and text and "\0" not in text and os.fsencode(text):
            return Path(text)
    except (TypeError, UnicodeEncodeError):
        pass
    raise error(f"{name}={shown(value)} must be the path of a file")


def function(value: Any, name: str) -> Any:
    """The value, if it can be called; raises :class:`ConfigError` otherwise."""
    if not callable(value):
        raise ConfigError(f"{name}={shown(value)} must be a function")
    return value


def shown(value: Any) -> str:
    """A value in a message, of bounded length."""
    try:
        text = repr(value)
    except Exception:  # a foreign object, or an integer of thousands of digits
        text = f"a {type(value).__name__}"
    text = " ".join(text.split()).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 80 else f"{text[:77]}..."


def nearest(value: Any, known: Iterable[str]) -> str:
    """``"did you mean 'x'? "`` for a name that is none of the known ones; empty if none is near."""
    from difflib import get_close_matches

    close = get_close_matches(value if isinstance(value, str) else "", list(known), 1)
    return f"did you mean {close[0]!r}? " if close else ""


def size_bytes(text: str, name: str, error: Refusal = ConfigError) -> int:
    """A size such as ``64MiB``, ``1.5 MB`` or ``4096`` in bytes."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)", text.strip().lower())
    if not match or match[2] not in _BYTES:
        raise error(f"cannot read {name} {text!r}. Expected bytes, or a size such as 64MiB.")
    return int(float(match[1]) * _BYTES[match[2]])
