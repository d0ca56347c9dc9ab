"""The last lines of ``examples.quickstart``: speed, differences, slowest layers, what to try."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvmconv.lab.bench.report import DISTURBED
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table, bytes_text, seconds_text

# wider spreads of the ratio, as a share of its median, leave the comparison open
_SPREAD = 0.25
_SLOWEST = 3
_COLUMNS = (
    Column("layer", "slowest"),
    Column("count", ""),
    Column("shape", "shape"),
    Column("algorithm", "algorithm"),
    Column("seconds", "ms", ".3f", 1e3),
    Column("time_share", "% time", ".1f", 100),
    Column("peak_share", "% peak", ".0f", 100),
)


@dataclass(frozen=True)
class Comparison:
    """Seconds of interleaved calls of two libraries, and the CPUs that other programs used."""

    ours: Sequence[float]
    theirs: Sequence[float]
    foreign: float

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Quartiles of the ratio of each round: onnxruntime's time over tvmconv's."""
        ratios = np.divide(self.theirs, self.ours)
        low, middle, high = np.percentile(ratios, (25, 50, 75))
        return float(low), float(middle), float(high)

    def __str__(self) -> str:
        low, middle, high = self.quartiles
        ratio = f"{middle:.2f}x as fast as onnxruntime"
        if low < 1 < high:
            ratio = f"about as fast as onnxruntime ({middle:.2f}x)"
        best = f"{seconds_text(min(self.ours))} against {seconds_text(min(self.theirs))}"
        return f"{ratio}; best calls {best}"

    @property
    def noise(self) -> str:
        """Why the result is open; empty if it is not."""
        low, middle, high = self.quartiles
        if self.foreign > DISTURBED:
            return f"too much to tell: other programs used {self.foreign:.1f} CPUs. Close them."
        if high - low > _SPREAD * middle:
            return "too much to tell: the rounds differ. Close other programs, and run this again."
        return ""


def summary(
    comparison: Report, profile: Report, foreign: float, library: Path, tables: Path
) -> Report:
    """The summary of a comparison with onnxruntime and of a profile.

    Parameters
    ----------
    comparison
        Report of :func:`~tvmconv.measuring.running.run_report`.
    profile
        Report of :func:`~tvmconv.lab.bench.layers.profile_report`.
    foreign
        CPUs that other programs used during the comparison, on average.
    library, tables
        The files that were written: the model and all tables.
    """
    samples = comparison.data["samples"], comparison.data["onnxruntime_samples"]
    speed = Comparison(*samples, foreign)
    low, _, high = speed.quartiles
    difference = comparison.facts["worst_relative_error"]
    head = {
        "speed": str(speed),
        "spread": f"{low:.2f}x to {high:.2f}x in half of the {len(speed.ours)} rounds",
        **({"noise": speed.noise} if speed.noise else {}),
        "difference": f"at most {difference:.1e} of the output's range",
        "saved": f"{library}, {bytes_text(library.stat().st_size)}",
        "tables": str(tables),
    }
    program = _program()
    notes = (
        f"Try: {program} explain {library}",
        f"     {program} bundle {library} -o {library.with_suffix('')}",
    )
    assert profile.brief is not None
    rows = [row for row in profile.brief.tables[0].rows if row["peak_share"] is not None]
    slowest = sorted(rows, key=lambda row: -float(row["seconds"]))[:_SLOWEST]
    facts = profile.facts
    return Report(
        kind="quickstart",
        title="Summary",
        brief=Report(
            "quickstart",
            f"{facts['model']}, {facts['threads']} thread(s)",
            head,
            (Table("slowest", "", _COLUMNS, slowest, one_line=True),),
            notes,
        ),
    )


def _program() -> str:
    """The command ``tvmconv`` of this environment."""
    path = Path(sys.executable).parent / "tvmconv"
    if not path.exists():
        return f"{sys.executable} -m tvmconv"
    near = os.path.relpath(path)
    return str(path) if near.startswith("..") else near
