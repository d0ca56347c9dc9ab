"""Makes links to files outside of ``docs`` work on the documentation site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Name the files of the repository that are not part of the site, in place of a link."""
    here = (DOCS / page.file.src_uri).parent

    def replace(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        file = (here / target).resolve()
        # MkDocs follows links between pages, and reports files that do not exist
        if file.is_relative_to(DOCS) or not file.exists():
            return match[0]
        path = file.relative_to(ROOT).as_posix()
        return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}`)"

    return _LINK.sub(replace, markdown)
