"""Sizes in bytes on the command line."""

from __future__ import annotations

import re

from tvmconv.core.errors import InputError

_BYTES = {"": 1, "b": 1, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_BYTES |= {"kb": 1000, "mb": 1000**2, "gb": 1000**3}


def fold_bytes(text: str | None) -> int | None:
    """``--fold-budget`` in bytes.

    Raises
    ------
    InputError
        If it is not a size.
    """
    return None if text is None else byte_count(text, "--fold-budget")


def byte_count(text: str, option: str) -> int:
    """A size such as ``64MiB``, ``1.5 MB`` or ``4096``.

    Raises
    ------
    InputError
        If it is none.
    """
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)", text.strip().lower())
    if not match or match[2] not in _BYTES:
        raise InputError(f"cannot read {option} {text!r}; write bytes, or a size such as 64MiB")
    return int(float(match[1]) * _BYTES[match[2]])
