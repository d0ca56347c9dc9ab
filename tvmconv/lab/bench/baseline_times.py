"""Other libraries' times of single workloads, for the tuner to show how its best compares."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.lab import baselines as baseline_table
from tvmconv.lab.bench.cases import write_layer_case
from tvmconv.lab.bench.implementation_run import reason
from tvmconv.lab.bench.result import WRONG_ABOVE
from tvmconv.lab.bench.worker_process import Implementation, WorkerError, WorkerProcess

_PREPARE_SECONDS = 300.0
_TIME_SECONDS = 120.0


class BaselineTimes:
    """Baselines in processes of their own, stopped while candidates are measured.

    A baseline is called with the same operands again and again, so its weights are in the caches,
    while candidates find theirs in memory. The comparison favors the baseline. ``pythons`` has the
    interpreter of each; ``rounds`` of ``seconds`` are timed for a workload.
    """

    def __init__(
        self,
        names: Sequence[str],
        pythons: Mapping[str, str],
        threads: int,
        rounds: int = 3,
        seconds: float = 0.05,
    ) -> None:
        self.rounds = rounds
        self.seconds = seconds
        self.failures: dict[str, str] = {}
        self._stack = ExitStack()
        self._workers = {}
        for name in names:
            baseline = baseline_table.BASELINES[name]
            if baseline.layers:
                worker = WorkerProcess(
                    Implementation(name, baseline.module, pythons[name]), threads
                )
                self._workers[name] = worker
                self._stack.callback(worker.close)

    def __enter__(self) -> BaselineTimes:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def best(self, workload: Conv2dWorkload) -> tuple[str, float]:
        """The fastest baseline that computes a workload correctly, and its seconds.

        ``("", inf)`` if none does, and for 3-D convolutions; ``failures`` has the reasons.
        """
        if workload.is_volume:
            return "", math.inf
        times: dict[str, float] = {}
        with tempfile.TemporaryDirectory(prefix="tvmconv-baselines-") as name:
            folder = Path(name)
            write_layer_case(folder, workload)
            ready = [baseline for baseline in self._workers if self._prepare(baseline, folder)]
            for _ in range(self.rounds):
                for baseline in ready:
                    times[baseline] = min(times.get(baseline, math.inf), self._time(baseline))
        fastest = min(times, key=lambda baseline: times[baseline], default="")
        seconds = times.get(fastest, math.inf)
        return (fastest, seconds) if math.isfinite(seconds) else ("", math.inf)

    def _prepare(self, baseline: str, folder: Path) -> bool:
        try:
            answer = self._workers[baseline].ask(
                _PREPARE_SECONDS, do="prepare", folder=str(folder), options={}, write=None
            )
        except WorkerError as failure:
            answer = {"failure": str(failure)}
        error = answer.get("error")
        if error is not None and error <= WRONG_ABOVE:
            return True
        self.failures[baseline] = reason(answer) if error is None else f"wrong by {error}"
        return False

    def _time(self, baseline: str) -> float:
        try:
            answer = self._workers[baseline].ask(
                _TIME_SECONDS, do="time", seconds=self.seconds, calls=2
            )
            return min(float(sample) for sample in answer["samples"])
        except (WorkerError, KeyError, ValueError) as error:
            self.failures[baseline] = str(error)
            return math.inf
