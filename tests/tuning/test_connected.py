"""Fully connected layers: searched and recorded, built from records, and wrong records refused."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest

import tvmconv
from tests.host import HOST
from tests.tuning.examples import V3, Instant, record
from tvmconv.core.errors import TvmconvError
from tvmconv.core.trace import trace_text
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.records.logfile import read_log
from tvmconv.records.record import Record
from tvmconv.records.space import refusal
from tvmconv.tuning import model_tuning

PRODUCT = Conv2dWorkload.parse("mb6ic40ih1oc72kh1:nc+bias+relu")
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
products (float[2,3,40] x, float[40,72] w, float[72] b, float[24,216] g) => (float[2,24] y)
<int64[2] flat = {2, 216}> {
    [up] a = MatMul(x, w)
    [shift] s = Add(a, b)
    [ramp] r = Relu(s)
    [rows] f = Reshape(r, flat)
    [out] y = Gemm<transB = 1>(f, g)
}"""


class ByRows(Instant):
    """Candidates whose threads share rows are faster."""

    @staticmethod
    def seconds(config):
        return 1e-4 if config["share"] == "rows" else 2e-4


def products() -> onnx.ModelProto:
    """A matrix product over tokens with bias and activation, then a Gemm."""
    model = onnx.parser.parse_model(MODEL)
    generator = np.random.default_rng(0)
    constants = model.graph.input[1:]
    for value in list(constants):
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        array = generator.standard_normal(shape, dtype=np.float32) / 8
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        model.graph.input.remove(value)
    return model


def check_result(model: onnx.ModelProto, built: tvmconv.CompiledModel) -> None:
    data = np.random.default_rng(1).standard_normal((2, 3, 40), dtype=np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"x": data})
    assert np.abs(np.asarray(built(data)) - expected).max() < 1e-5 * np.abs(expected).max()


def test_products_are_tuned_and_builds_use_their_records(monkeypatch, tmp_path):
    monkeypatch.setattr(model_tuning, "make_measurer", lambda *_: ByRows())
    log, model = tmp_path / "mine.jsonl", products()
    report = tvmconv.tune(model, HOST, trials=24, threads=1, log=log)
    rows = {row["layer"]: row for row in report.to_json()["workloads"]}
    assert {name: row["status"] for name, row in rows.items()} == dict.fromkeys(rows, "recorded")
    assert rows.keys() == {"up", "out"}
    built = tvmconv.build(model, HOST, threads=1, log=log)
    configs = {r.workload: r.config for r in read_log(log).records}
    for decision in built.decisions:
        assert decision.chosen.config == configs[decision.workload]
        assert "mine.jsonl" in decision.chosen.source
    assert "2 fully connected layers" in str(built.explain())
    check_result(model, built)
    again = tvmconv.tune(model, HOST, trials=24, threads=1, log=log)
    assert [row["status"] for row in again.to_json()["workloads"]] == ["done before"] * 2


def _traced() -> str:
    """A trace that schedules the product of ``PRODUCT``'s default."""
    from tvmconv.tvm_api.meta_schedule import trace_data
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(make_kernel(PRODUCT, HOST, "dense").unscheduled())
    block = schedule.get_sblock("dense")
    *_, k = schedule.get_loops(block)
    _, inner = schedule.split(k, [None, 4])
    schedule.unroll(inner)
    return trace_text(trace_data(schedule.trace))


def test_a_trace_of_metaschedule_schedules_a_product(tmp_path):
    found = record(PRODUCT, HOST, "dense")
    line = json.loads(found.to_line())
    line["trace"], line["tuner"]["space"] = json.loads(_traced()), "auto"
    log = tmp_path / "traced.jsonl"
    log.write_text(json.dumps(line) + "\n")
    built = tvmconv.build(products(), HOST, threads=1, log=log)
    up = next(d for d in built.decisions if d.layer == "up")
    assert "scheduled by MetaSchedule" in up.chosen.source
    check_result(products(), built)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"config": {"rows": 4096}}, "rows=4096 is out of range"),
        ({"config": {"rows": 0}}, "rows=0 is out of range"),
        ({"config": {"splits": 3}}, "splits=3"),
        ({"config": {"streams": 4, "rows": 2}}, "streams=4 is out of range"),
        ({"config": {"share": "all"}}, "share='all' is out of range"),
        ({"config": {"rows": 6, "width": 9}}, "width=9"),
        ({"algorithm": "direct"}, "fully connected"),
        ({"workload": "mb6ic40ih1oc72kh1+bias+relu"}, "fully connected"),
    ],
    ids=str,
)
def test_wrong_records_are_refused(changes, text):
    line = json.loads(record(PRODUCT, V3, "dense").to_line())
    changed = {**line, **changes, "config": line["config"] | changes.get("config", {})}
    assert text in refusal(Record.from_line(json.dumps(changed).encode()))


@pytest.mark.parametrize(
    "problem", ["mb6ic40ih2oc72kh1:nc", "mb6ic40ih3oc72kh3:nc", "g2mb6ic40ih1oc72kh1:nc"]
)
def test_images_are_not_rows(problem):
    with pytest.raises(TvmconvError, match="not a fully connected layer"):
        Conv2dWorkload.parse(problem)
