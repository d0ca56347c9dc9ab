"""The trials of a tuning run, next to its log: the same command continues from there.

One JSON line a trial, appended as trials end. A search repeats its proposals for the same seed and
times. So an interrupted run repeats its steps from the journal and measures only missing trials.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmconv.core.config import Config
from tvmconv.core.errors import TvmconvError
from tvmconv.records.logfile import append, read_lines

# the status of a candidate that was not timed because nvcc spilled its registers
SPILLED = "spilled"


def trials_path(log: Path) -> Path:
    """The file that has the trials of a log."""
    return log.with_suffix(".trials")


@dataclass(frozen=True)
class Trial:
    """One measured candidate.

    ``status`` is ``timed`` or the reason of a failure (``hung``, ``crashed``, ``error``, ``wrong``,
    ``spilled``); ``seconds`` is infinite then.
    """

    algorithm: str
    config: Config
    status: str
    seconds: float
    error: float = 0.0


class Journal:
    """The trials of one log, in a file with the suffix ``.trials`` next to it.

    ``context`` tells trials of other machines and versions apart.
    """

    def __init__(self, log: Path, context: Mapping[str, Any]) -> None:
        self.path = trials_path(log)
        self._context = dict(context)
        self._trials: dict[str, dict[tuple[str, Config], Trial]] = {}
        self._finished: dict[str, list[dict[str, Any]]] = {}
        self._results: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
        if self.path.exists():
            for _, line in read_lines(self.path):
                self._take(line)

    def trials(self, workload: str) -> dict[tuple[str, Config], Trial]:
        """Trials of a workload by algorithm and config."""
        return self._trials.get(workload, {})

    def finished(self, workload: str, settings: Mapping[str, Any]) -> bool:
        """Whether a run with these settings came to its end for a workload."""
        return dict(settings) in self._finished.get(workload, [])

    def add(self, workload: str, trials: Iterable[Trial]) -> None:
        """Keep trials."""
        lines = []
        for trial in trials:
            self._trials.setdefault(workload, {})[trial.algorithm, trial.config] = trial
            data = {
                "algorithm": trial.algorithm,
                "config": trial.config.to_json(),
                "status": trial.status,
                "error": trial.error,
            }
            if math.isfinite(trial.seconds):
                data["seconds"] = trial.seconds
            lines.append(self._line(workload, data))
        append(self.path, lines)

    def finish(self, workload: str, settings: Mapping[str, Any]) -> None:
        """Note that a workload is done."""
        self._finished.setdefault(workload, []).append(dict(settings))
        append(self.path, [self._line(workload, {"finished": dict(settings)})])

    def result(self, workload: str, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result that :meth:`keep` stored for a workload with these settings."""
        known = self._results.get(workload, [])
        return next((result for key, result in known if key == dict(settings)), None)

    def keep(self, workload: str, settings: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Remember the result of a search, of a comparison, or of the default."""
        self._results.setdefault(workload, []).append((dict(settings), dict(result)))
        data = {"compared": dict(settings), "result": dict(result)}
        append(self.path, [self._line(workload, data)])

    def _line(self, workload: str, data: Mapping[str, Any]) -> str:
        entry = {"v": 1, "workload": workload, **data, "context": self._context}
        return json.dumps(entry, separators=(",", ":"))

    def _take(self, line: bytes) -> None:
        """Read a line; an incomplete line, or a line of another context, is skipped."""
        try:
            data = json.loads(line)
            if data["v"] != 1 or data["context"] != self._context:
                return
            workload = str(data["workload"])
            if "finished" in data:
                self._finished.setdefault(workload, []).append(data["finished"])
                return
            if "compared" in data:
                pair = (dict(data["compared"]), dict(data["result"]))
                self._results.setdefault(workload, []).append(pair)
                return
            trial = Trial(
                algorithm=str(data["algorithm"]),
                config=Config.from_json(data["config"]),
                status=str(data["status"]),
                seconds=float(data.get("seconds", math.inf)),
                error=float(data.get("error", 0.0)),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, TvmconvError):
            return
        self._trials.setdefault(workload, {})[trial.algorithm, trial.config] = trial
