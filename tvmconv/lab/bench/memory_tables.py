"""The memory of each method on each layer, by formula and measured, against im2col."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmconv.core.errors import WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.lab.bench.case_memory import layer_bytes
from tvmconv.lab.bench.result import PEAK, BenchResult, CaseResult
from tvmconv.report.table import Column, Table, plain

_MIB = 2.0**-20
_IM2COL = "im2col, formula"
# the baseline of measured ratios
_MEASURED_IM2COL = "tvmconv im2col:mc=0"

_MEMORY = (
    *plain("case", "method"),
    Column("input_bytes", "input MiB", ".2f", _MIB),
    Column("filter_bytes", "filter MiB", ".2f", _MIB),
    Column("output_bytes", "output MiB", ".2f", _MIB),
    Column("buffer_bytes", "buffer MiB", ".2f", _MIB),
    Column("total_bytes", "total MiB", ".2f", _MIB),
    Column("of_im2col", "% of im2col", ".1f", 100),
    Column("call_bytes", "measured: output and buffer MiB", ".2f", _MIB),
)
_SUMMARY = (
    *plain("method", "cases"),
    Column("less", "less than im2col"),
    Column("ratio_of_means", "ratio of means", ".3f"),
    Column("mean_of_ratios", "mean of ratios", ".3f"),
    Column("min", "least", ".3f"),
    Column("max", "largest", ".3f"),
    Column("measured_ratio_of_means", "measured: ratio of means", ".3f"),
    Column("measured_mean_of_ratios", "measured: mean of ratios", ".3f"),
)


def memory_tables(result: BenchResult) -> list[Table]:
    """Bytes of the layers, and every method compared with the whole im2col buffer.

    Rows ``..., formula`` are for plain tensors. Ours hold the packed weights and the workspace of
    the kernel. Measured bytes are the growth of a process in its first call.
    """
    threads = min((case.threads for case in result.results), default=1)
    groups = [_rows(c) for c in result.results if c.threads == threads and c.kind == "layer"]
    return tables_of(groups, _MEASURED_IM2COL)


def tables_of(groups: list[list[dict[str, Any]]], measured_im2col: str = "") -> list[Table]:
    """Tables of the rows of each layer, see :func:`method_rows` and :func:`memory_tables`."""
    rows = [row for group in groups for row in group]
    if not rows:
        return []
    return [
        Table("memory", "Memory", _MEMORY, rows),
        Table(
            "memory_summary",
            "Memory against im2col with its whole buffer",
            _SUMMARY,
            _summary(groups, measured_im2col),
        ),
    ]


def _rows(case: CaseResult) -> list[dict[str, Any]]:
    try:
        workload = Conv2dWorkload.parse(case.problem)
    except WorkloadError:
        # another kind of problem, without a kernel window
        return []
    filters = layer_bytes(workload).filter
    found: list[tuple[str, int, int | None, int | None]] = []
    for entry in case.entries:
        facts = entry.facts
        if entry.status != "ok" or entry.label == PEAK:
            continue
        if "workspace_bytes" in facts:
            weights, buffer = facts["packed_weight_bytes"], facts["workspace_bytes"]
            found.append((entry.label, weights, buffer, facts.get("call_bytes")))
        elif facts.get("call_bytes") is not None:
            found.append((entry.label, filters, None, facts["call_bytes"]))
    return method_rows(case.name, workload, found)


def method_rows(
    name: str,
    workload: Conv2dWorkload,
    methods: Sequence[tuple[str, int, int | None, int | None]],
) -> list[dict[str, Any]]:
    """Rows of one layer: the formulas of the paper's methods, then other methods.

    Each method has a label, bytes of the stored weights, bytes of buffers, and the growth of a
    process in its first call. Unknown bytes are None.
    """
    size = layer_bytes(workload)
    whole = size.input + size.filter + size.output + size.im2col
    formulas: list[tuple[str, int, int | None, int | None]] = [
        ("direct, formula", size.filter, 0, None),
        ("im2win, formula", size.filter, size.im2win, None),
        (_IM2COL, size.filter, size.im2col, None),
    ]
    rows = []
    for method, weights, buffer, measured in (*formulas, *methods):
        total = None if buffer is None else size.input + weights + size.output + buffer
        needed = None if measured is None else size.input + weights + measured
        rows.append(
            {
                "case": name,
                "method": method,
                "input_bytes": size.input,
                "filter_bytes": weights,
                "output_bytes": size.output,
                "buffer_bytes": buffer,
                "total_bytes": total,
                "of_im2col": None if total is None else total / whole,
                "call_bytes": measured,
                "measured_total_bytes": needed,
            }
        )
    return rows


def _summary(groups: list[list[dict[str, Any]]], measured_im2col: str) -> list[dict[str, Any]]:
    found = []
    for method in dict.fromkeys(row["method"] for group in groups for row in group):
        pairs = _pairs(groups, method, _IM2COL, "total_bytes")
        measured = _pairs(groups, method, measured_im2col, "measured_total_bytes")
        ratios = [a / b for a, b in pairs]
        summed = _means(pairs)
        again = _means(measured)
        found.append(
            {
                "method": method,
                "cases": len(pairs) or len(measured),
                "less": sum(ratio < 1 for ratio in ratios) if ratios else None,
                "ratio_of_means": summed[0],
                "mean_of_ratios": summed[1],
                "min": min(ratios, default=None),
                "max": max(ratios, default=None),
                "measured_ratio_of_means": again[0],
                "measured_mean_of_ratios": again[1],
            }
        )
    return found


def _pairs(
    groups: list[list[dict[str, Any]]], method: str, baseline: str, key: str
) -> list[tuple[float, float]]:
    """Bytes of a method and of the baseline on every layer that has both."""
    pairs = []
    for group in groups:
        bytes_of = {row["method"]: row[key] for row in group}
        mine, theirs = bytes_of.get(method), bytes_of.get(baseline)
        if mine is not None and theirs:
            pairs.append((mine, theirs))
    return pairs


def _means(pairs: list[tuple[float, float]]) -> tuple[float | None, float | None]:
    """Ratio of means, and mean of ratios."""
    if not pairs:
        return None, None
    ratio = sum(mine for mine, _ in pairs) / sum(theirs for _, theirs in pairs)
    return ratio, sum(mine / theirs for mine, theirs in pairs) / len(pairs)
