"""The figures of the documents equal the output of their code."""

from __future__ import annotations

import pytest

from docs.figures.__main__ import drawn

FIGURES = drawn()


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.name)
def test_a_figure_is_current(path):
    assert path.read_text() == FIGURES[path], "run python -m docs.figures"
