"""Shows pages on the documentation site as they are in the repository.

Links to files outside of ``docs`` become the files' names. The marks of code blocks are for the
tests. They are removed, because the site's Markdown reads a block with such a mark as text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
_FENCE = re.compile(r"^```(\w+) (?:(\w+\.\w+)|[^\n]*)$", flags=re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Name the files of the repository that are not part of the site; remove the marks."""
    here = (DOCS / page.file.src_uri).parent
    # the search finds pages that readers of the navigation know
    if page.file.src_uri.startswith("notes/"):
        page.meta["search"] = {"exclude": True}

    def replace(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        file = (here / target).resolve()
        # MkDocs follows links between pages, and reports files that do not exist
        if file.is_relative_to(DOCS) or not file.exists():
            return match[0]
        path = file.relative_to(ROOT).as_posix()
        return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}`)"

    def fence(match: re.Match[str]) -> str:
        return f"```{match[1]}" + (f' title="{match[2]}"' if match[2] else "")

    return _FENCE.sub(fence, _LINK.sub(replace, markdown))
