"""Reports: one structure, three views."""

from __future__ import annotations

import csv
import io
import json

from tvmconv.report.document import Column, Report, Table

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
    assert " - " in text


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
