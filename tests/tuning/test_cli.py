"""The subcommands ``tune`` and ``log`` through their entry point."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tests.tuning.examples import POINTWISE, SMALL, V3, record
from tvmconv.cli.main import app
from tvmconv.core.config import Config
from tvmconv.machines.host import host_cores
from tvmconv.records.logfile import append, read_log


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def told(*words):
    """The one line of a user error."""
    result = invoke(*words)
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.splitlines()
    return line


@pytest.fixture
def logs(tmp_path):
    mine, theirs = tmp_path / "mine.jsonl", tmp_path / "theirs.jsonl"
    stale = replace(record(SMALL), config=Config.of(gone=1))
    append(mine, [record(knobs={"ow": 7}).to_line(), "nonsense", stale.to_line()])
    append(theirs, [record(knobs={"ow": 7}).to_line(), record(knobs={"ow": 4}).to_line()])
    return mine, theirs


@pytest.mark.parametrize(
    "words",
    [
        ("records", "show"),
        ("records", "best"),
        ("records", "verify"),
        ("records", "export"),
        ("records", "prune"),
        ("records", "merge", "GOOD", "-o"),
        ("tune", "--layer", str(POINTWISE), "--tuning-log"),
        ("bench", "run", "--layer", str(POINTWISE), "--baselines", "none", "--tuning-log"),
    ],
    ids=lambda words: words[0] + words[1],
)
def test_a_file_without_any_record_is_no_log(logs, words, tmp_path):
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text("\nnonsense\n{}\n")
    line = told(*(logs[0] if word == "GOOD" else word for word in words), wrong)
    assert f"no line of {wrong} is a tuning record (line 2: not JSON" in line
    assert wrong.read_text() == "\nnonsense\n{}\n"


def test_show_and_best(logs):
    shown = json.loads(invoke("records", "show", *logs, "--json").stdout)
    assert (len(shown["records"]), shown["skipped_lines"]) == (3, 1)
    assert f"{logs[0]}:2" in shown["notes"][0]
    best = json.loads(invoke("records", "best", *logs, "--match", "oc64", "--json").stdout)
    assert len(best["records"]) == 1
    assert "no record matches" in told("records", "show", logs[0], "--match", "oc999")


def test_merge_joins_once_and_keeps_what_was_there(logs, tmp_path):
    output = tmp_path / "all.jsonl"
    for _ in range(2):
        assert invoke("records", "merge", *logs, "-o", output).exit_code == 0
        assert len(read_log(output).records) == 3


def test_prune_and_export(logs, tmp_path):
    output = tmp_path / "best.jsonl"
    assert invoke("records", "export", *logs, "-o", output).exit_code == 0
    assert len(read_log(output).records) == 1
    report = json.loads(invoke("records", "prune", logs[0], "--json").stdout)
    assert (report["kept"], report["dropped"]) == (1, 1)
    log = read_log(logs[0])
    assert (len(log.records), log.skipped) == (1, ())


def test_verify_measures_again(tmp_path):
    log, fresh = tmp_path / "a.jsonl", tmp_path / "fresh.jsonl"
    foreign = record(machine=replace(V3, cores=7))
    hostile = replace(record(POINTWISE, V3), config=Config.of(oc=99))
    entries = [record(POINTWISE, V3, knobs={"ow": 1}), foreign, hostile]
    append(log, [entry.to_line() for entry in entries])
    words = ("--target", "x86-64-v3", "--threads", 1, "-o", fresh, "--json")
    rows = json.loads(invoke("records", "verify", log, *words).stdout)["records"]
    assert rows[0]["status"] in ("no gain", "confirmed")
    assert rows[0]["error"] < 1e-5
    assert [row["status"] for row in rows[1:]] == ["foreign", "refused"]
    assert rows[1]["why"] == "for avx2 and 7 thread(s), this is avx2 and 1"
    confirmed = rows[0]["status"] == "confirmed"
    assert (len(read_log(fresh).records) if fresh.exists() else 0) == confirmed


def test_verify_takes_the_threads_of_each_record(tmp_path):
    log = tmp_path / "a.jsonl"
    cores = [1, min(2, host_cores()), 99]
    entries = [record(POINTWISE, replace(V3, cores=n), knobs={"ow": 1}) for n in cores]
    entries.append(replace(entries[0], machine={**entries[0].machine, "cores": 0}))
    append(log, [entry.to_line() for entry in entries])
    words = ("--target", "x86-64-v3", "--json")
    rows = json.loads(invoke("records", "verify", log, *words).stdout)["records"]
    assert [row["status"] == "foreign" for row in rows] == [False] * (len(rows) - 2) + [True] * 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to tune"),
        (("--layer", "mb1"), "cannot read|lacks"),
        (("--layer", POINTWISE, "--search", "magic"), "knobs, metaschedule or both"),
        (("--layer", POINTWISE, "--algorithms", "magic"), "magic"),
        (("--layer", POINTWISE, "--rpc-key", "lab"), "--rpc-tracker"),
        (("--layer", POINTWISE, "--rpc-tracker", "x"), "--rpc-key"),
    ],
)
def test_wrong_arguments_are_one_line(words, message, tmp_path):
    assert re.search(message, told("tune", *words, "--tuning-log", tmp_path / "a.jsonl"))


def test_help_shows_examples_and_loads_nothing_heavy():
    assert "  tvmconv tune " in invoke("tune", "--help").stdout
    script = (
        "import sys\nfrom typer.testing import CliRunner\nfrom tvmconv.cli.main import app\n"
        "for words in (['tune'], ['log'], ['log', 'verify']):\n"
        "    assert CliRunner().invoke(app, [*words, '--help']).exit_code == 0\n"
        "print(sorted({'tvm', 'onnx', 'numpy', 'xgboost'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
