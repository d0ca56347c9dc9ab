"""The targets of a model, of which one runs here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tvmconv.artifact.host_target import described_here, missing
from tvmconv.report.clock import clock_of
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table, bytes_text

if TYPE_CHECKING:
    from tvmconv.artifact.facts import ModelFacts

_COLUMNS = (
    Column("target", "target"),
    Column("isa", "instructions"),
    Column("here", "on this CPU"),
    Column("predicted_seconds", "predicted ms", ".3f", 1e3),
    Column("own_weights", "own weights"),
)
_LEGEND = (
    "own weights: packed for this target alone. The first target whose features a CPU has runs "
    "there; TVMCONV_TARGET names another one."
)
_NAMED = 3  # missing features in a row


def targets_table(model: ModelFacts) -> Table:
    """A row for each target of a model with several, in the order in which they are preferred."""
    manifest = model.manifest
    here = described_here(manifest).machine.name
    rows = []
    for facts, record in zip(model.targets, manifest.targets, strict=True):
        lacking = missing(record)
        runs = not lacking and record.name == here
        cycles = sum(decision.chosen.cycles for decision in facts.decisions)
        named = ", ".join(lacking[:_NAMED]) + " ..." * (len(lacking) > _NAMED)
        rows.append(
            {
                "target": record.name,
                "isa": record.machine.isa,
                "features": list(record.required_features),
                "missing": list(lacking),
                "runs_here": runs,
                "here": "runs" if runs else f"lacks {named}" if lacking else "could run",
                "predicted_seconds": clock_of(record.machine).seconds(cycles),
                "own_constant_bytes": record.own_constant_bytes,
                "own_weights": bytes_text(record.own_constant_bytes),
            }
        )
    return Table("targets", "Targets", _COLUMNS, rows)


def targets_report(model: ModelFacts, report: Report) -> Report:
    """The report of ``explain`` on one target, with a table of all targets."""
    table = targets_table(model)
    legend = f"The layers are for {model.machine.name}; --target selects another one."
    brief = report.brief
    if brief is not None:
        brief = replace(brief, tables=(table, *brief.tables), notes=(legend, _LEGEND, *brief.notes))
    return replace(
        report,
        facts={**report.facts, "targets": [target.machine.name for target in model.targets]},
        tables=(table, *report.tables),
        notes=(legend, _LEGEND, *report.notes),
        brief=brief,
    )
