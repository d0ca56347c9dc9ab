"""``tvmconv cpu``: the description of any target, and what was measured here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.verbs import data_of, invoke
from tvmconv.machines import probe, saved
from tvmconv.machines.record import Machine
from tvmconv.machines.stored import read_machine
from tvmconv.machines.targets import resolve_machine, shipped_machine
from tvmconv.machines.x86 import MACHINES


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(saved.ENVIRONMENT, str(tmp_path))
    return tmp_path


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The probe's result, without its seconds; tests/machines runs it."""
    machine = shipped_machine("native", 1)
    found = replace(machine, rates=replace(machine.rates, l3=7.25, origin="measured 2026-01-02"))
    monkeypatch.setattr(probe, "measure", lambda *_: probe.MeasuredRates(found, 3e9))
    return found


@pytest.mark.parametrize("target", [*MACHINES, "llvm -mcpu=skylake-avx512"])
def test_it_prints_the_record_of_any_target(target: str) -> None:
    data = data_of("cpu", "--target", target, "--threads", 3)
    machine = resolve_machine(target, 3)
    assert read_machine(data["machine"]) == machine
    rows = {row["field"]: row["value"] for row in data["fields"]}
    assert rows["cores"] == 3
    assert rows["vector.bits"] == machine.vector.bits
    assert rows["rates.memory"] == machine.rates.memory
    assert (data["rates"], data["clock"]) == ("shipped", "2.50 GHz, assumed")
    text = invoke("cpu", "--target", target, "-v").stdout
    assert all(name in text for name in rows)
    short = invoke("cpu", "--target", target).stdout
    assert f"{machine.vector.bits} bits" in short and "rates.memory" not in short


def test_measuring_changes_nothing_unless_it_is_kept(probed: Machine, folder: Path) -> None:
    data = data_of("cpu", "--threads", 1, "--measure")
    assert read_machine(data["machine"]) == probed
    assert data["clock"] == "3.00 GHz, measured"
    assert {row["field"]: row["shipped"] for row in data["fields"] if "shipped" in row} == {
        "rates.l3": shipped_machine().rates.l3,
        "rates.origin": "shipped",
    }
    assert not list(folder.iterdir())
    assert resolve_machine("native", 1).rates.origin == "shipped"


def test_what_is_kept_is_used_until_it_is_forgotten(probed: Machine, folder: Path) -> None:
    invoke("cpu", "--threads", 1, "--measure", "--keep")
    (path,) = folder.iterdir()
    data = data_of("cpu", "--threads", 1)
    assert read_machine(data["machine"]) == probed == resolve_machine("native", 1)
    assert data["clock"] == "3.00 GHz, measured"
    assert f"Removed {path}." in data_of("cpu", "--forget")["notes"]
    assert data_of("cpu", "--threads", 1)["rates"] == "shipped"
    assert "Nothing was kept." in data_of("cpu", "--forget")["notes"]


def test_a_damaged_file_can_be_forgotten(probed: Machine, folder: Path) -> None:
    invoke("cpu", "--measure", "--keep")
    (path,) = folder.iterdir()
    path.write_text("{")
    assert data_of("cpu", "--threads", 1)["rates"] == "shipped"
    assert f"Removed {path}." in data_of("cpu", "--forget")["notes"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--keep",), "--keep requires --measure"),
        (("--measure", "--keep", "--target", "x86-64-v3"), "native only, got x86-64-v3"),
        (("--forget", "--target", "x86-64-v3"), "native only, got x86-64-v3"),
        (("--target", "z80"), "z80"),
    ],
)
def test_what_makes_no_sense_is_an_error(words: tuple[str, ...], reason: str) -> None:
    result = invoke("cpu", *words)
    assert result.exit_code == 1
    assert reason in result.output + getattr(result, "stderr", "")
