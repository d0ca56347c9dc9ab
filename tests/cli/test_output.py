"""Output that has no place to go: a full disk, a closed descriptor, an encoding of few letters."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tvmconv.__main__ import main
from tvmconv.cli.output import emit
from tvmconv.core.errors import ArtifactError
from tvmconv.core.plain_data import json_text
from tvmconv.core.results import write_result
from tvmconv.lab.bench.report import bench_report
from tvmconv.lab.bench.result import BenchResult, CaseResult, Entry, read_saved
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table

COMMAND = f"{sys.executable} -m tvmconv machine --target x86-64-v3"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("> /dev/full", 1, "tvmconv: cannot write the standard output: No space left on device\n"),
        ("--json > /dev/full", 1, "tvmconv: cannot write the standard output: "),
        (">&-", 0, ""),
        ("| head -c 1 > /dev/null", 0, ""),
    ],
)
def test_standard_output_that_takes_nothing(words: str, code: int, said: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        f"{COMMAND} {words}",
        shell=True,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == (1 if said else 0)


def test_a_result_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.json"
    write_result(path, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        for name in ("result.json", "new.json"):
            with pytest.raises(ArtifactError, match=rf"cannot write .*{name}: No space left"):
                write_result(tmp_path / name, b"new")
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]
    assert path.read_bytes() == b"old"
    write_result(path, b"new")
    assert path.read_bytes() == b"new"


def test_devices_are_written_as_they_are(tmp_path: Path) -> None:
    write_result(Path("/dev/null"), b"new")
    with pytest.raises(ArtifactError, match=r"cannot write /dev/full: No space left on device"):
        write_result(Path("/dev/full"), b"new")
    assert Path("/dev/null").is_char_device()


def test_an_interrupted_start_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "tvmconv.cli.main", SimpleNamespace(main=interrupted))
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    assert capfd.readouterr() == ("", "")


def strict(text: str) -> Any:
    """The value that a parser of strict JSON reads."""

    def refuse(word: str) -> Any:
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


def test_numbers_that_are_not_finite_are_null(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"output": "y", "error": float("inf")}, {"output": "z", "error": np.float64("nan")}]
    table = Table("values", "Outputs", (Column("output", "output"),), rows)
    report = Report("run", "a", {"worst": float("-inf")}, (table,), data={"all": (1.5, [rows])})
    emit(report, True, tmp_path / "report.json")
    read = strict(capsys.readouterr().out)
    assert read == strict((tmp_path / "report.json").read_text())
    assert read["worst"] is None
    assert [row["error"] for row in read["values"]] == [None, None]
    assert read["all"][0] == 1.5 and read["all"][1][0][0] == {"output": "y", "error": None}


def test_measurements_without_a_finite_error_are_shown(tmp_path: Path) -> None:
    """A library whose outputs hold NaN has an infinite error."""
    wrong = Entry("ncnn", "wrong", message="NaN", error=float("inf"))
    right = Entry("tvmconv", "ok", error=1e-6, rounds=[[0.25], [0.25]])
    case = CaseResult("ic4ih9oc4kh3", "layer", "ic4ih9oc4kh3", 100, 1, 1, (right, wrong))
    machine = {"cpu": "a"}
    result = BenchResult(machine, {"rounds": 2, "seconds": 0.1}, (case,))
    path = tmp_path / "bench.json"
    path.write_text(json_text(result.to_json()))
    strict(path.read_text())
    shown = read_saved(path)
    assert [entry.error for entry in shown.results[0].entries] == [1e-6, None]
    assert "ncnn" in str(bench_report(shown))
