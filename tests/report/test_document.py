"""Reports: one structure, three views."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table

ROWS = [
    {"layer": "conv[1]", "seconds": 0.0012345, "share": 0.5, "extra": 7},
    {"layer": "pool", "seconds": 2.0, "share": None},
]
TABLE = Table(
    "layers",
    "Layers",
    (
        Column("layer", "layer"),
        Column("seconds", "ms", ".3f", 1e3),
        Column("share", "%", ".0f", 100),
    ),
    ROWS,
)
REPORT = Report("profile", "A model", {"gflops": 12.345678}, (TABLE,), ("A note.",), {"raw": [1]})


def test_terminal_view_scales_and_rounds():
    text = str(REPORT)
    for part in ("A model", "12.35", "conv[1]", "1.234", "2000.000", "50", "A note."):
        assert part in text
    assert "pool     2000.000   -\n" in text


def test_facts_have_units():
    facts = {
        "call_seconds_min": 2.5e-6, "seconds": 61.0, "load_seconds": 0.0125, "none": 0.0,
        "library_bytes": 84922, "memory_budget": None, "finite": True, "peak_share": 0.605,
        "memory_read_gbs": 7.4641, "threads": 2, "spare_seconds": 0.0,
    }  # fmt: skip
    lines = str(Report("k", "t", facts)).splitlines()[1:]
    assert dict(re.split(r"\s{2,}", line.strip()) for line in lines) == {
        "call time min": "2.5 us", "time": "61 s", "load time": "12.5 ms", "none": "0",
        "library size": "82.9 KiB", "finite": "yes", "peak share": "60.5%",
        "memory read GB/s": "7.464", "threads": "2", "spare time": "0 us",
    }  # fmt: skip


def test_json_is_complete_and_unrounded():
    data = json.loads(json.dumps(REPORT.to_json()))
    assert data["kind"] == "profile"
    assert data["gflops"] == 12.345678
    assert data["layers"] == ROWS
    assert data["raw"] == [1]


def test_csv_holds_every_value():
    rows = list(csv.DictReader(io.StringIO(TABLE.to_csv())))
    assert rows[0] == {"layer": "conv[1]", "seconds": "0.0012345", "share": "0.5", "extra": "7"}
    assert rows[1]["share"] == rows[1]["extra"] == ""


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_narrow_terminal_shows_every_name_and_figure_whole(width):
    """A frame breaks text into pieces of a few letters where a table has ten columns."""
    problem, reason = "mb1ic64ih56oc64kh3ph1+bias+relu", "fewest predicted cycles: " * 5
    names = ("layer", "problem", "algorithm", "seconds", "reason")
    columns = (*(Column(name, name) for name in names), Column("last", "many words here"))
    row = {"layer": "layer1.0", "problem": problem, "algorithm": "winograd", "seconds": 0.5}
    rows = [{**row, "reason": reason, "last": 12345.0}, {"layer": "l" * 30, "problem": "-"}]
    text = Report("k", "t", tables=(Table("t", "Layers", columns, rows),)).full(width)
    assert max(map(len, text.splitlines())) <= width
    for part in (problem, "layer1.0", "l" * 30, "winograd", "0.5", "12345.0", "predicted"):
        assert part in text
    assert text.count("cycles:") == 5
    assert "problem -" not in text


def test_the_terminal_may_show_fewer_rows():
    table = Table("t", "T", (Column("a", "a"),), [{"a": 1}, {"a": 2}], brief=[{"a": "one of two"}])
    report = Report("k", "title", tables=(table,))
    assert "one of two" in str(report)
    assert report.to_json()["t"] == [{"a": 1}, {"a": 2}]
    assert len(table.to_csv().splitlines()) == 3
