"""Facts of a compiled model that several reports show, and the report of ``compile``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table, bytes_text

if TYPE_CHECKING:
    from tvmconv.artifact.facts import ModelFacts


def model_facts(model: ModelFacts) -> dict[str, Any]:
    """Name, machine, tensors and layout changes; part of every report's facts."""
    return {
        "model": model.name,
        "target": model.machine.name,
        "isa": model.machine.isa,
        "threads": model.threads,
        "inputs": [str(info) for info in model.inputs],
        "outputs": [str(info) for info in model.outputs],
        "reorders": model.manifest.reorders,
        "error_budget": model.manifest.policy.get("error_budget"),
        "memory_budget": model.manifest.policy.get("memory_budget"),
        "precision": model.manifest.policy.get("precision", "float32"),
        "finite": model.manifest.policy.get("finite", True),
        "requantise": model.manifest.policy.get("requantise", "float"),
    }


def memory_table(model: ModelFacts) -> Table:
    """Planned bytes: arena, outputs, constants, workspace, padding."""
    meaning = {
        "arena_bytes": "activations of one call, at their peak",
        "output_bytes": "outputs of one call, which the caller keeps",
        "constant_bytes": "packed weights, held once",
        "workspace_bytes": "largest scratch memory of one kernel",
        "padding_bytes": "zeros that fill channel blocks",
    }
    rows = [
        {
            "name": name,
            "part": name.removesuffix("_bytes").replace("_", " "),
            "bytes": count,
            "size": bytes_text(count),
            "meaning": meaning.get(name, ""),
        }
        for name, count in asdict(model.memory).items()
    ]
    columns = (Column("part", "memory"), Column("size", "size"), Column("meaning", ""))
    return Table("memory", "Memory", columns, rows)


def algorithm_counts(model: ModelFacts) -> dict[str, int]:
    """Number of layers of each algorithm."""
    return dict(Counter(decision.chosen.algorithm for decision in model.decisions).most_common())


def compile_report(
    model: ModelFacts, output: Path, seconds: float, others: Mapping[str, Path] | None = None
) -> Report:
    """The report of ``compile``: the model, its file, and ``others`` that were written with it."""
    counts = algorithm_counts(model)
    rows = [{"algorithm": name, "layers": count} for name, count in counts.items()]
    columns = (Column("algorithm", "algorithm"), Column("layers", "convolutions"))
    return Report(
        kind="compile",
        title=f"{model.name} built in {seconds:.1f} s",
        facts={
            **model_facts(model),
            "output": str(output),
            "library_bytes": output.stat().st_size,
            **{name: str(path) for name, path in (others or {}).items()},
            "seconds": round(seconds, 3),
        },
        tables=(Table("algorithms", "Algorithms", columns, rows), memory_table(model)),
        notes=tuple(f"WARNING: no algorithm supports {left}" for left in model.unscheduled),
    )
