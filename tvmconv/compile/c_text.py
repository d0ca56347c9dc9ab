"""Names and numbers as parts of C."""

from __future__ import annotations

import re
from collections.abc import Iterable

# the literal that every C99 compiler accepts, less the terminating zero
_LONGEST_LITERAL = 4094
_LONGEST_COMMENT = 400
_INT_MAX = (1 << 31) - 1


def literal(text: str) -> str:
    """A string literal of the text's UTF-8.

    Octal escapes always end after three digits; question marks would begin trigraphs.
    """
    return '"' + "".join(map(_escaped, _bytes(text))) + '"'


def _escaped(byte: int) -> str:
    character = chr(byte)
    if character in '"\\?':
        return f"\\{character}"
    return character if " " <= character <= "~" else f"\\{byte:03o}"


def _bytes(text: str) -> bytes:
    return text.encode(errors="backslashreplace")


class Strings:
    """Literals, and definitions of the strings that are too long for one."""

    def __init__(self) -> None:
        self.definitions: list[str] = []

    def __call__(self, text: str) -> str:
        """An expression for the string."""
        data = _bytes(text)
        if len(data) <= _LONGEST_LITERAL:
            return literal(text)
        name = f"text_{len(self.definitions)}"
        values = ", ".join(str(byte if byte < 128 else byte - 256) for byte in (*data, 0))
        self.definitions.append(f"static const char {name}[] = {{{values}}};")
        return name


def comment(*parts: str) -> str:
    """A comment on one line, without empty parts.

    Replaces characters that could end it, begin another comment, or change the direction of text.
    """
    text = " ".join(part for part in parts if part)
    text = "".join(character if character.isprintable() else "?" for character in text)
    for pair in ("*/", "/*", "??"):
        while pair in text:
            text = text.replace(pair, " ".join(pair))
    if len(text) > _LONGEST_COMMENT:
        text = text[: _LONGEST_COMMENT - 3] + "..."
    return f"/* {_bytes(text).decode()} */"


def identifier(name: str) -> str:
    """The name of a model in ``tvmconv_model_...`` and in macros."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    return plain[:128] or "model"


def whole(value: int) -> str:
    """An integer constant, of 64 bits or more if it needs them."""
    return str(value) if abs(value) <= _INT_MAX else f"{value}{'U' if value > 0 else ''}LL"


def braced(items: Iterable[str]) -> str:
    """An initializer."""
    return "{" + ", ".join(items) + "}"
