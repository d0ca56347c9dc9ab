"""Estimated cost of every layer, as a table, with the method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmconv.core.datatypes import FLOAT32, DataTypes
from tvmconv.core.decision import Decision
from tvmconv.lab.estimation.cores import Core
from tvmconv.lab.estimation.estimate import Cost, Estimate, described_method
from tvmconv.report.table import Column, Table

COLUMNS = (
    Column("layer", "layer"),
    Column("workload", "problem"),
    Column("algorithm", "algorithm"),
    Column("estimated_cycles", "est. cycles", ",.0f"),
    Column("estimated_seconds", "est. ms", ".3f", 1e3),
    Column("estimated_share", "% of est. time", ".1f", 100),
    Column("instructions", "instructions", ","),
    Column("instructions_per_needed", "instr. per needed mul.-add", ".2f"),
    Column("estimated_peak_share", "est. % of peak", ".1f", 100),
)


def estimates_table(estimate: Estimate, decisions: Mapping[tuple[str, str], Decision]) -> Table:
    """A row for each kernel call; ``decisions`` are by layer and kernel."""
    total = estimate.total.cycles or 1.0
    rows = []
    for layer in estimate.layers:
        decision = decisions.get((layer.call.layer, layer.call.kernel))
        rows.append(
            {
                "layer": layer.call.layer or layer.call.operator,
                "kernel": layer.call.kernel,
                "workload": layer.call.workload,
                "algorithm": decision.chosen.algorithm if decision else layer.call.operator,
                "estimated_share": layer.cost.cycles / total,
                **cost_row(
                    estimate.core,
                    layer.cost,
                    layer.call.flops if decision else 0,
                    decision.workload.types if decision else FLOAT32,
                ),
            }
        )
    return Table("estimates", f"Estimated, not measured: {estimate.core.name}", COLUMNS, rows)


def cost_row(core: Core, cost: Cost, flops: int, types: DataTypes = FLOAT32) -> dict[str, Any]:
    """A cost as cells; ``flops`` is 0 for calls other than convolutions."""
    needed = flops / 2 / core.lanes
    seconds = core.seconds(cost.cycles)
    row = {
        "estimated_cycles": cost.cycles,
        "estimated_seconds": seconds,
        "instructions": cost.instructions,
        "multiply_adds": cost.multiply_adds,
        "unknown_instructions": cost.unknown,
    }
    if needed and cost.cycles:
        row |= {
            "instructions_per_needed": cost.instructions / needed,
            "estimated_peak_share": needed / cost.cycles / core.peak_of(types),
        }
    return row


def estimate_facts(estimate: Estimate) -> dict[str, Any]:
    """Facts of a report that shows estimates: totals, clock and method."""
    total = estimate.total
    return {
        "estimated_cycles": round(total.cycles),
        "estimated_seconds": estimate.core.seconds(total.cycles),
        "estimated_at": estimate.core.clock_text,
        "estimate_method": described_method(estimate.core),
        "estimated_unknown_instructions": total.unknown,
    }
