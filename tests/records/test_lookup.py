"""Which record a build is given: search path, this machine before near ones, refused configs."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.tuning.examples import DENSE, SMALL, V3, V4, best_config, default, estimated, record
from tvmconv.core.config import Config
from tvmconv.core.datatypes import DataTypes
from tvmconv.core.errors import TvmconvError
from tvmconv.records.logfile import append
from tvmconv.records.lookup import ENVIRONMENT, search_path, tuned
from tvmconv.records.space import refusal


@pytest.fixture
def write(tmp_path):
    def make(name, *records):
        path = tmp_path / name
        append(path, [r.to_line() for r in records])
        return path

    return make


def test_the_fastest_of_this_machine_is_found(write):
    slow, fast = record(knobs={"ow": 7}), record(knobs={"ow": 4}, seconds=8e-5)
    log = write("a.jsonl", slow, fast, record(SMALL), record(machine=V3))
    found = best_config(DENSE, V4, "direct", [log])
    assert found.config == fast.config
    assert found.ratio == pytest.approx(fast.seconds / fast.default_seconds)
    assert found.default_config == default(DENSE, V4)
    assert not found.near
    assert "a.jsonl 2026-11-21" in found.source
    assert "this machine" in found.source
    assert best_config(DENSE, V4, "depthwise", [log]) is None
    assert best_config(DENSE, replace(V4, cores=2), "direct", [log]) is None


def test_another_epilogue_serves_where_the_very_workload_has_no_record(write):
    other = write("other.jsonl", record(knobs={"ow": 7}))
    plain = DENSE.with_epilogue()
    found = best_config(plain, V4, "direct", [other])
    assert found.config["ow"] == 7
    assert "epilogue +bias+relu" in found.source
    own = write("own.jsonl", record(plain, knobs={"ow": 4}))
    assert best_config(plain, V4, "direct", [other, own]).config["ow"] == 4
    assert "epilogue" not in best_config(plain, V4, "direct", [other, own]).source
    assert "epilogue empty" in best_config(DENSE, V4, "direct", [own]).source


def test_a_layer_of_other_types_takes_no_record(write):
    log = write("a.jsonl", record(knobs={"ow": 4}))
    assert best_config(DENSE, V4, "direct", [log])
    typed = replace(DENSE, types=DataTypes("uint8", "int8", "int32", "int32"))
    assert best_config(typed, V4, "direct", [log]) is None


def test_the_first_log_goes_before_later_ones(write):
    mine = write("mine.jsonl", record(knobs={"ow": 7}, seconds=1.5e-4))
    shipped = write("shipped.jsonl", record(knobs={"ow": 4}, seconds=5e-5))
    assert best_config(DENSE, V4, "direct", [mine, shipped]).config["ow"] == 7
    assert best_config(DENSE, V4, "direct", [shipped, mine]).config["ow"] == 4


def test_a_near_machine_is_used_last_and_marked(write):
    other = replace(V4, l2_bytes=2 << 20, l3_bytes=64 << 20)
    near = write("near.jsonl", record(machine=other, knobs={"ow": 7}))
    found = best_config(DENSE, V4, "direct", [near])
    assert found.near
    assert "near machine (Some Processor)" in found.source
    own = write("own.jsonl", record(knobs={"ow": 4}))
    assert not best_config(DENSE, V4, "direct", [near, own]).near


def test_a_record_of_another_kind_of_processor_is_not_used(write):
    other = replace(V4, mcpu="sapphirerapids")
    log = write("other.jsonl", record(machine=other, knobs={"ow": 7}))
    assert best_config(DENSE, V4, "direct", [log]) is None
    assert best_config(DENSE, replace(other, l3_bytes=1 << 20), "direct", [log]).near
    # a feature level is not a kind
    level = write("level.jsonl", record(knobs={"ow": 7}))
    assert best_config(DENSE, other, "direct", [level]).near


def test_estimates_serve_where_nothing_was_measured(write):
    guess = write("guess.jsonl", estimated(record(knobs={"ow": 7}, seconds=1e-6)))
    found = best_config(DENSE, V4, "direct", [guess])
    assert found.config["ow"] == 7
    assert "estimated to be" in found.source
    measured = record(knobs={"ow": 4}, seconds=1.9e-4)
    # in another log or in the same, before or after
    other = write("other.jsonl", measured)
    both = write("both.jsonl", estimated(record(knobs={"ow": 7}, seconds=1e-6)), measured)
    for logs in ([guess, other], [other, guess], [both]):
        found = best_config(DENSE, V4, "direct", logs)
        assert found.config["ow"] == 4
        assert "estimated" not in found.source
    # nor is an estimated gain of one algorithm compared with a measured gain of another
    rival = write("rival.jsonl", record(algorithm="winograd"))
    assert best_config(DENSE, V4, "direct", [guess, rival]) is None
    assert best_config(DENSE, V4, "winograd", [guess, rival]) is not None


def test_estimates_for_another_machine_do_not_count(write):
    other = replace(V4, l2_bytes=2 << 20)
    log = write("near.jsonl", estimated(record(machine=other, knobs={"ow": 7})))
    assert best_config(DENSE, V4, "direct", [log]) is None
    measured = write("measured.jsonl", record(machine=other, knobs={"ow": 7}))
    assert best_config(DENSE, V4, "direct", [log, measured]).near
    # a measurement on another machine says nothing against an estimate for this one
    guess = write("guess.jsonl", estimated(record(knobs={"ow": 4})))
    assert best_config(DENSE, V4, "direct", [measured, guess]).config["ow"] == 4


def test_a_near_record_that_looks_slower_here_is_refused(write):
    other = replace(V4, l2_bytes=2 << 20)
    # one pixel a tile leaves the FMA units idle on every machine
    log = write("near.jsonl", record(machine=other, knobs={"oc": 1, "ow": 1}))
    assert best_config(DENSE, V4, "direct", [log]) is None
    exact = write("own.jsonl", record(knobs={"oc": 1, "ow": 1}))
    assert best_config(DENSE, V4, "direct", [exact]) is not None


def test_another_instruction_set_is_never_near(write):
    log = write("a.jsonl", record(machine=V3))
    assert tuned(DENSE, V4, "direct", [log]) == ()


@pytest.mark.parametrize(
    "config",
    [Config.of(gone=1), default(DENSE, V4).replace(oc=9), default(DENSE, V4).replace(ow=31, oh=4)],
)
def test_configs_that_break_a_limit_are_refused(write, config):
    log = write("a.jsonl", replace(record(), config=config))
    assert tuned(DENSE, V4, "direct", [log]) == ()


def test_a_hostile_default_is_refused(write):
    log = write("a.jsonl", replace(record(), default_config=Config.of(oc=0)))
    assert tuned(DENSE, V4, "direct", [log]) == ()


def test_times_beyond_all_measure_do_not_stop_a_look_up(write):
    hostile = replace(record(knobs={"ow": 7}), samples=(999.0,), default_samples=(5e-324,))
    found = best_config(DENSE, V4, "direct", [write("slow.jsonl", hostile)])
    assert found.ratio == math.inf
    hostile = replace(hostile, samples=(5e-324,), default_samples=(999.0,))
    found = best_config(DENSE, V4, "direct", [write("fast.jsonl", hostile)])
    assert found.ratio == 0.0


def test_a_log_that_changed_is_read_again(write, tmp_path):
    log = write("a.jsonl", record(knobs={"ow": 7}))
    assert best_config(DENSE, V4, "direct", [log]).config["ow"] == 7
    append(log, [record(knobs={"ow": 4}, seconds=5e-5).to_line()])
    assert best_config(DENSE, V4, "direct", [log]).config["ow"] == 4


def test_search_path(tmp_path, monkeypatch):
    folder, mine = tmp_path / "logs", tmp_path / "mine.jsonl"
    append(folder / "b.jsonl", [record().to_line()])
    append(mine, [record().to_line()])
    monkeypatch.setenv(ENVIRONMENT, str(folder))
    path = search_path(mine)
    assert path[:2] == (mine, folder / "b.jsonl")
    assert search_path()[0] == folder / "b.jsonl"
    assert search_path("none") == ()
    monkeypatch.setenv(ENVIRONMENT, "none")
    assert search_path() == ()
    assert search_path(mine) == (mine,)
    with pytest.raises(TvmconvError, match=r"absent\.jsonl"):
        search_path(tmp_path / "absent.jsonl")


def test_look_up_loads_no_compiler(write):
    log = write("a.jsonl", record(knobs={"ow": 7}))
    facts = json.dumps(V4.to_json())
    code = (
        "import json, sys\nfrom pathlib import Path\n"
        "from tvmconv.machines.stored import read_machine\n"
        "from tvmconv.core.workload import Conv2dWorkload\nfrom tvmconv.records import lookup\n"
        "machine = read_machine(json.loads(sys.argv[2]))\n"
        "work = Conv2dWorkload.parse(sys.argv[3])\n"
        "assert lookup.tuned(work, machine, 'direct', [Path(sys.argv[1])])\n"
        "assert not {'tvm', 'onnx', 'xgboost'} & set(sys.modules), 'heavy'\n"
    )
    subprocess.run([sys.executable, "-c", code, str(log), facts, str(DENSE)], check=True)


def test_a_record_of_a_reproduction_is_refused():
    other = replace(record(), algorithm="winograd_eta")
    assert "winograd_eta only reproduces its paper" in refusal(other)
