"""The generated pages of the documents equal the output of their generators."""

from __future__ import annotations

import re

import pytest

from docs.generate.__main__ import pages

PAGES = pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_current(path):
    assert path.read_text() == PAGES[path], "run python -m docs.generate"


def test_no_two_tables_of_benchmarks_are_equal():
    """A file with several numbers of threads gave each of its tables the fastest one."""
    page = next(text for path, text in PAGES.items() if path.name == "index.md")
    tables = re.findall(r"(?:^\|.+\n)+", page, flags=re.MULTILINE)
    assert len(set(tables)) == len(tables)
