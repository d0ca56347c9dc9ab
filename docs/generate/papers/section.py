"""A section of the page of the papers."""

from __future__ import annotations

from collections.abc import Iterable

from docs.figures.papers import SECTIONS


def section(title: str, paper: str, rows: Iterable[tuple[str, str, str]]) -> str:
    """Return a section: title, paper, figures, and a row for each claim."""
    lines = [f"\n## {title}\n", f"{paper}\n"]
    for name, caption in SECTIONS.get(title, ()):
        lines += [
            f"![{caption}](../figures/{name}-{palette}.svg#only-{palette})"
            for palette in ("light", "dark")
        ]
        lines.append(f"\n{caption}.\n")
    lines += ["| claim | here | verdict |", "|---|---|---|"]
    lines += [f"| {claim} | {here} | {verdict} |" for claim, here, verdict in rows]
    return "\n".join(lines) + "\n"


def counted(threads: int) -> str:
    """Return the number of threads as text."""
    return f"{threads} thread{'s' * (threads > 1)}"
