"""Traces of MetaSchedule in logs: a build replays them, and reads nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import tvmconv
from tests.kernels import errors
from tests.tuning.examples import POINTWISE, V3, Instant, best_config, traced
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.trace import read_trace
from tvmconv.kernels.kernel import Kernel
from tvmconv.records.fields import RecordError
from tvmconv.records.logfile import append, read_log
from tvmconv.records.record import Record
from tvmconv.records.space import refusal
from tvmconv.selection.overrides import read_overrides
from tvmconv.tuning import auto
from tvmconv.tuning.compare import tune_auto
from tvmconv.tuning.journal import Journal
from tvmconv.tuning.settings import Settings

TOLERANCE = 1e-5


def line(data) -> bytes:
    return json.dumps(data).encode()


def test_a_record_keeps_its_trace_and_a_lookup_returns_it(tmp_path):
    log = tmp_path / "a.jsonl"
    append(log, [traced().to_line()])
    (read,) = read_log(log).records
    assert read == traced()
    assert refusal(read) == ""
    found = best_config(POINTWISE, V3, "direct", [log])
    assert found.config == traced().config
    assert "scheduled by MetaSchedule" in found.source
    assert Config.from_json(found.config.to_json()) == found.config
    assert found.config != found.config.with_trace("")
    # neither another epilogue nor another machine
    assert best_config(POINTWISE.with_epilogue(), V3, "direct", [log]) is None
    assert best_config(POINTWISE, replace(V3, mcpu="haswell"), "direct", [log]) is None


def test_a_replayed_kernel_is_right():
    kernel = Kernel(POINTWISE, V3, "direct", traced().config)
    error, reference = errors(kernel)
    assert np.abs(error).max() <= TOLERANCE * np.abs(reference).max()


def test_a_kernel_with_a_cached_sum_is_right():
    instructions, decisions = read_trace(traced().config.trace)
    first, *others = instructions
    cached = [first, ["CacheWrite", ["b0", []], [0, "global"], ["b99"]], *others]
    config = traced().config.with_trace(json.dumps([cached, decisions]))
    error, reference = errors(Kernel(POINTWISE, V3, "direct", config))
    assert np.abs(error).max() <= TOLERANCE * np.abs(reference).max()


def test_a_build_replays_a_trace(tmp_path):
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float[1,32,8,8] x, float[32,32,1,1] w,'
        " float[32] b) => (float[1,32,8,8] z) { y = Conv(x, w, b) z = Relu(y) }"
    )
    draw = np.random.default_rng(0).standard_normal
    weights = {"w": (32, 32, 1, 1), "b": (32,)}
    arrays = {name: draw(shape).astype(np.float32) for name, shape in weights.items()}
    from onnx import numpy_helper

    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    del model.graph.input[1:]
    log = tmp_path / "a.jsonl"
    append(log, [traced(seconds=1e-7).to_line()])
    built = tvmconv.build(model, V3, threads=1, log=log)
    (decision,) = built.decisions
    assert decision.chosen.config.trace == traced().config.trace
    assert "scheduled by MetaSchedule" in decision.chosen.source
    built.save(tmp_path / "net.so")
    x = draw((1, 32, 8, 8)).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    loaded = tvmconv.load(tmp_path / "net.so")
    assert loaded.decisions[0].chosen.config == decision.chosen.config
    (result,) = loaded.run({"x": x}).values()
    assert np.abs(result - expected).max() <= TOLERANCE * np.abs(expected).max()


def damaged() -> dict[str, object]:
    """Traces that no build may replay."""
    instructions, _ = read_trace(traced().config.trace)
    last = ["Vectorize", ["l9"], [], []]
    return {
        "an unknown instruction": [[*instructions, ["Run", [], [], []]], []],
        "an unsafe instruction": [[*instructions, ["UnsafeSetDType", ["b0"], [0, "x"], []]], []],
        "code": [[*instructions, ["Annotate", ["l1", '"int f;"'], ["pragma_import_c"], []]], []],
        "a random step": [[["SamplePerfectTile", ["l1"], [2, 64], ["v0", "v1"]]], []],
        "a decision of nothing": [instructions, [[0, [1, 2]]]],
        "a form": {"instructions": instructions},
        "an operand of another kind": [[*instructions, ["Vectorize", ["b0"], [], []]], []],
        "an undefined name": [[*instructions, ["Vectorize", ["l77"], [], []]], []],
        "a name defined twice": [[*instructions, instructions[0]], []],
        "a short instruction": [[["Vectorize"]], []],
        "deep operands": [[*instructions, ["Fuse", [[[[1]]]], [1], ["l99"]]], []],
        "a factor of zero": [[*instructions, ["Split", ["l1", 0], [1, 0], ["l98", "l99"]]], []],
        "no test of an end": [[*instructions, ["Split", ["l1", 3], [1, 1], ["l98", "l99"]]], []],
        "a cache on the stack": [
            [*instructions, ["CacheRead", ["b0", ["b0"]], [0, "local"], ["b99"]]],
            [],
        ],
        "an endless list": [[last] * 2000, []],
        "a long text": [[["GetLoops", ["x" * 1000], [], []]], []],
    }


@pytest.mark.parametrize("name", damaged())
def test_a_damaged_trace_is_no_record(name, tmp_path):
    data = {**traced().to_json(), "trace": damaged()[name]}
    with pytest.raises(RecordError):
        Record.from_line(line(data))


def test_a_config_names_no_trace():
    data = traced().to_json()
    with pytest.raises(RecordError, match="must not name a trace"):
        Record.from_line(line({**data, "config": {**data["config"], "trace": "[[],[]]"}}))
    with pytest.raises(ConfigError, match="Use a tuning log"):
        read_overrides({"a": {"algorithm": "direct", "knobs": {"trace": "[[],[]]"}}})


def foreign() -> dict[str, list[object]]:
    """Traces of known instructions that do not fit the expression, or make too much code."""
    block = ["GetSBlock", [], ["conv2d", "main"], ["b0"]]
    loops = ["GetLoops", ["b0"], [], [f"l{n}" for n in range(9)]]
    return {
        "another block": [[["GetSBlock", [], ["fft", "main"], ["b0"]]], []],
        "a loop that is gone": [
            [block, loops, *[["Fuse", ["l1", "l2"], [1], [name]] for name in ("l91", "l92")]],
            [],
        ],
        "a parallel reduction": [[block, loops, ["Parallel", ["l5"], [], []]], []],
        "nested vectors": [[block, loops, *[["Vectorize", [n], [], []] for n in ("l3", "l4")]], []],
        "nested threads": [[block, loops, *[["Parallel", [n], [], []] for n in ("l1", "l2")]], []],
        "long code": [
            [block, loops, *[["Unroll", [f"l{n}"], [], []] for n in range(1, 9)]],
            [],
        ],
        "a long unrolling pragma": [
            [block, loops, ["Annotate", ["l0", 60000], ["pragma_auto_unroll_max_step"], []]],
            [],
        ],
        "long vectors": [
            [
                *(block, loops, ["Fuse", ["l1", "l2", "l3", "l4"], [1], ["l9"]]),
                ["Vectorize", ["l9"], [], []],
            ],
            [],
        ],
    }


@pytest.mark.parametrize("name", foreign())
def test_a_foreign_trace_is_not_used(name, tmp_path):
    log = tmp_path / "a.jsonl"
    data = {**traced().to_json(), "trace": foreign()[name]}
    append(log, [json.dumps(data)])
    (read,) = read_log(log).records
    assert "trace" in refusal(read)
    assert best_config(POINTWISE, V3, "direct", [log]) is None


def test_records_without_a_trace_or_of_another_space_are_not_used():
    without = replace(traced(), config=traced().config.with_trace(""))
    assert "its trace is missing" in refusal(without)
    assert "no traces" in refusal(replace(traced(), tuner={"space": "knobs"}))
    assert "unknown" in refusal(replace(traced(), tuner={"space": "other"}))


class Faster(Instant):
    """A measurer to which traced kernels are twice as fast."""

    @staticmethod
    def seconds(config):
        return 1e-4 if config.trace else 2e-4


def test_what_metaschedule_finds_becomes_a_record(tmp_path, monkeypatch):
    log = tmp_path / "a.jsonl"
    text = traced().config.trace
    answer = {"traces": ["[[],[1]]", text], "trials": 4}
    monkeypatch.setattr(auto, "run", lambda *a, **k: answer)
    arguments = (V3, Faster(), Settings(trials=4), log, Journal(log, {}))
    outcome = tune_auto(POINTWISE, *arguments, lambda: {"versions": {}, "date": "2026-11-26"})
    assert (outcome.status, outcome.speedup) == ("recorded", pytest.approx(2))
    (read,) = read_log(log).records
    assert read.config.trace == text
    assert refusal(read) == ""
    assert best_config(POINTWISE, V3, "direct", [log]).config.trace == text
