"""The progress of ``tune``.

The measuring thread writes it between two measurements: a separate thread would wake up while a
candidate is timed.
"""

from __future__ import annotations

import math
import shutil
import sys
import time
from typing import TYPE_CHECKING

from tvmconv.cli.output import general, tell
from tvmconv.core.printed import printable

if TYPE_CHECKING:
    from tvmconv.tuning.session import Progress
    from tvmconv.tuning.settings import Outcome

_SECONDS_BETWEEN = 0.2
_CLEAR = "\r\x1b[2K"


class Live:
    """A line for each finished workload, and on a terminal a status line for the current one.

    ``finished`` has the outcomes of finished workloads, also after Ctrl-C.
    """

    def __init__(self) -> None:
        self.finished: list[Outcome] = []
        self.terminal = not general.quiet and sys.stderr.isatty()
        self._next = 0.0

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        if self.terminal:
            sys.stderr.write(_CLEAR)

    def __call__(self, progress: Progress) -> None:
        """Show the progress after a trial."""
        if progress.outcome.done:
            self.finished.append(progress.outcome)
            if self.terminal:
                sys.stderr.write(_CLEAR)
            tell(line(progress))
            self._next = 0.0
        elif self.terminal and time.monotonic() >= self._next:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(_CLEAR + printable(line(progress))[:width])
            sys.stderr.flush()
            self._next = time.monotonic() + _SECONDS_BETWEEN


def line(progress: Progress) -> str:
    """Workload, best so far against the default and the best baseline, trials and time left."""
    outcome = progress.outcome
    parts = [f"{progress.number + 1}/{progress.total} {progress.task.name}:"]
    if outcome.done:
        parts.append(f"{outcome.status},")
        if outcome.status in ("recorded", "no gain"):
            parts.append(f"{outcome.speedup:.3f} x default after {outcome.trials} trials,")
    else:
        parts.append(f"trial {outcome.trials}/{progress.trials},")
    if math.isfinite(outcome.best_seconds):
        parts.append(f"best {outcome.best_seconds * 1e3:.4g} ms {outcome.best},")
    if math.isfinite(outcome.default_seconds):
        parts.append(f"default {outcome.default_seconds * 1e3:.4g} ms {outcome.default},")
    if outcome.over_baseline is not None:
        parts.append(f"{outcome.over_baseline:.2f} x {outcome.baseline},")
    if outcome.spilled:
        parts.append(f"{outcome.spilled} spilled,")
    parts.append(f"{progress.trials_left} trials left")
    if math.isfinite(progress.seconds_left):
        parts[-1] += f", {duration(progress.seconds_left)}"
    return " ".join(parts)


def duration(seconds: float) -> str:
    """``45 s``, ``12 min`` or ``3.4 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
