"""The list of named targets, from Python and from the command line."""

from __future__ import annotations

import tvmconv
from tests.cli.verbs import data_of
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
