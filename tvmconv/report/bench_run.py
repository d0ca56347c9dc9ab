"""Interleaved rounds: every contender is prepared and checked, then timed in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvmconv.errors import TvmconvError
from tvmconv.report.bench_result import OWN, PEAK, WRONG_ABOVE, CaseResult, Entry
from tvmconv.report.cases import CaseInfo
from tvmconv.report.host import busy_seconds
from tvmconv.report.worker_process import Contender, WorkerError, WorkerProcess

Tell = Callable[[str], None]

_HELLO_SECONDS = 120.0
_PREPARE_SECONDS = 900.0
_SLOW_CALL = 1.0


class Field:
    """The workers of one thread count, kept over all cases; closes them at the end.

    Parameters
    ----------
    contenders
        In column order.
    threads
        Threads of every worker.
    cpus
        CPUs that every worker may use.
    """

    def __init__(self, contenders: Sequence[Contender], threads: int, cpus: Sequence[int]) -> None:
        self.threads = threads
        self._stack = ExitStack()
        self.workers = [WorkerProcess(c, threads, cpus) for c in contenders]
        for worker in self.workers:
            self._stack.callback(worker.close)
        self.versions: dict[str, str] = {}
        self.absent: dict[str, str] = {}

    def __enter__(self) -> Field:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def hello(self) -> None:
        """Ask every worker for its library's version; those without are absent."""
        for worker in self.workers:
            label = worker.contender.label
            try:
                answer = worker.ask(_HELLO_SECONDS, do="hello")
            except WorkerError as error:
                self.absent[label] = str(error)
                continue
            if "version" in answer:
                self.versions[label] = str(answer["version"])
            else:
                self.absent[label] = _reason(answer)
                worker.close()

    def measure(
        self, folder: Path, info: CaseInfo, rounds: int, seconds: float, options: Mapping[str, Any]
    ) -> CaseResult:
        """Prepare, check and time one case with every contender."""
        entries: dict[str, Entry] = {}
        live: list[tuple[WorkerProcess, float]] = []
        for worker in self.workers:
            entry, first = self._prepare(worker, folder, info, options)
            if entry.status == "unsupported" and entry.label.startswith(f"{OWN} "):
                # most layers suit one or two of our algorithms; the others are no result
                continue
            entries[worker.contender.label] = entry
            if entry.status == "ok":
                live.append((worker, first))
        for number in range(rounds):
            # the order is reversed each round, so that no contender always runs on a core that
            # another one has just heated
            for worker, first in live if number % 2 == 0 else reversed(live):
                label = worker.contender.label
                if entries[label].status == "ok":
                    entries[label] = _time(worker, entries[label], first, seconds)
        for worker, _ in live:
            _drop(worker)
        return CaseResult(
            info.name,
            info.kind,
            info.problem,
            info.flops,
            info.count,
            self.threads,
            tuple(entries.values()),
        )

    def _prepare(
        self, worker: WorkerProcess, folder: Path, info: CaseInfo, options: Mapping[str, Any]
    ) -> tuple[Entry, float]:
        label = worker.contender.label
        entry = Entry(label, "ok", self.versions.get(label, ""), operations=info.flops)
        if label in self.absent:
            return replace(entry, status="absent", message=self.absent[label]), 0.0
        merged = {**options, **dict(worker.contender.options)}
        try:
            answer = worker.ask(
                _PREPARE_SECONDS, do="prepare", folder=str(folder), options=merged, write=None
            )
        except WorkerError as error:
            return replace(entry, status="failed", message=str(error)), 0.0
        if "first_seconds" not in answer:
            status = "unsupported" if "unsupported" in answer else "failed"
            return replace(entry, status=status, message=_reason(answer)), 0.0
        entry = replace(
            entry,
            info=str(answer["info"]),
            error=answer["error"],
            operations=answer["operations"] or info.flops,
        )
        if entry.error is not None and not entry.error <= WRONG_ABOVE:
            message = f"the outputs differ from the reference by {entry.error:.1e}"
            return replace(entry, status="wrong", message=message), 0.0
        return entry, float(answer["first_seconds"])


def write_reference(contender: Contender, folder: Path) -> None:
    """Store a model's outputs, as one contender (onnxruntime) computes them.

    Raises
    ------
    TvmconvError
        If it cannot: a bench does not time what it cannot check.
    """
    worker = WorkerProcess(contender, 1)
    path = str(folder / "reference.npz")
    try:
        answer = worker.ask(
            _PREPARE_SECONDS, do="prepare", folder=str(folder), options={}, write=path
        )
        problem = "" if "first_seconds" in answer else _reason(answer)
    except WorkerError as error:
        problem = str(error)
    finally:
        worker.close()
    if problem:
        raise TvmconvError(
            f"onnxruntime, the reference of model benches, failed: {problem}; install it, or "
            "name an environment that has it with --peer-python"
        )


def _time(worker: WorkerProcess, entry: Entry, first: float, seconds: float) -> Entry:
    calls = 1 if first > _SLOW_CALL else 2
    timeout = 60 + 20 * (seconds + calls * first)
    busy = busy_seconds()
    try:
        answer = worker.ask(timeout, do="time", seconds=seconds, calls=calls)
    except WorkerError as error:
        return replace(entry, status="failed", message=str(error))
    if "samples" not in answer:
        return replace(entry, status="failed", message=_reason(answer))
    others = busy_seconds() - busy - answer["cpu_seconds"]
    foreign = round(max(others, 0.0) / max(answer["wall_seconds"], 1e-3), 2)
    return replace(
        entry,
        rounds=[*entry.rounds, answer["samples"]],
        foreign=[*entry.foreign, foreign],
    )


def _drop(worker: WorkerProcess) -> None:
    try:
        worker.ask(_HELLO_SECONDS, do="drop")
    except WorkerError:
        worker.close()


def _reason(answer: Mapping[str, Any]) -> str:
    for key in ("absent", "unsupported", "failure"):
        if key in answer:
            return str(answer[key])
    return f"unexpected answer {answer!r}"


def describe(result: CaseResult) -> str:
    """One line of progress."""
    parts = []
    for entry in result.entries:
        if entry.status != "ok":
            parts.append(f"{entry.label} {entry.status}")
        elif entry.label == PEAK:
            parts.append(f"peak {entry.gflops or 0:.0f} GFLOP/s")
        else:
            parts.append(f"{entry.label} {(entry.best or 0) * 1e3:.3f} ms")
    return f"{result.name} ({result.threads} thread(s)): " + ", ".join(parts)
