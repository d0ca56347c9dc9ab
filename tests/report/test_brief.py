"""The short views of reports: one line for each shape, on a terminal of any width."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

import tvmconv
from tests.graph.network import Net
from tvmconv.core.config import Config
from tvmconv.core.decision import Candidate, Decision
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.report.document import Report
from tvmconv.report.explain import explain_report
from tvmconv.report.explain_layer import explain_layer
from tvmconv.report.lines import cut
from tvmconv.report.reasons import ratio_text, short_reason
from tvmconv.report.shapes import shape_text
from tvmconv.report.summary import algorithm_counts
from tvmconv.report.table import Column, Table, grouped


@pytest.fixture(scope="module")
def model():
    net = Net(1, 16, 12, 12)
    first = net.op("Relu", net.conv("x", 16, 32))
    return tvmconv.build(net.model(net.conv(net.conv(first, 32, 32), 32, 32)), threads=1)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_each_row_is_one_line(width):
    columns = (
        Column("layer", "layer"),
        Column("shape", "shape"),
        Column("seconds", "ms", ".3f", 1e3),
        Column("reason", "reason", leaves=1),
    )
    name = "features.18/層" * 6 + "end"
    row = {"layer": name, "shape": "64x56x56", "seconds": 0.5, "reason": "r" * 150}
    table = Table("t", "", columns, [row, {"layer": "b"}], one_line=True)
    report = Report("k", "k", {"head": "h" * 200}, (table,))
    lines = report.full(width, short=True).splitlines()
    assert len(lines) == 6
    assert max(map(cell_len, lines)) <= width
    assert lines[4].startswith("feature") and "end  64x56x56  500.000" in lines[4]
    assert "reason" in lines[3] or width == 40


@pytest.mark.parametrize("width", [1, 2, 3, 9, 10, 40])
def test_names_lose_their_middle(width):
    assert cell_len(cut("layer4.0.downsample.0", width)) <= max(width, 3)
    assert cut("abc", 3) == "abc"
    assert cut("layer4.0.downsample.0", 12) == "layer..ple.0"


def test_shapes_as_people_write_them():
    assert shape_text("ic64ih56oc128oh28kh3sh2ph1") == "64x56x56 -> 128x28x28 3x3/2"
    assert shape_text("g32ic32ih8oc32kh3ph1").endswith("3x3 dw")
    assert shape_text("ic8ih9oc8kh3ph1", stride=" s") == "8x9x9 -> 8x9x9 3x3"
    assert shape_text("") == ""


def test_convolutions_without_a_prediction_are_counted():
    net = Net(1, 3, 12, 12)
    only = tvmconv.build(net.model(net.conv("x", 3, 4)), threads=1)
    text = str(only.explain())
    assert "1 convolution," in text and "no convolution has a prediction;" in text
    assert "estimated" not in text
    assert algorithm_counts(only) == {"positions": 1}


def _decision(*others: Candidate, reason: str = "fewest predicted cycles: 1 M") -> Decision:
    chosen = Candidate("direct", Config.of(), 1e6, 0, 0, 0.0)
    return Decision("a", Conv2dWorkload.parse("ic4ih9oc4kh3"), chosen, reason, others)


def test_reasons_name_the_best_other_algorithm():
    def other(name: str, cycles: float, cause: str = "slower") -> Candidate:
        return Candidate(name, Config.of(), cycles, 0, 0, 0.0, rejected="x", cause=cause)

    near = (other("direct", 1.1e6), other("im2win", 5e6), other("im2col", 4.06e6))
    assert short_reason(_decision(*near)) == "4.1x faster than im2col"
    assert short_reason(_decision(other("direct", 1.1e6))) == "the only algorithm for this layer"
    over = _decision(other("winograd", 0.5e6, "error"))
    assert short_reason(over) == "the only algorithm within your options"
    asked = _decision(*near, reason="asked for by a.json; SVE code: any")
    assert short_reason(asked) == "asked for by a.json"
    tuned = replace(near[0], source="log")
    assert short_reason(replace(_decision(*near), chosen=tuned)).endswith("im2col; tuned")
    assert [ratio_text(r) for r in (2, 1.034, 1.001)] == [
        "2.0x faster than", "3% faster than", "as fast as",
    ]  # fmt: skip


def test_equal_rows_are_summed():
    rows = [
        {"layer": "a", "shape": "s", "seconds": 1.0, "error_measured": 1.0},
        {"layer": "b", "shape": "t", "seconds": 2.0},
        {"layer": "c", "shape": "s", "seconds": 3.0, "error_measured": 2.0},
    ]
    first, second = grouped(rows, ("shape",))
    assert first == {**rows[0], "seconds": 4.0, "error_measured": 2.0, "count": "x2"}
    assert second == {**rows[1], "count": ""}


def test_explain_is_one_page(model):
    report = explain_report(model)
    text = str(report)
    assert report.brief is not None and len(report.brief.facts) <= 4
    assert max(map(len, text.splitlines())) <= 120
    assert "x2  32x12x12 -> 32x12x12 3x3" in text
    assert "mb1" not in text and "rh=" not in text
    assert "brief" not in report.to_json()


def test_a_layer_has_its_candidates_and_schedule(model):
    decision = model.decisions[0]
    report = explain_layer(explain_report(model), [decision], model.machine)
    data = report.to_json()
    assert data["problem"] == str(decision.workload)
    assert data["reason"] == decision.reason
    assert len(data["candidates"]) == 1 + len(decision.rejected)
    assert {row["knob"]: row["value"] for row in data["knobs"]} == decision.chosen.config.to_json()


def test_the_whole_view_has_each_layer_once(model):
    measured = {(d.layer, d.kernel): 1e-3 * i for i, d in enumerate(model.decisions, 1)}
    report = explain_report(model, seconds=measured)
    text = report.full()
    first, *equal = (decision.layer for decision in model.decisions)
    assert [detail.title.partition(":")[0] for detail in report.details] == [
        first, ", ".join(equal),
    ]  # fmt: skip
    assert report.details[1].facts["measured_seconds"] == [2e-3, 3e-3]
    assert "2 ms, 3 ms" in text
    for decision in model.decisions:
        assert str(decision.workload) in text and decision.reason in text
