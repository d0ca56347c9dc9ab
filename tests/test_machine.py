"""Machine records, and detection of the host from what Linux shows of it."""

from __future__ import annotations

import json
import os
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmconv import machine as machine_module
from tvmconv.errors import TargetError
from tvmconv.machine import MACHINES, host_cores, host_features, native_machine

needs_avx2 = pytest.mark.skipif(
    not {"avx2", "fma"} <= host_features(), reason="this processor has no AVX2"
)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=str)
def test_records_are_consistent(machine):
    vector_bytes = {"avx2": 32, "avx512": 64}[machine.isa]
    assert vector_bytes == machine.lanes * np.dtype(np.float32).itemsize
    assert machine.vector_registers == machine.lanes * 2
    assert machine.l1d_bytes < machine.l2_bytes < machine.l3_bytes
    # latency times throughput must fit the register file, or no tile could reach peak
    assert machine.minimum_accumulators < machine.vector_registers
    assert MACHINES[machine.name] is machine


def test_the_wider_machine_has_every_feature_of_the_narrower():
    narrow, wide = MACHINES["x86-64-v3"], MACHINES["x86-64-v4"]
    assert set(narrow.features) < set(wide.features)


@given(st.integers(1, 10_000), st.sampled_from(list(MACHINES.values())))
def test_blocks_hold_the_channels_with_less_than_one_spare(channels, machine):
    held = machine.blocks(channels) * machine.lanes
    assert channels <= held < channels + machine.lanes


def test_records_are_frozen_and_serialise():
    machine = MACHINES["x86-64-v4"]
    with pytest.raises(FrozenInstanceError):
        machine.lanes = 8
    data = json.loads(json.dumps(machine.to_json()))
    assert data["lanes"] == 16
    assert machine.with_cores(3).cores == 3


@needs_avx2
def test_native_uses_what_the_host_has():
    machine = native_machine()
    assert set(machine.features) <= host_features()
    assert machine.cores == host_cores() == len(os.sched_getaffinity(0))
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
    with pytest.raises(TargetError, match=r"\(Old One\) lacks AVX2.*x86-64-v3"):
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
        # of a feature that the processor lacks nothing is left to hide
        (" gfni, avx512_bf16 ,", {"gfni"}),
    ]:
        monkeypatch.setenv("TVMCONV_HIDE_FEATURES", text)
        assert host_features() == everything - hidden


def test_a_misspelt_feature_is_not_hidden_silently(monkeypatch):
    monkeypatch.setenv("TVMCONV_HIDE_FEATURES", "avx512f,axv2")
    with pytest.raises(TargetError, match=r"TVMCONV_HIDE_FEATURES names axv2, .* or avx512 for"):
        host_features()


def _redirect(monkeypatch: pytest.MonkeyPatch, path: str, replacement: Path) -> None:
    """Make the module see another file in place of one of the operating system's."""
    monkeypatch.setattr(
        machine_module, "Path", lambda p: replacement if str(p) == path else Path(p)
    )
