"""The short view of ``run``: outputs, time, and the comparison with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvmconv.report.document import Report
from tvmconv.report.summary import compiled_for
from tvmconv.report.table import Column, Table, seconds_text

if TYPE_CHECKING:
    from tvmconv.artifact.facts import ModelFacts

# keys of the table of outputs that a short view leaves out
_LEFT_OUT = ("dtype", "mean", "max_difference")
_OUTPUTS = 4


def run_brief(model: ModelFacts, title: str, facts: Mapping[str, Any], outputs: Table) -> Report:
    """The short view of a report of :func:`~tvmconv.measuring.running.run_report`."""
    head: dict[str, str] = {}
    if "call_seconds_median" in facts:
        head["time"] = (
            f"median {seconds_text(facts['call_seconds_median'])}, 99 % within "
            f"{seconds_text(facts['call_seconds_p99'])}, {facts['calls_per_second']:.1f} calls/s"
        )
    if "onnxruntime_seconds_min" in facts:
        head["onnxruntime"] = (
            f"{seconds_text(facts['onnxruntime_seconds_min'])}; "
            f"tvmconv is {speed_text(facts['speedup_over_onnxruntime'])}"
        )
    if "worst_relative_error" in facts:
        head["difference"] = f"at most {facts['worst_relative_error']:.1e} of an output's range"
    if "written" in facts:
        head["wrote"] = str(facts["written"])
    left = len(outputs.rows) - _OUTPUTS
    columns: tuple[Column, ...] = tuple(c for c in outputs.columns if c.key not in _LEFT_OUT)
    shown = Table("values", "", columns, outputs.rows[:_OUTPUTS], one_line=True)
    return Report(
        kind="run",
        title=f"{title}, {compiled_for(model)}",
        facts=head,
        tables=(shown,),
        notes=(f"-v shows {left} more outputs.",) if left > 0 else (),
    )


def speed_text(ratio: float) -> str:
    """``2.1x as fast`` of the time of another library over ours."""
    return f"{ratio:.2f}x as fast"
