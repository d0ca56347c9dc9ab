"""Detection of the host from what Linux shows of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tvmconv.core.errors import TargetError
from tvmconv.machines import host as host_module
from tvmconv.machines import targets
from tvmconv.machines.host import host_cores, host_features, native_machine
from tvmconv.machines.presets import MACHINES
from tvmconv.machines.tile_unit import TILE_FEATURES
from tvmconv.machines.x86 import as_processor

needs_avx2 = pytest.mark.skipif(
    not {"avx2", "fma"} <= host_features(), reason="this processor has no AVX2"
)


@needs_avx2
def test_native_uses_what_the_host_has():
    machine = native_machine()
    assert set(machine.features) <= host_features()
    assert machine.cores == host_cores() <= len(os.sched_getaffinity(0))
    assert machine.l1d_bytes >= 16 * 1024


@needs_avx2
def test_native_reads_cache_sizes(tmp_path, monkeypatch):
    for index, (level, kind, size) in enumerate(
        [(1, "Data", "48K"), (1, "Instruction", "64K"), (2, "Unified", "2M")]
    ):
        entry = tmp_path / f"index{index}"
        entry.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (entry / name).write_text(f"{text}\n")
    (tmp_path / "index9").mkdir()
    _redirect(monkeypatch, "/sys/devices/system/cpu/cpu0/cache", tmp_path)
    machine = native_machine()
    assert (machine.l1d_bytes, machine.l2_bytes) == (48 * 1024, 2 * 1024**2)


def test_a_processor_without_avx2_is_refused_by_name(tmp_path, monkeypatch):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("model name\t: Old One\nflags\t\t: fpu sse sse2\n")
    _redirect(monkeypatch, "/proc/cpuinfo", cpuinfo)
    with pytest.raises(TargetError, match=r"Old One. Expected AVX2 .*x86-64-v3"):
        native_machine()


def test_a_host_without_cpuinfo_has_no_features(tmp_path, monkeypatch):
    _redirect(monkeypatch, "/proc/cpuinfo", tmp_path / "absent")
    assert host_features() == frozenset()


def test_features_can_be_hidden(tmp_path, monkeypatch):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("flags\t\t: avx avx2 fma avx512f avx512_vnni gfni\n")
    _redirect(monkeypatch, "/proc/cpuinfo", cpuinfo)
    everything = {"avx", "avx2", "fma", "avx512f", "avx512_vnni", "gfni"}
    for text, hidden in [
        ("", set()),
        ("avx512f", {"avx512f"}),
        ("avx512", {"avx512f", "avx512_vnni"}),
        # hiding a feature that the CPU lacks changes nothing
        (" gfni, avx512_bf16 ,", {"gfni"}),
    ]:
        monkeypatch.setenv("TVMCONV_HIDE_FEATURES", text)
        assert host_features() == everything - hidden


@pytest.mark.parametrize(("refused", "has"), [(0, True), (-1, False)])
def test_tiles_are_had_where_the_system_permits_them(refused, has, tmp_path, monkeypatch):
    """Linux gives them to processes that ask; a container's rules may refuse that."""
    cpuinfo = tmp_path / "cpuinfo"
    flags = [*MACHINES["x86-64-v4"].features, *TILE_FEATURES]
    cpuinfo.write_text(f"flags\t\t: {' '.join(flags)}\n")
    _redirect(monkeypatch, "/proc/cpuinfo", cpuinfo)
    monkeypatch.setenv("TVMCONV_HIDE_FEATURES", "")
    asked = []

    class Library:
        def syscall(self, *arguments: int) -> int:
            asked.append(arguments)
            return refused

    monkeypatch.setattr(host_module.ctypes, "CDLL", lambda _name: Library())
    assert (set(TILE_FEATURES) <= host_features()) == has
    assert (native_machine().tiles is not None) == has
    assert set(asked) == {(158, 0x1023, 18)}
    monkeypatch.setenv("TVMCONV_HIDE_FEATURES", "amx_int8")
    assert native_machine().tiles is None


def test_a_misspelt_feature_is_not_hidden_silently(monkeypatch):
    monkeypatch.setenv("TVMCONV_HIDE_FEATURES", "avx512f,axv2")
    with pytest.raises(TargetError, match=r"has unknown CPU features: axv2. .* or avx512 for"):
        host_features()


def test_hidden_features_leave_the_costs_of_the_cpu(monkeypatch):
    """Code for the generic CPU runs on the same caches and units."""
    monkeypatch.setattr(host_module, "host_features", lambda: set(MACHINES["x86-64-v3"].features))
    monkeypatch.setattr(targets, "_host_mcpu", lambda: "znver5")
    hidden = frozenset({"avx512f"})
    monkeypatch.setattr(targets, "lacks", lambda m: hidden if m.mcpu == "znver5" else ())
    machine = targets.resolve_machine("native", 1)
    expected = as_processor(MACHINES["x86-64-v3"], "znver5")
    assert machine.mcpu == "x86-64-v3"
    assert machine.rates == expected.rates != MACHINES["x86-64-v3"].rates
    assert machine.code == expected.code != MACHINES["x86-64-v3"].code


def _redirect(monkeypatch: pytest.MonkeyPatch, path: str, replacement: Path) -> None:
    """Make the module see another file in place of one of the operating system's."""
    monkeypatch.setattr(host_module, "Path", lambda p: replacement if str(p) == path else Path(p))


@pytest.mark.parametrize(
    ("ways", "expected"), [("12", (12, 4096)), ("0", (8, 4096)), ("?", (8, 4096))]
)
def test_ways_of_the_first_cache_are_those_of_the_system(tmp_path, monkeypatch, ways, expected):
    entry = tmp_path / "index0"
    entry.mkdir()
    facts = {"level": "1", "type": "Data", "size": "48K", "ways_of_associativity": ways}
    for name, text in facts.items():
        (entry / name).write_text(f"{text}\n")
    (entry / "shared_cpu_list").write_text("0\n")
    monkeypatch.setattr(host_module, "_CACHES", str(tmp_path))
    monkeypatch.setattr(host_module, "host_features", lambda: set(MACHINES["x86-64-v3"].features))
    machine = native_machine("haswell")
    assert (machine.l1d_ways, machine.l1d_way_bytes) == expected
