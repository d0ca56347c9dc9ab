"""Merging logs of several people, the best of each problem, pruning."""

from __future__ import annotations

from dataclasses import replace

from tests.tuning.examples import DENSE, SMALL, V3, V4, default, estimated, record
from tvmconv.core.config import Config
from tvmconv.records.space import refusal
from tvmconv.records.store import best, merge, prune


def test_conflicting_logs_merge_into_all_records_once():
    mine = (record(knobs={"ow": 7}), record(SMALL))
    theirs = (record(SMALL), record(knobs={"ow": 4}, seconds=8e-5))
    assert merge([mine, theirs]) == (*mine, theirs[1])
    assert best(merge([mine, theirs])) == (theirs[1], mine[1])


def test_best_is_relative_to_the_default_of_the_same_run():
    # the second machine was throttled: longer times, larger gain
    slow = record(knobs={"ow": 7}, seconds=2e-4, default_seconds=6e-4)
    fast = record(knobs={"ow": 4}, seconds=1e-4, default_seconds=2e-4)
    assert best([fast, slow]) == (slow,)


def test_machines_and_algorithms_do_not_compete():
    records = (record(), record(machine=V3), record(machine=replace(V4, cores=2)))
    assert best(records) == records


def test_estimates_do_not_compete_with_measurements():
    measured = record(knobs={"ow": 7}, seconds=1.9e-4)
    guess = estimated(record(knobs={"ow": 4}, seconds=1e-6))
    assert best([guess, measured]) == (guess, measured)
    assert prune([guess, measured])[0] == (guess, measured)


def test_prune_drops_what_the_schedule_no_longer_takes():
    good, worse = record(knobs={"ow": 7}), record(knobs={"ow": 4}, seconds=1.5e-4)
    stale = replace(record(), config=Config.of(gone=1))
    broken = replace(record(), config=default(DENSE, V4).replace(oc=4, oh=4, ow=28))
    kept, dropped = prune([worse, stale, broken, good])
    assert kept == (good,)
    assert {r.config: why for r, why in dropped}[worse.config] == "another record is better"
    assert "knobs" in refusal(stale)
    assert "out of range" in refusal(broken) or "registers" in refusal(broken)


def test_prune_drops_small_gains():
    good, small = record(knobs={"ow": 7}), record(SMALL, seconds=1.95e-4)
    kept, dropped = prune([small, good], min_speedup=1.5)
    assert kept == (good,)
    ((found, why),) = dropped
    assert found == small
    assert why == f"its speed-up of {small.speedup:.3f} is too small"
    assert prune([small, good])[0] == (small, good)
