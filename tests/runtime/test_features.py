"""CPU features that a module asks of the processor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvmconv.machines.features import required_features
from tvmconv.machines.host import host_features, native_machine
from tvmconv.machines.x86 import MACHINES


def test_what_llvm_may_use_is_required() -> None:
    v3 = required_features(MACHINES["x86-64-v3"])
    assert {"avx2", "fma", "abm", "bmi2", "sse4_2", "pni", "ssse3"} <= set(v3)
    assert not [name for name in v3 if name.startswith("avx512")]
    cascadelake = required_features(replace(MACHINES["x86-64-v4"], mcpu="cascadelake"))
    assert "avx512_vnni" in cascadelake
    assert "avx512_vnni" not in required_features(MACHINES["x86-64-v4"])
    assert "avx512_bf16" in required_features(replace(MACHINES["x86-64-v4"], mcpu="znver4"))


def test_tuning_and_system_flags_are_not() -> None:
    names = set(required_features(replace(MACHINES["x86-64-v4"], mcpu="znver4")))
    assert not names & {"vzeroupper", "aes", "sha", "clwb", "fast-gather", "xsave", "rdpid"}


def test_native_build_runs_here() -> None:
    from tvmconv.machines.targets import resolve_machine

    assert host_features() >= set(required_features(resolve_machine("native")))
    assert host_features() >= set(required_features(native_machine()))


@pytest.mark.parametrize(
    ("hidden", "mcpu"), [("", "cascadelake"), ("avx512_vnni", "x86-64-v4"), ("avx512", "x86-64-v3")]
)
def test_hidden_features_are_not_used(
    monkeypatch: pytest.MonkeyPatch, hidden: str, mcpu: str
) -> None:
    """A hypervisor may show a Cascade Lake without its VNNI instructions."""
    from tvmconv.machines import host, targets

    cascadelake = required_features(replace(MACHINES["x86-64-v4"], mcpu="cascadelake"))
    monkeypatch.setattr(targets, "_host_mcpu", lambda: "cascadelake")
    monkeypatch.setattr(host, "_cpu_flags", lambda: frozenset(cascadelake))
    monkeypatch.setenv("TVMCONV_HIDE_FEATURES", hidden)
    assert targets.resolve_machine("native").mcpu == mcpu
