"""The runner reports every way in which an attempt can end, and continues after it."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest

from tests.fuzz.runner import Limits, Note, Wrong, run_attempts
from tvmconv.core.errors import InputError, UnexpectedError


def _hang() -> None:
    time.sleep(60)


def _raise(error: BaseException) -> None:
    raise error


_ENDS = {
    "ok": lambda: None,
    "refused": lambda: _raise(InputError("no")),
    "wrong": lambda: _raise(Wrong("no")),
    "foreign": lambda: _raise(KeyError("no")),
    "guarded": lambda: _raise(UnexpectedError("no")),
    "crash": os.abort,
    "hang": _hang,
}


class _Ends:
    """Every attempt ends in the same way."""

    batch = 5

    def __init__(self, end: Callable[[], object] = os.abort) -> None:
        self.end = end

    def make(self, generator: random.Random) -> random.Random:
        return generator

    def files(self, case: random.Random) -> dict[str, bytes]:
        return {}

    def judge(self, case: random.Random, note: Note) -> bool:
        self.end()
        return True


@pytest.mark.parametrize("outcome", _ENDS)
def test_outcome(outcome: str) -> None:
    attempts = _Ends(_ENDS[outcome])
    results = list(run_attempts(attempts, seed=0, count=2, limits=Limits(seconds=0.5)))
    assert [(r.index, r.outcome) for r in results] == [(0, outcome), (1, outcome)]


def test_failures_of_other_runtimes_do_not_count() -> None:
    class Reference(_Ends):
        def judge(self, case: random.Random, note: Note) -> bool:
            note("reference")
            self.end()
            return True

    outcomes = [r.outcome for r in run_attempts(Reference(), seed=0, count=3)]
    assert outcomes == ["unchecked"] * 3
