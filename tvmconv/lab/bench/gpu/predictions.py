"""Predictions of the cost model for kernels on GPUs, compared with their times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmconv.lab.bench.result import BenchResult
from tvmconv.report.table import IMPLEMENTATION, Column, Table, plain

# the share of the measured time by which a correct prediction may be off
RIGHT_WITHIN = 0.25
_COLUMNS = (
    *plain("case"),
    IMPLEMENTATION,
    Column("median_seconds", "ms median", ".4f", 1e3),
    Column("predicted_seconds", "predicted ms", ".4f", 1e3),
    Column("ratio", "predicted / measured", ".2f"),
)


def prediction_table(result: BenchResult) -> Table:
    """Every measured kernel that was predicted; empty for CPUs."""
    rows = [
        {
            "case": case.name,
            "contender": entry.label,
            "median_seconds": entry.median,
            "predicted_seconds": entry.facts["predicted_seconds"],
            "ratio": entry.facts["predicted_seconds"] / entry.median,
        }
        for case in result.results
        for entry in case.entries
        if entry.status == "ok" and entry.median and "predicted_seconds" in entry.facts
    ]
    return Table("predictions", "Predicted and measured", _COLUMNS, rows)


def share_right(ratios: list[float]) -> float:
    """The share of predictions that are off by at most a quarter of the measured time."""
    right = [abs(ratio - 1.0) <= RIGHT_WITHIN for ratio in ratios]
    return sum(right) / len(right) if right else 0.0


def prediction_note(result: BenchResult) -> list[str]:
    """The number of correct predictions, as a note; none for CPUs."""
    ratios = [row["ratio"] for row in prediction_table(result).rows]
    if not ratios:
        return []
    return [
        f"{share_right(ratios):.0%} of {len(ratios)} kernels within {RIGHT_WITHIN:.0%} of the time "
        "predicted before any fit"
    ]


def translation_note(result: BenchResult) -> list[str]:
    """The number of kernels that an older driver translated from PTX, as a note."""
    entries = [entry for case in result.results for entry in case.entries]
    known = [k for entry in entries if (k := entry.facts.get("translated_by_cuda"))]
    if not known:
        return []
    return [
        f"the driver knows CUDA up to {known[0]}, and not the machine code; kernels that it "
        f"translated from PTX: {len(known)}, whose registers may differ from those that are shown; "
        "update it, or compile them with a CUDA that it knows (docs/how-to/deploy-nvidia.md)"
    ]


def gpu_facts(gpu: Mapping[str, Any] | None) -> dict[str, str]:
    """The GPU of a saved header, as text; empty where a CPU was measured."""
    if not gpu:
        return {}
    smi = gpu.get("nvidia_smi") or {}
    after = (gpu.get("nvidia_smi_after") or {}).get("clocks.sm")
    clocks = [
        f"{smi[f'clocks.{place}']} of {smi[f'clocks.max.{place}']} ({name})"
        for place, name in (("sm", "SM"), ("mem", "memory"))
        if f"clocks.{place}" in smi and f"clocks.max.{place}" in smi
    ]
    driver = [f"driver {smi['driver_version']}"] if "driver_version" in smi else []
    return {
        "gpu": ", ".join([str(gpu["name"]), *driver, f"CUDA {gpu['driver_cuda']}"]),
        **({"clocks_at_start": "; ".join(clocks)} if clocks else {}),
        **({"clock_behind_the_last_case": str(after)} if after else {}),
        "l2": "warm calls leave it as it is; cold ones displace it first",
    }
