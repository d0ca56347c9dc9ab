"""Every page of the documents runs, block by block, as a reader would run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.pages import ROOT, Block, blocks

PAGES = [
    page
    for page in sorted(ROOT.glob("docs/**/*.md"))
    if not {"notes", "results"} & set(page.relative_to(ROOT).parts)
]
# texts to read; a C block without a file is one, too
SHOWN = {"text", "json", "c"}


def _is_run(block: Block) -> bool:
    return block.language in ("sh", "python") and not block.is_skipped


RUNNABLE = [page for page in PAGES if any(map(_is_run, blocks(page)))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_say_how_they_are_run(page):
    for block in blocks(page):
        if block.language in ("sh", "python"):
            assert block.mark in ("", "slow") or block.mark.startswith("skip: "), block
        else:
            assert block.language in SHOWN, block


# the tutorial builds many networks, and the page of the command line runs each example
@pytest.mark.timeout(3600)
@pytest.mark.slow
@pytest.mark.any_processor
@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_runs(page: Path):
    command = [sys.executable, "-m", "tests.packaging.pages", str(page), "--slow"]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
