"""What the documentation site needs beyond its pages: the README as start page, links to source."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make links work on the site that work in the repository.

    Pages of the site are linked as pages; other files of the repository, which are no part of the
    site, are named instead.
    """
    here = Path(page.file.src_uri).parent
    if page.file.src_uri == "index.md":
        markdown, here = (ROOT / "README.md").read_text(), Path("..")

    def replace(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        file = (ROOT / "docs" / here / target).resolve()
        if file.is_relative_to(ROOT / "docs") and file.is_file():
            return f"[{text}]({file.relative_to(ROOT / 'docs').as_posix()}{anchor})"
        if not file.exists():
            return match[0]  # for MkDocs to complain about
        path = file.relative_to(ROOT).as_posix()
        return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}`)"

    return _LINK.sub(replace, markdown)
