"""A failure while kernels are compiled or measured ends in an exit code, and is named."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from examples.gpu import measuring, preparing
from examples.gpu import phases as script
from tests.emulated_gpu import EmulatedGpu, needs_emulator
from tests.lab.bench.test_gpu_bench import LAYER, WORDS
from tests.lab.bench.test_gpu_script import saved
from tvmconv.cli.output import write_text
from tvmconv.core.errors import ArtifactError
from tvmconv.lab.bench.gpu.prepare import check_compiled
from tvmconv.lab.bench.result import Entry
from tvmconv.report.document import Report
from tvmconv.report.table import Table

# refuses kernels with shared memory, which of the bench's two implicit GEMM alone has
REFUSING = """#!/bin/sh
for last; do :; done
if grep -q __shared__ "$last"; then echo "error: no shared memory today" >&2; exit 1; fi
exec "{nvcc}" "$@"
"""


@needs_emulator
def test_compiling_alone_fails_where_a_kernel_does(tmp_path):
    gpu, nvcc = EmulatedGpu(tmp_path / "gpu"), tmp_path / "nvcc"
    nvcc.write_text(REFUSING.format(nvcc=gpu.environment["NVCC"]))
    nvcc.chmod(0o755)
    words = (*WORDS, "--kernels", tmp_path / "kernels", "--compile-only", "--json")
    done = gpu.tvmconv(*words, NVCC=str(nvcc))
    assert done.returncode == 1
    # the others are compiled, and the table is written
    rows = {row["algorithm"]: row for row in json.loads(done.stdout)["kernels"]}
    assert "failure" not in rows["direct"]
    assert "no shared memory today" in rows["implicit_gemm"]["failure"]
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"tvmconv: 1 of {len(rows)} kernels failed: mb2ic8ih6")
    assert " implicit_gemm " in last and "no shared memory today" in last


def test_of_many_failures_the_first_are_named():
    row = {"workload": LAYER, "algorithm": "direct", "config": "a=1"}
    rows = [row, *({**row, "config": f"a={n}", "failure": "no"} for n in range(5))]
    report = Report("bench-compiled", "", {}, (Table("kernels", "", (), rows),))
    with pytest.raises(ArtifactError, match=r"5 of 6 kernels .*a=0: no; .*a=2: no; and 2 more$"):
        check_compiled(report)
    check_compiled(Report("bench-compiled", "", {}, (Table("kernels", "", (), rows[:1]),)))


@pytest.mark.parametrize("code", [0, 1])
def test_a_kit_names_the_kernels_that_it_lacks(code, tmp_path, monkeypatch, capsys):
    row = {"workload": LAYER, "algorithm": "direct", "config": "a=1"}
    rows = [row, {**row, "config": "a=2"} | ({"failure": "no registers"} if code else {})]
    answers = {"tf32": json.dumps({"kernels": rows}), "fp16": ""}

    def run(words, env, stdout, text, check):
        precision = words[words.index("--precision") + 1]
        return subprocess.CompletedProcess(words, code, answers[precision])

    monkeypatch.setattr(preparing.subprocess, "run", run)
    monkeypatch.setattr(preparing, "write_networks", lambda folder, small: [])
    found = preparing.prepare(tmp_path / "kit", True, "cuda:sm_90", script.PRECISIONS)
    said = capsys.readouterr().out
    assert found == code
    assert (f"tf32: {LAYER} direct a=2: no registers\nfp16: see above\n" in said) == bool(code)
    assert ("failed: tf32, fp16\n" in said) == bool(code)


@pytest.mark.parametrize(
    ("status", "message"),
    [("wrong", "the outputs differ"), ("failed", "a fault"), ("absent", "No module named 'torch'")],
)
def test_rows_that_failed_or_are_wrong_end_in_an_exit_code(status, message, tmp_path, monkeypatch):
    """And what was measured is saved, and other phases have their turn."""
    monkeypatch.setattr(measuring, "find_gpu", lambda *given: (True, "H100"))
    monkeypatch.setattr(measuring, "baselines", lambda state: [])
    (case,) = saved().results
    entries = (*case.entries[:2], Entry("cudnn", status, message=message))
    whole = replace(saved(), settings={}, results=(replace(case, entries=entries),))

    def run(words, state, seconds, meanwhile):
        write_text(Path(words[words.index("--report") + 1]), json.dumps(whole.to_json()))
        return "done", ""

    monkeypatch.setattr(measuring, "run", run)
    code = measuring.measure(tmp_path, tmp_path, False, "cuda:sm_90", 460.0, script.PRECISIONS)
    rows = json.loads((tmp_path / "summary.json").read_text())
    assert [row["phase"] for row in rows] == list(script.PRECISIONS)
    assert all((tmp_path / row["file"]).is_file() for row in rows)
    lost = status != "absent"
    assert code == lost
    but = ", but for rows that failed or are wrong (1)" * lost
    assert {row["status"] for row in rows} == {f"done{but}"}
    reason = f"cudnn {status}: {message}"
    assert rows[0]["rows_without_time"] == {reason: [case.name]}
    assert any(reason in line for line in measuring.table(rows))
