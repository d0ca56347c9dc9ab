"""Profiles and timings: which kernels, in which order, joined to which layers."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import programs
import pytest

from tvmconv.model import CompiledModel
from tvmconv.runtime.timing import random_inputs


def test_every_kernel_with_its_layer(dense: CompiledModel) -> None:
    profile = dense.profile(repeat=5)
    assert [k.call for k in profile] == list(dense.calls)
    for call, given in zip(dense.calls, programs.DENSE_CALLS, strict=True):
        # the code names the kernel, the program the bytes
        assert call == replace(given, kernel=f"{given.kernel}_kernel", bytes=call.bytes)
        assert call.bytes > 0
    assert len(profile) == 4 and profile[0].call.layer == "fc"
    for kernel in profile:
        assert len(kernel.samples) == 5
        assert 0 <= kernel.seconds_min <= kernel.seconds
    assert profile[0].gflops == pytest.approx(
        programs.DENSE_CALLS[0].flops / profile[0].seconds / 1e9
    )
    assert len(profile.total.samples) == 5
    assert profile.kernel_seconds == pytest.approx(sum(k.seconds for k in profile))
    json.dumps(profile.to_json())
    assert repr(profile).startswith("Profile(4 kernels, ")
    head, first, *_, last = str(profile).splitlines()
    assert head == repr(profile) and len(str(profile).splitlines()) == 5
    assert " ms  fc  (" in first and last.endswith(f"({dense.calls[-1].operator})")


def test_profile_takes_inputs_and_changes_nothing(dense: CompiledModel) -> None:
    inputs = programs.dense_inputs(3)
    before = dense.run(inputs)["hidden"].copy()
    dense.profile(inputs, repeat=2)
    assert (before == dense.run(inputs)["hidden"]).all()


def test_trace_events_follow_each_other(dense: CompiledModel) -> None:
    events = dense.profile(repeat=3).trace_events()
    assert [event["name"] for event in events] == ["fc", "act", "sum", "reduce"]
    assert all(event["ph"] == "X" for event in events)
    for earlier, later in pairwise(events):
        assert earlier["ts"] <= later["ts"]
    assert events[0]["ts"] == 0
    assert json.loads(json.dumps({"traceEvents": events}))


def test_timing(dense: CompiledModel) -> None:
    timing = dense.time(repeat=7, number=3)
    assert len(timing.samples) == 7
    assert 0 < timing.min <= timing.median <= max(timing.samples)
    assert timing.to_json()["min"] == timing.min


def test_random_inputs_are_seeded() -> None:
    from tvmconv.core.tensor import TensorInfo

    infos = [
        TensorInfo("a", (3, 4), "float32"),
        TensorInfo("i", (5,), "int64"),
        TensorInfo("b", (6,), "bool"),
    ]
    first, second = random_inputs(infos, 1), random_inputs(infos, 1)
    for info in infos:
        assert (first[info.name] == second[info.name]).all()
        assert first[info.name].dtype == info.dtype
        assert first[info.name].shape == info.shape
    assert not (random_inputs(infos, 2)["a"] == first["a"]).all()
