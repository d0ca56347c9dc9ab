"""Judges tests in processes of their own, so that a crash or a hang counts for one test."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from multiprocessing.connection import Connection
from threading import local

from tvmconv.backend.cases import Case
from tvmconv.backend.judge import FOREIGN, LEFT_OUT, Verdict

# a process keeps the code of its models, so it is replaced after so many
_MODELS = 200
_SECONDS = 300.0


def judge_all(cases: Iterator[Case], jobs: int, seconds: float = _SECONDS) -> Iterator[Verdict]:
    """The verdicts in the order of the cases; ``seconds`` is the time limit of each."""
    workers = local()
    started: list[_Worker] = []

    def judged(case: Case) -> Verdict:
        if case.left_out:
            return Verdict(case.kind, case.name, LEFT_OUT, case.left_out)
        if not hasattr(workers, "mine"):
            workers.mine = _Worker(seconds)
            started.append(workers.mine)
        verdict: Verdict = workers.mine.judge(case)
        return verdict

    with ThreadPoolExecutor(jobs) as pool:
        try:
            # not all at once, as the cases hold their data
            while batch := [*islice(cases, 8 * jobs)]:
                yield from pool.map(judged, batch)
        finally:
            for worker in started:
                worker.stop()


class _Worker:
    """A process that judges one case at a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._start()

    def _start(self) -> None:
        # a forked process would share TVM's locks and threads
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._left = _MODELS

    def judge(self, case: Case) -> Verdict:
        if not self._left:
            self.stop()
            self._start()
        self._left -= 1
        try:
            self._pipe.send(case)
            if self._pipe.poll(self._seconds):
                verdict: Verdict = self._pipe.recv()
                return verdict
            reason = f"no result after {self._seconds:g} s"
        except (EOFError, OSError):
            self._process.join(self._seconds)
            reason = _death(self._process.exitcode)
        self.stop()
        self._start()
        return Verdict(case.kind, case.name, FOREIGN, reason)

    def stop(self) -> None:
        self._pipe.close()
        self._process.kill()
        self._process.join()


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"the process ended by {signal.Signals(-code).name}"
    return f"the process ended with code {code}"


def _serve(pipe: Connection) -> None:
    # compilers and TVM write to it
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    from tvmconv.backend.judge import judge

    while True:
        try:
            case = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        pipe.send(judge(case))
