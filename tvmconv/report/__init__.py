"""Reports and benchmarks.

Public: :func:`profile_report`, :func:`explain_report`, :func:`run_report` and
:func:`compile_report` return a :class:`Report`, which :func:`print_report` shows and
``Report.to_json`` turns into plain data; :func:`measure_peak` probes the machine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvmconv.report.bench import make_plan, run_plan
    from tvmconv.report.bench_report import bench_report
    from tvmconv.report.document import Column, Report, Table
    from tvmconv.report.explain import explain_report
    from tvmconv.report.layers import layer_report, profile_report
    from tvmconv.report.peak import Peak, measure_peak
    from tvmconv.report.render import print_report
    from tvmconv.report.running import run_report
    from tvmconv.report.summary import compile_report

__all__ = [
    "Column",
    "Peak",
    "Report",
    "Table",
    "bench_report",
    "compile_report",
    "explain_report",
    "layer_report",
    "make_plan",
    "measure_peak",
    "print_report",
    "profile_report",
    "run_plan",
    "run_report",
]

# numpy, rich and TVM are loaded with the function that needs them, for the command line's sake
_LAZY = {
    "Column": "document",
    "Peak": "peak",
    "Report": "document",
    "Table": "document",
    "bench_report": "bench_report",
    "compile_report": "summary",
    "explain_report": "explain",
    "layer_report": "layers",
    "make_plan": "bench",
    "measure_peak": "peak",
    "print_report": "render",
    "profile_report": "layers",
    "run_plan": "bench",
    "run_report": "running",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tvmconv.report' has no attribute {name!r}")
    return getattr(import_module(f"tvmconv.report.{_LAZY[name]}"), name)
