"""Text from models as a terminal or a page may show it."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with control characters and the like written as escape sequences.

    Names in a model are untrusted: a terminal would carry out the sequences in them. Line feeds
    stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
