"""A knob that is added to a schedule: everybody's records stay, and mean what they meant."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tuning.examples import DENSE, V4, best_config, record
from tvmconv.core.knobs import Knob
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.records.logfile import append, read_log
from tvmconv.records.lookup import shipped_folder
from tvmconv.records.record import Record
from tvmconv.records.space import make_space, record_machine, refusal, validated
from tvmconv.selection.select import candidates

SHIPPED = [r for path in sorted(shipped_folder().glob("*.jsonl")) for r in read_log(path).records]
NOVEL = Knob("novel", "a knob of tomorrow", lambda w, machine: (1, 2, 4), neutral=1)


@pytest.fixture
def added(monkeypatch):
    """``direct`` with one more knob."""

    def add():
        module = registry.schedule("direct", V4)
        more = replace(module.KNOBS, knobs=(*module.KNOBS, NOVEL))
        monkeypatch.setattr(module, "KNOBS", more)
        forget()

    def forget():
        make_space.cache_clear()
        candidates.cache_clear()

    yield add
    monkeypatch.undo()
    forget()


def test_every_shipped_record_can_still_be_used(added):
    before = [validated(r, record_machine(r.machine)) for r in SHIPPED]
    assert sum(r.algorithm == "direct" for r in before) > 5
    added()
    for old, plain in zip(before, SHIPPED, strict=True):
        assert not refusal(plain)
        now = validated(plain, record_machine(plain.machine))
        for algorithm, one, other in (
            (old.algorithm, old.config, now.config),
            (old.default_algorithm, old.default_config, now.default_config),
        ):
            assert dict(other) == dict(one) | ({"novel": 1} if algorithm == "direct" else {})
        # the record that is written again equals the one that was read
        assert Record.from_line(plain.to_line()) == plain


def test_the_kernel_stays_the_same(added):
    old = next(r for r in SHIPPED if r.algorithm == "direct")
    machine = record_machine(old.machine)

    def text():
        config = validated(old, machine).config
        return make_kernel(old.workload, machine, "direct", config).prim_func().script()

    before = text()
    added()
    assert text() == before


def test_a_build_finds_the_older_record(added, tmp_path):
    log = tmp_path / "a.jsonl"
    append(log, [record(knobs={"ow": 4}).to_line()])
    before = best_config(DENSE, V4, "direct", [log])
    added()
    found = best_config(DENSE, V4, "direct", [log])
    assert dict(found.config) == {**before.config, "novel": 1}
    assert (found.ratio, found.source) == (before.ratio, before.source)


def test_default_and_search_space_have_the_knob(added):
    added()
    assert registry.default_config("direct", DENSE, V4)["novel"] == 1
    assert make_space(DENSE, V4, "direct").values["novel"] == (1, 2, 4)
    (offer, *_) = candidates(DENSE, V4, "direct")
    assert offer.config["novel"] == 1
    assert make_kernel(DENSE, V4, "direct").config["novel"] == 1
