"""A forked child works, or says that it cannot; it never waits for a lock that nobody holds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tvmconv.core.errors import TvmconvError
from tvmconv.runtime import forks

ROOT = Path(__file__).parents[2]


def ways(work: str, count: int, path: Path) -> set[str]:
    """How children ended that were forked while two other threads did some work."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("forking.py")), work, str(count), str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60 + 4 * count,
    )
    found = dict(word.split(":") for word in done.stdout.split())
    assert sum(map(int, found.values())) == count
    return set(found)


@pytest.mark.parametrize("work", ["calling", "loading", "saving"])
def test_forks_during_calls(busy_files: dict[int, Path], work: str) -> None:
    assert ways(work, 10 if work == "calling" else 6, busy_files[2]) == {"0"}


def test_forks_during_a_build(busy_files: dict[int, Path]) -> None:
    assert ways("building", 5, busy_files[2]) <= {"0", "refused"}


def test_a_child_of_a_builder_builds_and_ends() -> None:
    """TVM's pool of threads, once it exists, would wait for threads that a child does not have."""
    program = """
import os, signal, sys
import numpy as np, tvmconv
from tests.small_network import small_network

model = tvmconv.build(small_network(), threads=2)
value = np.ones((1, 3, 21, 20), "float32")
expected = model.run(value)[0]
if (process := os.fork()) == 0:
    signal.alarm(300)
    assert np.array_equal(model.run(value)[0], expected)
    assert np.array_equal(tvmconv.build(small_network(), threads=2).run(value)[0], expected)
    sys.exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert (done.stdout.strip(), done.stderr) == ("5", "")


@pytest.mark.slow
@pytest.mark.parametrize("work", ["calling", "loading", "saving", "building"])
@pytest.mark.parametrize("threads", [1, 2])
def test_many_forks(busy_files: dict[int, Path], work: str, threads: int) -> None:
    allowed = {"0", "refused"} if work == "building" else {"0"}
    assert ways(work, 300, busy_files[threads]) <= allowed


def status_of_child() -> int:
    """Exit code of a forked child that enters a native part: 0 if it may, 3 if it is refused."""
    process = os.fork()
    if process == 0:
        try:
            with forks.native():
                os._exit(0)
        except TvmconvError:
            os._exit(3)
        finally:
            os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@pytest.mark.parametrize("lengthy", [False, True])
def test_a_fork_waits_for_calls_and_not_for_builds(lengthy: bool) -> None:
    inside, leave = threading.Event(), threading.Event()

    def part() -> None:
        with forks.native(lengthy=lengthy), forks.native():
            inside.set()
            leave.wait(0.3)

    worker = threading.Thread(target=part, daemon=True)
    worker.start()
    assert inside.wait(60)
    assert status_of_child() == (3 if lengthy else 0)
    assert worker.is_alive() == lengthy
    leave.set()
    worker.join()
    assert status_of_child() == 0


def test_what_takes_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_PATIENCE_SECONDS", 0.05)
    inside, leave = threading.Event(), threading.Event()

    def part() -> None:
        with forks.native():
            inside.set()
            leave.wait(60)

    worker = threading.Thread(target=part, daemon=True)
    worker.start()
    assert inside.wait(60)
    assert status_of_child() == 3
    leave.set()
    worker.join()


def test_the_forking_thread_does_not_wait_for_itself() -> None:
    with forks.native():
        assert status_of_child() == 0
        with forks.native(lengthy=True):
            assert status_of_child() == 0


def test_no_part_begins_during_a_fork() -> None:
    """Parts entered and left all the time by several threads never meet a fork."""
    end = time.monotonic() + 0.5

    def enter() -> None:
        while time.monotonic() < end:
            with forks.native():
                pass

    workers = [threading.Thread(target=enter) for _ in range(4)]
    for worker in workers:
        worker.start()
    while time.monotonic() < end:
        assert status_of_child() == 0
    for worker in workers:
        worker.join()


def test_locks_of_the_runtime_are_announced() -> None:
    """A plain lock would be held for ever in a child that was forked at the wrong moment."""
    for file in (ROOT / "tvmconv" / "runtime").glob("*.py"):
        if file.name != "forks.py":
            assert not re.search(
                r"threading\.(R?Lock|Condition)\(|cached_property", file.read_text()
            )
