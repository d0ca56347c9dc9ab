"""The generated pages of the documents equal the output of their generators."""

from __future__ import annotations

import pytest

from docs.generate.__main__ import pages

PAGES = pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_current(path):
    assert path.read_text() == PAGES[path], "run python -m docs.generate"
