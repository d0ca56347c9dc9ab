"""Names of a model carry no control sequences to a terminal."""

from __future__ import annotations

from tvmconv.core.errors import ModelError
from tvmconv.core.printed import printable
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table

NAME = "a\x1b[31m\x9b\u202eb"


def test_control_characters_are_escaped() -> None:
    assert printable(NAME) == "a\\x1b[31m\\x9b\\u202eb"
    assert printable("größe\n模型") == "größe\n模型"
    assert "\x1b" not in str(ModelError(NAME))


def test_reports_escape_names() -> None:
    table = Table("layers", NAME, (Column("layer", "layer"),), [{"layer": NAME}])
    text = str(Report("explain", NAME, {"model": NAME}, (table,), (NAME,)))
    assert text.count("\\x1b[31m") == 5
    assert not {"\x1b", "\x9b", "\u202e"} & set(text)
