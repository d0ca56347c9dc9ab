"""Times of a machine that slows down while it is searched."""

from __future__ import annotations

import pytest

from tests.tuning.examples import SMALL, V3, default
from tvmconv.tuning.anchor import Anchor
from tvmconv.tuning.measure import LocalMeasurer
from tvmconv.tuning.pool import Failure, Limits, Running

GOOD = default(SMALL, V3)
CHOICES = [("direct", GOOD.replace(ow=ow)) for ow in (1, 2, 3, 4)]


class Slowing:
    """A pool on a machine that is ever slower; a kernel takes its tile's width in milliseconds."""

    def __init__(self):
        self.slowness = 1.0
        self.alive = set()
        self.dead = False

    def build(self, workload, machine, choices, draft=False):
        kernels = [Kernel(self, config) for _, config in choices]
        self.alive.update(kernels)
        return kernels


class Kernel(Running):
    def __init__(self, machine, config):
        super().__init__(None, Limits())
        self.machine = machine
        self.seconds = 1e-3 * config.int("ow")
        self.check = {"status": "correct", "error": 1e-7, "limit": 1e-5}

    def order(self, what, **details):
        if self.machine.dead:
            raise Failure("crashed", "with its machine")
        self.machine.slowness *= 1.01
        return {"samples": [self.seconds * self.machine.slowness] * details["samples"]}

    def close(self):
        self.machine.alive.discard(self)


@pytest.fixture
def pool():
    return Slowing()


def test_drift_cancels_out(pool):
    anchor = Anchor(("direct", GOOD))
    trials = list(LocalMeasurer(pool).trials(SMALL, V3, CHOICES, anchor=anchor))
    first = anchor.seconds / (1e-3 * GOOD.int("ow"))
    for number, trial in enumerate(trials, 1):
        assert trial.seconds == pytest.approx(first * number * 1e-3, rel=0.06)
    without = list(LocalMeasurer(pool).trials(SMALL, V3, CHOICES))
    assert without[0].seconds > 1.3 * trials[0].seconds
    assert len(pool.alive) == 1
    anchor.close()
    assert not pool.alive


def test_a_later_run_refers_to_the_same_moment(pool):
    first = Anchor(("direct", GOOD))
    (early,) = LocalMeasurer(pool).trials(SMALL, V3, CHOICES[:1], anchor=first)
    pool.slowness *= 3
    later = Anchor(("direct", GOOD), first.seconds)
    (late,) = LocalMeasurer(pool).trials(SMALL, V3, CHOICES[:1], anchor=later)
    assert late.seconds == pytest.approx(early.seconds, rel=0.06)


def test_an_anchor_that_dies_is_built_again(pool):
    anchor = Anchor(("direct", GOOD))
    anchor.start(pool, SMALL, V3, 2, 1e-3)
    assert anchor.slowness(anchor.sample(1e-3)) > 1
    pool.dead = True
    assert anchor.slowness(anchor.sample(1e-3)) == 1
    assert not anchor.ready
    pool.dead = False
    anchor.start(pool, SMALL, V3, 2, 1e-3)
    assert anchor.slowness(anchor.sample(1e-3)) > 1


def test_what_is_far_slower_is_timed_once(pool):
    anchor = Anchor(("direct", GOOD.replace(ow=1)))
    slow = ("direct", GOOD.replace(ow=4000))
    (trial,) = LocalMeasurer(pool).trials(SMALL, V3, [slow], 1e-3, anchor)
    assert trial.seconds == pytest.approx(4 * anchor.seconds / 1e-3, rel=0.1)
    assert pool.slowness < 1.01**9


class Bursting(Slowing):
    """A machine without other load during some samples: these are twice as fast."""

    def __init__(self, fast):
        super().__init__()
        self.fast = fast
        self.asked = 0

    def build(self, workload, machine, choices, draft=False):
        return [Burst(self, config) for _, config in choices]


class Burst(Kernel):
    def order(self, what, **details):
        self.machine.asked += 1
        slowness = 1 if self.machine.asked in self.machine.fast else 2
        return {"samples": [self.seconds * slowness] * details["samples"]}


@pytest.mark.parametrize("fast", [{6}, {9, 10}, {12}], ids=["default", "both", "candidate"])
def test_a_burst_of_speed_makes_no_winner(fast):
    anchor = Anchor(("direct", GOOD))
    equal = ("direct", GOOD)
    (trial,) = LocalMeasurer(Bursting(fast)).trials(SMALL, V3, [equal], anchor=anchor)
    assert trial.seconds == pytest.approx(anchor.seconds)


@pytest.mark.parametrize(("lead", "rounds"), [(2.0, 10), (0.5, 5)])
def test_what_would_lead_is_timed_twice_as_often(lead, rounds):
    pool = Bursting(())
    choice = ("direct", GOOD.replace(ow=2))
    anchor = Anchor(choice, 4e-3)
    list(LocalMeasurer(pool).trials(SMALL, V3, [choice], lead * anchor.seconds, anchor=anchor))
    assert pool.asked == 2 * rounds
