"""Declarations of knobs: completing, checking, and what every schedule declares."""

from __future__ import annotations

import pytest

from docs.generate.knobs import page
from tests.kernels import V3, V4
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.schedules.cpu import gemm

LAYER = Conv2dWorkload.parse("ic32ih14oc32kh3ph1")
KNOBS = Knobs(
    (
        Knob("rows", "rows of a tile", lambda w, machine: range(1, w.in_height + 1)),
        Knob("fetch", "1 prefetches", lambda w, machine: (0, 1), neutral=0, closed=True),
        Knob("order", "of loops", lambda w, machine: ("m", "n"), "m", closed=True),
    ),
    retired={"form": "good"},
)


def test_what_is_missing_is_neutral():
    expected = Config.of(rows=3, fetch=0, order="m")
    assert KNOBS.complete(Config.of(rows=3)) == expected
    assert KNOBS.complete(Config.of(rows=3, fetch=0)) == expected
    assert KNOBS.complete(Config.of(rows=3, fetch=1, order="n")) == Config.of(
        rows=3, fetch=1, order="n"
    )


def test_a_retired_knob_is_dropped_at_the_value_that_is_left():
    assert KNOBS.complete(Config.of(rows=3, form="good")) == KNOBS.complete(Config.of(rows=3))
    with pytest.raises(ConfigError, match="form is none of them"):
        KNOBS.complete(Config.of(rows=3, form="bad"))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "the knobs are rows, fetch, order; rows is missing"),
        ({"rows": 1, "zzz": 2}, "zzz is none of them"),
    ],
)
def test_configs_that_cannot_be_completed_are_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        KNOBS.complete(Config.of(**config))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": "3"}, "rows='3' of .* must be an integer"),
        ({"rows": True}, "rows=True of .* must be an integer"),
        ({"fetch": 2}, "fetch=2 of .* must be one of 0, 1"),
        ({"fetch": True}, "fetch=True of .* must be one of 0, 1"),
        ({"order": "k"}, "order='k' of .* must be one of m, n"),
        ({"order": 0}, "order=0 of .* must be one of m, n"),
    ],
)
def test_values_are_checked_by_the_declaration(change, message):
    config = KNOBS.complete(Config.of(rows=3))
    KNOBS.check(LAYER, V3, config)
    # an open range does not end where values cease to be worth trying
    KNOBS.check(LAYER, V3, config.replace(rows=99))
    with pytest.raises(ConfigError, match=message):
        KNOBS.check(LAYER, V3, config.replace(**change))


def test_a_check_takes_no_incomplete_config():
    with pytest.raises(ConfigError, match="fetch is missing, order is missing"):
        KNOBS.check(LAYER, V3, Config.of(rows=3))


@pytest.mark.parametrize("machine", [V3, V4], ids=["avx2", "avx512"])
@pytest.mark.parametrize("name", [*registry.names(), "gemm"])
def test_every_schedule_declares_its_knobs(name, machine):
    knobs = gemm.KNOBS if name == "gemm" else registry.knobs(name, machine)
    assert knobs.names
    assert len(set(knobs.names)) == len(knobs.names)
    assert not set(knobs.names) & set(knobs.retired)
    for knob in knobs:
        assert knob.doc
        assert not knob.doc.endswith(".")
    if name == "gemm":
        return
    texts = ("ic32ih14oc32kh3ph1+relu", "ic3ih14oc32kh3ph1:nchw", "g32ic32ih14oc32kh3ph1")
    for workload in map(Conv2dWorkload.parse, texts):
        if registry.algorithm(name).unsupported(workload, machine):
            continue
        values = knobs.values(workload, machine)
        config = registry.default_config(name, workload, machine)
        assert set(config) == set(values)
        registry.check(name, workload, machine, config)
        for knob in knobs:
            assert values[knob.name]
            assert knob.closed or {type(value) for value in values[knob.name]} == {int}
            if knob.neutral is not None:
                knob.check(knob.neutral, workload, machine)


def test_declarations_are_the_same_on_all_machines_of_a_family():
    # tests/packaging/test_generated.py compares the page of V3 with the file
    assert page(V4) == page(V3)
