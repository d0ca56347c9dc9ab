"""The list of named targets, from Python and from the command line."""

from __future__ import annotations

import pytest

import tvmconv
from tests.cli.verbs import data_of, invoke
from tvmconv.core.errors import TargetError
from tvmconv.machines.record import Machine
from tvmconv.machines.several import running_here
from tvmconv.machines.targets import GPUS, PRESETS


def test_every_preset_is_listed():
    names = [info.name for info in tvmconv.targets()]
    assert set(names) == {*PRESETS, *GPUS} - {"native"}
    assert [row["target"] for row in data_of("targets")["targets"]] == names


def test_a_target_names_what_its_code_needs():
    found = {info.name: info for info in tvmconv.targets()}
    assert "avx512f" in found["x86-64-v4"].features
    assert found["cuda:sm_90"].kind == "gpu"


def test_errors_are_public():
    assert issubclass(tvmconv.errors.ModelError, tvmconv.errors.TvmconvError)


def test_bench_measures_the_target_that_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(machine: Machine) -> tuple[str, ...]:
        return () if machine.name == "x86-64-v3" else ("amx",)

    monkeypatch.setattr("tvmconv.machines.several.lacks", lacking)
    names = ["x86-64-v3", "x86-64-v4", "sapphirerapids"]
    assert running_here(names) == "x86-64-v3"
    with pytest.raises(TargetError, match=r"runs none of them\. sapphirerapids requires amx"):
        running_here(names[1:])
    plans = []

    def measure(plan: object, *_: object) -> None:
        plans.append(plan)
        raise TargetError("enough")

    monkeypatch.setattr("tvmconv.lab.bench.measuring.run_plan", measure)
    done = invoke("bench", "run", "--layer", "ic4ih5oc4kh1", "--target", ",".join(names))
    assert [plan.target for plan in plans] == ["x86-64-v3"]
    assert "enough" in done.stderr and "x86-64-v3 of the list" in done.stderr
