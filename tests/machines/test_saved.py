"""Measured machines in the user's folder: used for native, reported when damaged, forgotten."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tvmconv
from tests.small_network import small_network
from tvmconv.core.errors import TvmconvError
from tvmconv.machines import saved
from tvmconv.machines.record import Machine
from tvmconv.machines.targets import resolve_machine, shipped_machine
from tvmconv.report.clock import clock_of

HERTZ = 3.25e9


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(saved.ENVIRONMENT, str(tmp_path / "machines"))
    return tmp_path / "machines"


@pytest.fixture
def measured() -> Machine:
    """As the probe would return it."""
    machine = shipped_machine("native", 1)
    rates = replace(machine.rates, l2=33.5, memory=3.5, origin="measured 2026-01-02")
    return replace(machine, rates=rates, fma_units=1, fma_latency=5)


def test_native_is_what_was_measured(folder: Path, measured: Machine) -> None:
    assert resolve_machine("native", 1) == shipped_machine("native", 1)
    path = saved.save(measured, HERTZ)
    assert path.parent == folder
    assert resolve_machine("native", 1) == measured
    assert shipped_machine("native", 1) != measured
    assert [entry.name for entry in folder.iterdir()] == [path.name], "nothing temporary is left"
    again = replace(measured, rates=replace(measured.rates, l2=44.0))
    saved.save(again, HERTZ)
    assert resolve_machine("native", 1) == again
    assert saved.forget(measured) == path
    assert saved.forget(measured) is None
    assert resolve_machine("native", 1) == shipped_machine("native", 1)


def test_files_of_older_versions_lack_the_rate_of_all_cores(
    folder: Path, measured: Machine
) -> None:
    path = saved.save(measured, HERTZ)
    data = json.loads(path.read_text())
    del data["rates"]["all_memory"]
    path.write_text(json.dumps(data))
    shipped = replace(measured, rates=replace(measured.rates, all_memory=12.5))
    assert saved.as_measured(shipped) == shipped


def test_only_native_is(folder: Path, measured: Machine) -> None:
    saved.save(measured, HERTZ)
    for target in ("x86-64-v3", f"llvm -mcpu={measured.mcpu}", shipped_machine("native", 1)):
        assert resolve_machine(target, 1).rates.origin == "shipped"


def test_the_user_may_ignore_it(
    folder: Path, measured: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved.save(measured, HERTZ)
    monkeypatch.setenv(saved.ENVIRONMENT, saved.NEVER)
    assert resolve_machine("native", 1) == shipped_machine("native", 1)
    with pytest.raises(TvmconvError, match=r"TVMCONV_MACHINES=none.*Unset"):
        saved.save(measured, HERTZ)


@pytest.mark.parametrize("field", ["cpu", "isa", "mcpu"])
def test_another_processor_of_the_same_home_is_left_alone(
    folder: Path, measured: Machine, field: str
) -> None:
    path = saved.save(measured, HERTZ)
    path.write_text(json.dumps({**json.loads(path.read_text()), field: "another"}))
    assert resolve_machine("native", 1) == shipped_machine("native", 1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("{", "JSONDecodeError"),
        ("[]", "not a measured machine"),
        ("\x00", "JSONDecodeError"),
        ("[" * 60_000, "RecursionError"),
        (" " * 70_000, "too many"),
        ({"format": "other"}, "not a measured machine"),
        ({"format_version": 9}, "format version 9"),
        ({"rates": {}}, "TypeError"),
        ({"rates": {"l1": 1}}, "TypeError"),
        ({"fma_units": 0}, "fma_units=0"),
        ({"fma_units": 2.0}, "fma_units=2.0"),
        ({"fma_latency": True}, "fma_latency=True"),
        ({"hertz": -1}, "hertz=-1"),
        ({"hertz": float("nan")}, "hertz=nan"),
        ({"cpu": None}, "not strings"),
    ],
    ids=repr,
)
def test_a_damaged_file_is_reported_and_not_used(
    folder: Path,
    measured: Machine,
    change: str | dict[str, Any],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = saved.save(measured, HERTZ)
    data = json.loads(path.read_text())
    path.write_text(change if isinstance(change, str) else json.dumps({**data, **change}))
    with caplog.at_level(logging.WARNING):
        assert resolve_machine("native", 1) == shipped_machine("native", 1)
    (message,) = [record.getMessage() for record in caplog.records]
    assert str(path) in message
    assert reason in message
    assert "tvmconv cpu --forget" in message


@pytest.mark.parametrize("name", ["l1", "l2", "l3", "memory", "broadcasts", "multiply_adds"])
def test_no_single_rate_is_believed(
    folder: Path, measured: Machine, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = saved.save(measured, HERTZ)
    data = json.loads(path.read_text())
    data["rates"][name] = -1.0
    path.write_text(json.dumps(data))
    assert resolve_machine("native", 1) == shipped_machine("native", 1)
    assert f"{name}=-1.0" in caplog.text


def test_a_folder_that_cannot_be_written_is_an_error(folder: Path, measured: Machine) -> None:
    folder.write_text("a file")
    with pytest.raises(TvmconvError, match="cannot write"):
        saved.save(measured, HERTZ)


def test_a_build_uses_it_and_its_manifest_says_so(
    folder: Path, measured: Machine, tmp_path: Path
) -> None:
    saved.save(measured, HERTZ)
    model = tvmconv.build(small_network(), threads=1)
    assert model.machine == measured
    model.save(tmp_path / "net.so")
    saved.forget(measured)
    assert tvmconv.load(tmp_path / "net.so").machine == measured


def test_the_clock_is_stated_with_the_rates_it_belongs_to(folder: Path, measured: Machine) -> None:
    saved.save(measured, HERTZ)
    clock = clock_of(measured)
    assert str(clock) == "3.25 GHz, measured"
    assert clock.seconds(6.5e9) == 2.0
    assert str(clock_of(shipped_machine("native", 1))) == "2.50 GHz, assumed"
