"""Runs attempts in forked processes with limits, and counts what becomes of them.

The process that calls :func:`run_attempts` has everything imported and forks a child for each batch
of attempts. A child reports every attempt when it starts and ends. If the child dies, the started
attempt is at fault, and the next child continues after it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import selectors
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tvmconv.core.errors import TvmconvError, UnexpectedError

OUTCOMES = ("ok", "unchecked", "refused", "crash", "hang", "guarded", "foreign", "wrong")
# a guarded failure ends in an error message, but nobody meant to raise it
BAD = ("crash", "hang", "guarded", "foreign", "wrong")

# a child that outlives its own alarm by this is killed
_GRACE = 20.0
_DETAIL = 2000


class Wrong(Exception):
    """An attempt computed or allowed something wrong."""


Note = Callable[[str], None]


class Attempts(Protocol):
    """One kind of attempts, prepared: everything that children share is in memory.

    ``batch`` is the most attempts one child makes.
    """

    batch: int

    def make(self, generator: random.Random) -> Any:
        """The input of an attempt; the same for equal states of the generator."""

    def files(self, case: Any) -> Mapping[str, bytes]:
        """The input as files that reproduce a failure."""

    def judge(self, case: Any, note: Note) -> bool:
        """Try the input; returns whether a result could be compared with anything.

        ``note("reference")`` says that from now on only other people's code runs, whose
        failures do not count. Raises :class:`Wrong`, or what tvmconv raised.
        """


@dataclass(frozen=True)
class Limits:
    """For one attempt: seconds, and bytes of address space beyond the mapped ones."""

    seconds: float = 60.0
    memory: int = 4 << 30


@dataclass(frozen=True)
class Result:
    """The outcome of one attempt."""

    index: int
    outcome: str
    detail: str = ""


@dataclass(eq=False)
class _Child:
    pid: int
    pipe: int
    indices: range
    log: Any
    text: bytes = b""
    current: int | None = None
    stage: str = ""
    since: float = field(default_factory=time.monotonic)
    next: int = 0


def generator_of(seed: int, index: int) -> random.Random:
    """The source of all choices of one attempt."""
    return random.Random(f"{seed}/{index}")


def run_attempts(
    attempts: Attempts,
    *,
    seed: int,
    first: int = 0,
    count: int | None = None,
    seconds: float | None = None,
    jobs: int = 1,
    limits: Limits = Limits(),
) -> Iterator[Result]:
    """Results as they come, of attempts ``first``, ``first + 1``, ...

    Parameters
    ----------
    attempts
        The attempts to run.
    seed
        With an attempt's number decides everything that is random in it.
    count, seconds
        When to stop; whichever comes first.
    jobs
        Children at a time.
    limits
        For one attempt.
    """
    end = sys.maxsize if count is None else first + count
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    pending: list[range] = []
    fresh = first
    with selectors.DefaultSelector() as selector:
        while True:
            while len(selector.get_map()) < jobs and time.monotonic() < deadline:
                if not pending and fresh < end:
                    pending.append(range(fresh, min(fresh + attempts.batch, end)))
                    fresh = pending[-1].stop
                if not pending:
                    break
                child = _fork(attempts, seed, pending.pop(), limits, deadline)
                selector.register(child.pipe, selectors.EVENT_READ, child)
            if not selector.get_map():
                return
            ready = {key.fd for key, _ in selector.select(1.0)}
            for key in list(selector.get_map().values()):
                child = key.data
                if child.pipe in ready and (data := os.read(child.pipe, 1 << 16)):
                    yield from _told(child, data)
                elif child.pipe in ready:
                    selector.unregister(child.pipe)
                    yield from _ended(child, limits)
                    if time.monotonic() < deadline and child.next < child.indices.stop:
                        pending.append(range(child.next, child.indices.stop))
                elif time.monotonic() - child.since > limits.seconds + _GRACE:
                    os.kill(child.pid, signal.SIGKILL)
                    child.since = float("inf")


def _fork(attempts: Attempts, seed: int, indices: range, limits: Limits, deadline: float) -> _Child:
    reader, writer = os.pipe()
    log = tempfile.TemporaryFile()  # noqa: SIM115 - the child writes it, and its end is read
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(writer)
        return _Child(pid, reader, indices, log, next=indices.start)
    try:
        os.close(reader)
        # pytest's keeps the parent's error stream
        faulthandler.disable()
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        _limit(limits)
        for index in indices:
            if time.monotonic() > deadline:
                break
            log.seek(0)
            log.truncate()
            _attempt(attempts, seed, index, limits, writer)
        _tell(writer, "end", indices.stop)
    finally:
        # without the exit handlers of the interpreter and of TVM: this is the parent's work
        os._exit(0)


def _limit(limits: Limits) -> None:
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    ceiling = mapped + limits.memory
    resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _attempt(attempts: Attempts, seed: int, index: int, limits: Limits, writer: int) -> None:
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + limits.seconds) + 1, hard))
    signal.setitimer(signal.ITIMER_REAL, limits.seconds)
    _tell(writer, "start", index)
    outcome, detail = "ok", ""
    stages: list[str] = []

    def note(stage: str) -> None:
        stages.append(stage)
        _tell(writer, "stage", index, stage)

    try:
        case = attempts.make(generator_of(seed, index))
        outcome = "ok" if attempts.judge(case, note) else "unchecked"
    except UnexpectedError as error:
        outcome, detail = "guarded", f"{error}\n{_traceback(error.__cause__)}"
    except TvmconvError as error:
        outcome, detail = "refused", str(error)
    except Wrong as error:
        outcome, detail = "wrong", str(error)
    except BaseException:
        outcome, detail = "foreign", traceback.format_exc()
    signal.setitimer(signal.ITIMER_REAL, 0)
    _tell(writer, outcome, index, detail[-_DETAIL:])


def _traceback(error: BaseException | None) -> str:
    return "".join(traceback.format_exception(error)) if error else ""


def _tell(writer: int, what: str, index: int, detail: str = "") -> None:
    data = json.dumps([what, index, detail]).encode() + b"\n"
    while data:
        data = data[os.write(writer, data) :]


def _told(child: _Child, data: bytes) -> Iterator[Result]:
    *lines, child.text = (child.text + data).split(b"\n")
    for line in lines:
        what, index, detail = json.loads(line)
        child.since = time.monotonic()
        if what == "start":
            child.current, child.stage = index, ""
        elif what == "stage":
            child.stage = detail
        elif what == "end":
            child.next = index
        else:
            child.current, child.next = None, index + 1
            yield Result(index, what, detail)


def _ended(child: _Child, limits: Limits) -> Iterator[Result]:
    """The attempt that a child died of, if it did not end by itself."""
    os.close(child.pipe)
    _, status = os.waitpid(child.pid, 0)
    with child.log:
        child.log.seek(0)
        tail = child.log.read()[-_DETAIL:].decode("utf-8", "replace")
    if child.current is None:
        if child.next == child.indices.start and not os.WIFEXITED(status):
            raise RuntimeError(f"the child died before its first attempt:\n{tail}")
        return
    child.next = child.current + 1
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    how = f"signal {signal.Signals(number).name}" if number else f"exit status {status >> 8}"
    started = f"(in a process that began with attempt {child.indices.start})"
    slow = number in (signal.SIGALRM, signal.SIGXCPU, signal.SIGKILL)
    outcome = "hang" if slow else "crash"
    if slow:
        how = f"more than {limits.seconds:g} s ({how})"
    if child.stage == "reference":
        outcome = "unchecked"
    yield Result(child.current, outcome, f"{how} {started}\n{tail}")
