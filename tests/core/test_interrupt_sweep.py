"""The signal at every single step that Python takes outside of the guard."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tvmconv
from tests.small_network import small_network
from tvmconv.core import interrupts

VALUE = np.ones((1, 3, 21, 20), "float32")


@pytest.fixture(scope="module")
def built() -> tvmconv.CompiledModel:
    return tvmconv.build(small_network().SerializeToString(), threads=1)


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Interruption:
    """Sends the signal at one call or return, counted from 0."""

    def __init__(self, moment: int) -> None:
        self.moment = moment
        self.count = 0

    def __call__(self, _frame: FrameType, _event: str, _argument: object) -> None:
        if interrupts._noted.depth:
            return
        self.count += 1
        if self.count == self.moment + 1:
            signal.raise_signal(signal.SIGINT)


def came_out(moment: int, action: Callable[[], object]) -> bool | None:
    """Whether KeyboardInterrupt did; None if the action has fewer steps."""
    interruption = Interruption(moment)
    outcome = False
    try:
        sys.setprofile(interruption)
        action()
        # a step too, at which the signal may come
        sys.setprofile(None)
    except KeyboardInterrupt:
        outcome = True
    finally:
        sys.setprofile(None)
    return outcome if interruption.count > moment else None


def check(action: Callable[[], object], usable: Callable[[], Any]) -> None:
    moment, lost = 0, []
    while (outcome := came_out(moment, action)) is not None:
        if not outcome:
            lost.append(moment)
        assert usable(), moment
        moment += 1
    assert lost == []
    assert moment > 50


def test_the_first_call(built: tvmconv.CompiledModel, tmp_path: Path) -> None:
    model = tvmconv.load(built.save(tmp_path / "model.so"))
    # a runner that nobody holds would be freed meanwhile, in finalisers that lose exceptions
    runners = []

    def call() -> None:
        runners.append(model._runner)
        model._runner = None
        model.run(VALUE)

    check(call, lambda: not model._lock._lock.locked())
    assert model.run(VALUE)[0].sum() == pytest.approx(1)


def test_load(built: tvmconv.CompiledModel, tmp_path: Path) -> None:
    path = built.save(tmp_path / "model.so")
    models: list[tvmconv.CompiledModel] = []
    check(lambda: models.append(tvmconv.load(path)), lambda: True)
    assert tvmconv.load(path).run(VALUE)[0].sum() == pytest.approx(1)


def test_save(built: tvmconv.CompiledModel, tmp_path: Path) -> None:
    path = tmp_path / "model.so"
    check(lambda: built.save(path), lambda: True)
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["model.json", "model.so"]
    assert tvmconv.load(path).run(VALUE)[0].sum() == pytest.approx(1)


class Enough(Exception):
    """Ends a build at its first step."""


def test_build() -> None:
    model = small_network().SerializeToString()

    def progress(*_: object) -> None:
        raise Enough

    def build() -> None:
        with suppress(Enough):
            tvmconv.build(model, threads=1, progress=progress)

    check(build, lambda: interrupts._noted.depth == 0)
