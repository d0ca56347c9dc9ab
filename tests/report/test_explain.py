"""Explain: measured errors, the frontier of memory and time, the page with its charts."""

from __future__ import annotations

import builtins
import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import tvmconv
from tests.graph.network import Net
from tvmconv.core.errors import TvmconvError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.lab.bench.kernel_run import KernelRun, relative_error
from tvmconv.lab.bench.measured_error import measure_errors
from tvmconv.machines.targets import resolve_machine
from tvmconv.measuring.operands import random_operands
from tvmconv.report.candidates import memory_frontier
from tvmconv.report.clock import clock_of
from tvmconv.report.explain import explain_report
from tvmconv.report.explain_page import explain_page
from tvmconv.report.summary import compile_report
from tvmconv.report.table import Column, Table


@pytest.fixture(scope="module")
def network():
    net = Net(1, 16, 12, 12)
    first = net.op("Relu", net.conv("x", 16, 32))
    return net.model(net.conv(net.op("Relu", net.conv(first, 32, 32)), 32, 32))


@pytest.fixture(scope="module")
def model(network):
    return tvmconv.build(network, threads=1)


@pytest.fixture(scope="module")
def errors(network, model):
    return measure_errors(network, model)


def test_kernel_run_computes_the_layer():
    from scipy.signal import correlate

    workload = Conv2dWorkload.parse("ic20ih9iw7oc24kh3ph1+bias+add+relu")
    machine = resolve_machine("native", 1)
    inputs, constants = random_operands(workload)
    run = KernelRun(make_kernel(workload, machine, "direct"), inputs, constants, 1)
    run()
    data = np.pad(inputs["data"][0].astype(float), ((0, 0), (1, 1), (1, 1)))
    exact = [correlate(data, w.astype(float), "valid")[0] for w in constants["weight"]]
    exact += constants["bias"][:, None, None] + inputs["residual"][0]
    assert relative_error(run.output()[0], np.maximum(exact, 0)) < 1e-6


def test_measured_errors_are_those_of_float32(model, errors):
    assert len(errors) == len(model.decisions) == 3
    for error, decision in zip(errors, model.decisions, strict=True):
        assert 0 < error < 10 * decision.chosen.error


def test_report_holds_every_candidate(model, errors):
    report = explain_report(model, errors)
    data = report.to_json()
    assert [row["error_measured"] for row in data["layers"]] == list(errors)
    assert data["largest_error_measured"] == max(errors)
    for decision in model.decisions:
        rows = [r for r in data["candidates"] if decision.layer in r["layers"].split(", ")]
        assert len(rows) == 1 + len(decision.rejected)
        assert rows[0]["verdict"] == "chosen"
        assert all(row["verdict"] for row in rows)
    text = " ".join(report.full().split())
    assert "error measured" in text
    for row in data["candidates"]:
        _, bracket, parts = row["verdict"].partition(" (")
        assert (bracket + parts if row["cause"] == "slower" else row["verdict"]) in text
    assert data["predicted_at"] == str(clock_of(model.machine)) == "2.50 GHz, assumed"
    assert data["rates"] == "shipped"
    for row in data["layers"]:
        assert row["predicted_seconds"] == pytest.approx(row["predicted_cycles"] / 2.5e9)


def test_convolutions_that_no_algorithm_took_are_listed(tmp_path):
    net = Net(1, 32, 6, 6)
    first = net.conv("x", 32, 32)
    wide = net.op("Cast", net.op("Conv", first, net.input("w", 8, 32, 1, 1)), to=TensorProto.DOUBLE)
    double = net.op("Conv", wide, net.const(np.ones((8, 8, 1, 1))))
    last = net.op("Cast", double, to=TensorProto.FLOAT)
    with pytest.warns(UserWarning, match=r"1 convolution\(s\), which run as plain loops"):
        built = tvmconv.build(net.model(last), threads=1)
    saved = tvmconv.load(built.save(tmp_path / "model.so"))
    for found in (built, saved):
        reasons = {left.layer: left.reason for left in found.unscheduled}
        assert list(reasons) == [double]
        assert "float64" in reasons[double]
        report = explain_report(found)
        assert report.title.startswith(f"{found.name}: 3 convolutions; WARNING: 1 of them")
        assert [row["layer"] for row in report.to_json()["unscheduled"]] == list(reasons)
        assert all(layer in str(report) for layer in reasons)
        assert [row["layer"] for row in report.to_json()["layers"]] == [first]
    assert compile_report(built, tmp_path / "model.so", 1.0).notes


def test_layers_that_are_alike_share_their_candidates(model):
    candidates = explain_report(model).tables[1].rows
    assert {row["count"] for row in candidates} <= {1, 2, 3}
    groups = {row["layers"]: row["count"] for row in candidates}
    assert sum(groups.values()) == 3


def test_frontier_grows_in_memory_and_falls_in_time(model):
    rows = memory_frontier(explain_report(model).tables[1].rows)
    assert rows[0]["workspace_bytes"] == 0
    for low, high in pairwise(rows):
        assert low["workspace_bytes"] < high["workspace_bytes"]
        assert low["predicted_seconds"] > high["predicted_seconds"]
    clock = clock_of(model.machine)
    total = clock.seconds(sum(d.chosen.cycles for d in model.decisions))
    assert rows[-1]["predicted_seconds"] == pytest.approx(total)


def test_points_of_the_frontier_are_what_their_budgets_build(network, model):
    frontier = memory_frontier(explain_report(model).tables[1].rows)
    for row in (frontier[0], frontier[len(frontier) // 2]):
        bounded = tvmconv.build(network, threads=1, memory_budget=row["workspace_bytes"])
        assert bounded.memory.workspace_bytes <= row["workspace_bytes"]
        total = clock_of(bounded.machine).seconds(sum(d.chosen.cycles for d in bounded.decisions))
        assert total == pytest.approx(row["predicted_seconds"])


def test_page_is_complete_and_needs_no_network(model, errors):
    pytest.importorskip("pygal")
    times = {(d.layer, d.kernel): 1e-4 for d in model.decisions}
    report = explain_report(model, errors, times, (100.0, 10.0))
    page = explain_page(report, model.machine, 5e-6)
    drawings = re.findall(r"<svg .*?</svg>", page, flags=re.DOTALL)
    assert len(drawings) == 4
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)
        assert root.get("role") == "img"
        assert root.get("aria-label")
    assert "<script" not in page
    assert "prefers-color-scheme: dark" in page and "requantise" not in page
    assert not re.search(r"(?:src|href)=|url\(|@import", page)
    assert set(re.findall(r"https?://[^\"' <]+", page)) <= {"http://www.w3.org/2000/svg"}
    for heading in ("Time per layer", "Roofline", "Speed against memory", "Error against tile"):
        assert f"<h2>{heading}</h2>" in page
    assert page.count("<table>") == 4 + len(report.tables)
    for decision in model.decisions:
        assert decision.layer in page
    assert "measured on this machine" in page


def test_charts_have_layers_whose_names_hold_control_characters(network):
    pytest.importorskip("pygal")
    named = onnx.ModelProto.FromString(network.SerializeToString())
    for number, node in enumerate(named.graph.node):
        node.name = f"layer\x1b[31m{number}"
    model = tvmconv.build(named, threads=1)
    page = explain_page(explain_report(model), model.machine, 5e-6)
    assert "\x1b" not in page
    roofline = re.findall(r"Table: roofline.*?</details>", page, flags=re.DOTALL)
    assert [table.count("layer\\x1b[31m") for table in roofline] == [len(model.decisions)]


def test_page_finds_its_tables_next_to_estimates(model):
    pytest.importorskip("pygal")
    estimates = Table("estimates", "Estimates", (Column("layer", "layer"),), [{"layer": "any"}])
    report = explain_report(model, estimates=(estimates, {}))
    page = explain_page(report, model.machine, 5e-6)
    assert page.count("<table>") == 4 + len(report.tables)


def test_missing_chart_package_says_what_to_install(model, monkeypatch):
    imported = builtins.__import__

    def without(name, *rest):
        if name == "pygal":
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TvmconvError, match=r"pip install 'tvmconv\[html\]'"):
        explain_page(explain_report(model), model.machine, 5e-6)


def test_knobs_are_explained_as_declared(model):
    *_, table = explain_report(model, knobs=True).tables
    assert table.name == "knobs"
    chosen = {decision.chosen.algorithm for decision in model.decisions}
    declared = {(name, k.name) for name in chosen for k in registry.knobs(name, model.machine)}
    assert {(row["algorithm"], row["knob"]) for row in table.rows} == declared
    for row in table.rows:
        assert row["values"]
        assert row["doc"]
    assert "knobs" not in {table.name for table in explain_report(model).tables}
