"""Cache misses by cachegrind: its file, and kernels whose misses are known."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from tests.cli.verbs import data_of, invoke
from tests.kernels import V3
from tvmconv.core.errors import ArtifactError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.lab.estimation import cachegrind
from tvmconv.lab.estimation.cachegrind import Misses, read_counts, stage_misses
from tvmconv.machines.gate import lacks

needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None or bool(lacks(V3)), reason="needs valgrind and AVX2"
)
LAYER = "ic16ih32oc16kh3ph1:u8s8s32u8:zpdata+bias"
FILE = """desc: D1 cache: 32768 B
cmd: call
events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw
fl=???
fn=kernel1
0 10 0 0 7 3 1 5 2 1
summary: 99 9 9 8 4 2 5 1 1
"""


def test_counts_are_those_of_the_summary():
    assert read_counts(FILE.splitlines()) == Misses(13, 5, 3)


def test_without_valgrind_there_is_an_error(monkeypatch):
    monkeypatch.setattr(cachegrind.shutil, "which", lambda name: None)
    result = invoke("dev", "cache-misses", "--layer", LAYER, "--target", "x86-64-v3")
    assert result.exit_code == 1
    assert "apt install valgrind" in result.stderr


@needs_valgrind
def test_code_that_valgrind_cannot_execute_is_refused():
    kernel = make_kernel(Conv2dWorkload.parse(LAYER), V3, "direct")
    with pytest.raises(ArtifactError, match="without AVX-512"):
        stage_misses(replace(kernel, machine=_vnni()))


def _vnni():
    from tvmconv.machines.targets import resolve_machine

    return resolve_machine("llvm -mcpu=icelake-server", 1)


@needs_valgrind
def test_misses_of_stages_add_up_and_cover_the_weights():
    kernel = make_kernel(Conv2dWorkload.parse(LAYER), V3, "winograd")
    found = stage_misses(kernel)
    assert list(found) == ["input transform", "products", "output transform"]
    assert all(misses.references > 1000 for misses in found.values())
    size = kernel.expression.packed_weight_bytes(kernel.workload, V3, kernel.config)
    # each line of weights is read for the first time
    assert found["products"].first >= size // V3.line_bytes


@needs_valgrind
def test_the_command_lists_every_stage():
    words = ("dev", "cache-misses", "--layer", LAYER, "--target", "x86-64-v3")
    rows = data_of(*words, "--algorithms", "direct,winograd")["misses"]
    stages = {(row["contender"], row["stage"]) for row in rows}
    assert ("tvmconv direct", "whole call") in stages
    assert ("tvmconv winograd", "products") in stages
