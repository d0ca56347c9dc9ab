"""Records and targets of 64-bit Arm processors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tvm.target import Target

from tvmconv.core.errors import ArtifactError, TargetError
from tvmconv.machines import arm, host, hwcap
from tvmconv.machines.features import required_features
from tvmconv.machines.gate import ensure_machine
from tvmconv.machines.host import native_machine
from tvmconv.machines.presets import MACHINES, similar
from tvmconv.machines.record import Machine
from tvmconv.machines.stored import read_machine
from tvmconv.machines.targets import resolve_machine

each_record = pytest.mark.parametrize("machine", arm.MACHINES.values(), ids=lambda m: m.name)
# bits of AT_HWCAP that Linux has names for, which models and this package check
C_NAMES = "tvmconv/runtime/c/features.c"
A72 = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"


@each_record
def test_records_are_consistent(machine: Machine) -> None:
    assert (machine.vector.bits, machine.lanes, machine.channel_block) == (128, 4, 4)
    assert machine.vector_registers == 32
    assert not machine.vector.scalable
    assert machine.l1d_bytes < machine.l2_bytes
    assert machine.l3_bytes == 0 or machine.l2_bytes < machine.l3_bytes
    assert machine.l1d_ways * machine.l1d_way_bytes == machine.l1d_bytes
    assert machine.minimum_accumulators < machine.vector_registers
    rates = machine.rates
    assert rates.l1 >= rates.l2 >= rates.behind_l2 >= rates.memory > 0
    assert (rates.l3 > 0) == (machine.l3_bytes > 0)
    assert rates.l1 <= machine.load_ports * machine.vector_bytes
    assert rates.multiply_adds <= machine.fma_units
    assert rates.broadcasts <= machine.load_ports
    assert rates.origin == "shipped"
    assert MACHINES[machine.name] is machine
    assert resolve_machine(machine.name, 3) == machine.with_cores(3)
    assert read_machine(machine.to_json()) == machine


@each_record
def test_llvm_knows_each_and_takes_neon_alone(machine: Machine) -> None:
    assert Target(machine.tvm_target()).attrs["mcpu"] == machine.mcpu
    needed = required_features(machine)
    assert {"asimd", "fp"} <= set(needed)
    # Neoverse V1, N2 and V2 have SVE, which code for NEON must not use
    assert not [name for name in needed if name.startswith("sve")]


@each_record
def test_models_know_the_names_of_features(machine: Machine, pytestconfig: pytest.Config) -> None:
    arm_part = (pytestconfig.rootpath / C_NAMES).read_text().split("__aarch64__", 1)[1]
    assert set(required_features(machine)) <= set(re.findall(r'"(\w+)"', arm_part))


def test_generic_code_runs_on_every_core() -> None:
    assert required_features(MACHINES["aarch64"]) == ("asimd", "fp")


@pytest.mark.parametrize(
    ("target", "name", "mcpu", "triple"),
    [
        (A72, "cortex-a72", "cortex-a72", "aarch64-linux-gnu"),
        ("llvm -mtriple=aarch64-linux-gnu", "aarch64", "generic", "aarch64-linux-gnu"),
        ("llvm -mtriple=aarch64", "aarch64", "generic", "aarch64-linux-gnu"),
        ("llvm -mtriple=arm64-linux-gnu -mattr=+neon", "aarch64", "generic", "aarch64-linux-gnu"),
        (
            "llvm -mtriple=aarch64-linux-musl -mcpu=neoverse-v1",
            "neoverse-v1",
            "neoverse-v1",
            "aarch64-linux-musl",
        ),
        (
            "llvm -mtriple=aarch64-unknown-linux-android21 -mcpu=cortex-x1",
            "cortex-x1",
            "cortex-x1",
            "aarch64-unknown-linux-android21",
        ),
        (
            {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a53"},
            "cortex-a53",
            "cortex-a53",
            "aarch64-linux-gnu",
        ),
    ],
    ids=str,
)
def test_strings_and_dictionaries(target: object, name: str, mcpu: str, triple: str) -> None:
    machine = resolve_machine(target, 1)
    assert (machine.family, machine.isa) == ("arm", "neon")
    assert (machine.name, machine.mcpu, machine.triple) == (name, mcpu, triple)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "cortex-a53+sve",
            r"unsupported target 'cortex-a53\+sve'; did you mean .*use 'llvm .*sm_90",
        ),
        (f"{A72} -mattr=+sve2", r"\+sve2 is not supported\. Use \+sve alone"),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=-neon", "AArch64 without NEON is not supported"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=haswell", "not know -mcpu=haswell; try 'generic'"),
        ("llvm -mtriple=arm64-apple-macos", "supported on AArch64: Linux"),
        ("llvm -mtriple=aarch64-windows-msvc", "supported on AArch64: Linux"),
    ],
)
def test_what_has_no_schedules_is_refused(target: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        resolve_machine(target)


def test_the_record_of_a_processor_or_the_first() -> None:
    assert similar("neon", "neoverse-n1") is MACHINES["neoverse-n1"]
    assert similar("neon", "cortex-x1") is MACHINES["aarch64"]
    assert similar("avx512", "cascadelake") is MACHINES["x86-64-v4"]
    assert similar("mmx", "pentium") is None


@each_record
def test_its_code_is_refused_on_another_architecture(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # some flags of x86 have the names of Arm's flags
    flags = frozenset({"avx2", "fma", "fp", "aes", "bf16", "i8mm"})
    monkeypatch.setattr(host, "_cpu_flags", lambda: flags)
    with pytest.raises(ArtifactError, match=r"net\.so was built for .* needs a 64-bit Arm"):
        ensure_machine(machine, "net.so")


def test_features_are_read_by_the_same_bits_as_in_models(pytestconfig: pytest.Config) -> None:
    arm_part = (pytestconfig.rootpath / C_NAMES).read_text().split("__aarch64__", 1)[1]
    array = arm_part[arm_part.index("{") : arm_part.index("}")]
    assert tuple(re.findall(r'"(\w+)"', array)) == hwcap.NAMES
    # Cortex-A53 and A64FX, under Linux
    assert {"asimd", "crc32"} <= hwcap.features_of(0x8FF, 0)
    assert "sve" not in hwcap.features_of(0x8FF, 0)
    assert "sve" in hwcap.features_of(0x4151FB, 0)
    assert hwcap.features_of(0, 1 << 1) == {"sve2"}


def test_an_arm_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A system as on a Raspberry Pi 4: its name, and a second-level cache of four cores."""
    for level, kind, size, cpus in (
        (1, "Data", "32K", "0"),
        (1, "Instruction", "48K", "0"),
        (2, "Unified", "1024K", "0-3"),
    ):
        entry = tmp_path / f"cache/index{level}{kind}"
        entry.mkdir(parents=True)
        facts = {"level": level, "type": kind, "size": size, "shared_cpu_list": cpus}
        for name, text in facts.items():
            (entry / name).write_text(f"{text}\n")
    (tmp_path / "model").write_bytes(b"Raspberry Pi 4 Model B Rev 1.4\0")
    elsewhere = {
        "/sys/devices/system/cpu/cpu0/cache": tmp_path / "cache",
        "/proc/device-tree/model": tmp_path / "model",
    }
    monkeypatch.setattr(host, "Path", lambda path: elsewhere.get(str(path), Path(path)))
    monkeypatch.setattr(host, "_is_arm", lambda: True)
    monkeypatch.setattr(host, "arm_features", lambda: hwcap.features_of(0x8FF, 0))
    machine = native_machine("cortex-a72")
    assert (machine.mcpu, machine.isa, machine.triple) == (
        "cortex-a72",
        "neon",
        arm.MACHINES["aarch64"].triple,
    )
    assert (machine.l1d_bytes, machine.l2_bytes, machine.l3_bytes) == (32 << 10, 256 << 10, 0)
    assert host.host_model() == "Raspberry Pi 4 Model B Rev 1.4"
    assert host._count("0-3,6,8-9") == 7


def test_native_on_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_cpu_flags", lambda: frozenset({"fp", "asimd", "crc32"}))
    monkeypatch.setattr(host, "_host_caches", dict)
    assert native_machine().rates == MACHINES["aarch64"].rates
    found = native_machine("neoverse-n1")
    assert (found.name, found.mcpu) == ("native", "neoverse-n1")
    assert found.fma_units == 2


def test_one_thread_has_the_whole_of_a_shared_l2() -> None:
    machine = MACHINES["cortex-a72"]
    assert [machine.with_cores(n).l2_bytes >> 10 for n in (1, 2, 4, 8)] == [1024, 512, 256, 256]
    assert machine.with_cores(4).with_cores(1) == machine
    own = MACHINES["neoverse-n1"]
    assert own.with_cores(4).l2_bytes == own.l2_bytes
