"""Builds take what the logs hold, and say so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

import tvmconv
from tests.tuning.examples import V3, default, record
from tvmconv.core.config import Config
from tvmconv.core.errors import TvmconvError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.records.logfile import append
from tvmconv.records.lookup import ENVIRONMENT
from tvmconv.report.explain import explain_report
from tvmconv.selection.policy import make_policy
from tvmconv.selection.select import select
from tvmconv.tuning.session import collect


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    generator = np.random.default_rng(0)
    helper = onnx.helper
    weight = (generator.standard_normal((32, 32, 3, 3)) / 17).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["y"], "first", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["y"], ["z"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 32, 8, 8))],
        [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, (1, 32, 8, 8))],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path_factory.mktemp("model") / "net.onnx"
    onnx.save(made, path)
    return path


@pytest.fixture
def workload(model):
    (task,) = collect(V3, models=[model])
    assert task.name == "first"
    return task.workload


def build(model, **options):
    return tvmconv.build(model, V3, threads=1, algorithms=["direct"], **options)


def test_a_build_takes_the_record_and_explains_it(model, workload, tmp_path):
    log = tmp_path / "mine.jsonl"
    untuned = build(model, log="none")
    tuned_config = untuned.decisions[0].chosen.config.replace(ow=2)
    append(log, [replace(record(workload, V3), config=tuned_config).to_line()])
    built = build(model, log=log)
    chosen = built.decisions[0].chosen
    assert chosen.config == tuned_config
    assert "mine.jsonl 2026-11-21" in chosen.source
    assert chosen.cycles == pytest.approx(untuned.decisions[0].chosen.cycles * 1e-4 / 2.02e-4)
    assert "mine.jsonl" in explain_report(built).full()
    x = np.random.default_rng(1).standard_normal((1, 32, 8, 8), dtype=np.float32)
    np.testing.assert_allclose(
        built.run({"x": x})[0], untuned.run({"x": x})[0], rtol=1e-4, atol=1e-5
    )
    assert build(model).decisions[0].chosen.source == "default"


def test_a_near_record_is_checked_and_marked(model, workload, tmp_path):
    other = replace(V3, l2_bytes=4 << 20)
    log = tmp_path / "theirs.jsonl"
    config = default(workload, V3).replace(rows=4)
    append(log, [replace(record(workload, other), config=config).to_line()])
    built = build(model, log=log)
    assert built.decisions[0].chosen.config == config
    assert "near machine (Some Processor)" in built.decisions[0].chosen.source
    assert "near machine" in explain_report(built).full()
    refused = tmp_path / "refused.jsonl"
    slow = default(workload, V3).replace(oc=1, ow=1)
    append(refused, [replace(record(workload, other), config=slow).to_line()])
    assert build(model, log=refused).decisions[0].chosen.source == "default"


def test_the_users_log_is_used_without_asking(model, workload, tmp_path, monkeypatch):
    config = default(workload, V3).replace(ow=2)
    append(tmp_path / "x.jsonl", [replace(record(workload, V3), config=config).to_line()])
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    assert build(model).decisions[0].chosen.config == config
    assert build(model, log="none").decisions[0].chosen.source == "default"


def test_a_missing_log_is_an_error(model):
    with pytest.raises(TvmconvError, match=r"absent\.jsonl"):
        build(model, log="absent.jsonl")


def test_hostile_records_leave_the_default(workload, tmp_path):
    log = tmp_path / "a.jsonl"
    bad = replace(record(workload, V3), config=Config.of(oc=1 << 30))
    append(log, [bad.to_line(), "garbage"])
    plain = select(workload, V3).chosen
    assert select(workload, V3, policy=make_policy(logs=[log])).chosen == plain


def test_budgets_hold_for_records_too(tmp_path):
    workload = Conv2dWorkload.parse("mb1ic64ih28oc64kh3ph1")
    log = tmp_path / "a.jsonl"
    fastest = [c for c in select(workload, V3).rejected if c.algorithm == "winograd"]
    config = max(fastest, key=lambda c: c.error).config
    entry = replace(record(workload, V3, seconds=1e-6), algorithm="winograd", config=config)
    append(log, [entry.to_line()])
    wide = select(workload, V3, policy=make_policy(error_budget=1.0, logs=[log])).chosen
    assert (wide.algorithm, wide.config) == ("winograd", config)
    assert wide.source.startswith("log ")
    assert select(workload, V3, policy=make_policy(logs=[log])).chosen.config != config
    without = make_policy(["direct"], logs=[log])
    assert select(workload, V3, policy=without).chosen.algorithm == "direct"
