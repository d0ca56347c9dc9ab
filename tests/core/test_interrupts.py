"""Ctrl-C during a build: an exception soon, and a process that can build again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tvmconv.core.interrupts import checkpoint, uninterrupted

pytestmark = pytest.mark.any_processor
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def signal_is_heard() -> Iterator[None]:
    """Here and in processes started from here, though a shell ignores it for background jobs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def own_handler() -> Iterator[list[int]]:
    calls: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: calls.append(number))
    yield calls
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def in_fresh_process(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def stages_reached(processes: int, moments: int) -> list[str]:
    """Where builds were at seeded random moments; the first of each process imports TVM."""
    random, stages = np.random.default_rng(0), []
    for _ in range(processes):
        waits = [random.uniform(0, 3), *random.uniform(0, 1.5, moments - 1)]
        lines = in_fresh_process("tests/interrupted.py", *waits).splitlines()
        stages += [line.partition(",")[0] for line in lines]
    return stages


def test_builds_interrupted_at_6_moments() -> None:
    stages = stages_reached(1, 6)
    assert len(stages) == 6
    # Z3 takes the signal for itself during a proof: 2 ms of a build in all
    assert stages.count("lost") <= 1


@pytest.mark.timeout(3000)
@pytest.mark.slow
def test_builds_interrupted_at_200_moments() -> None:
    stages = stages_reached(20, 10)
    assert set(stages) >= {"import", "choose algorithms", "schedule kernels", "generate code"}
    assert stages.count("lost") <= 3


def test_other_threads_leave_waiting_calls_interruptible() -> None:
    """Z3 restores the handler in a way that lets system calls go on after the signal."""
    program = """
import os, threading, tvmconv
from tests.small_network import small_network
worker = threading.Thread(target=tvmconv.build, args=(small_network(),), kwargs={"threads": 1})
worker.start()
worker.join()
os.system(f"(sleep 0.2; kill -INT {os.getpid()}) &")
try:
    os.read(os.pipe()[0], 1)
    print("lost")
except KeyboardInterrupt:
    print("heard")
"""
    assert in_fresh_process("-c", program) == "heard"


def test_the_signal_waits_for_the_end() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        with uninterrupted():
            interrupt()
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]


def test_the_signal_goes_before_an_error_that_it_caused() -> None:
    """The linker, a child of this process, gets the same Ctrl-C and fails."""
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        interrupt()
        raise ValueError


def test_checkpoints_end_the_work() -> None:
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        checkpoint()
        interrupt()
        checkpoint()
        pytest.fail("the work went on")
    checkpoint()


def test_handlers_that_return_let_the_work_go_on(own_handler: list[int]) -> None:
    handler = signal.getsignal(signal.SIGINT)
    with uninterrupted():
        interrupt()
        assert own_handler == []
        checkpoint()
        assert own_handler == [signal.SIGINT]
        interrupt()
    assert own_handler == [signal.SIGINT] * 2
    assert signal.getsignal(signal.SIGINT) is handler


def test_handlers_set_meanwhile_stay(own_handler: list[int]) -> None:
    def later(number: int, frame: object) -> None:
        own_handler.append(-number)

    with uninterrupted():
        signal.signal(signal.SIGINT, later)
    assert signal.getsignal(signal.SIGINT) is later
    interrupt()
    assert own_handler == [-signal.SIGINT]


@pytest.mark.parametrize("disposition", [signal.SIG_IGN, signal.SIG_DFL])
def test_signals_without_a_handler_are_left_alone(disposition: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, disposition)
    try:
        with uninterrupted():
            checkpoint()
            assert signal.getsignal(signal.SIGINT) is disposition
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_change_nothing() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work() -> None:
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert seen == [before]
