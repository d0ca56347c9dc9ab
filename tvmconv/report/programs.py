"""The programs of a model for several shapes of its inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tvmconv.report.document import Report
from tvmconv.report.summary import (
    compiled_for,
    memory_table,
    memory_text,
    model_facts,
    programs_table,
    shapes_text,
)
from tvmconv.report.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tvmconv.artifact.facts import ModelFacts, ProgramFacts

_LEGEND = (
    "own weights: packed for this shape alone. All other weights are shared by two shapes or more."
)


def programs_report(model: ModelFacts, reports: Sequence[Report]) -> Report:
    """The report of ``explain`` on several programs, from the report of each."""
    table = programs_table(model)
    title = f"{model.name}: {len(model.programs)} input shapes"
    pairs = list(zip(model.programs, reports, strict=True))
    details = tuple(
        replace(report, title=f"{shapes_text(program)}: {report.title}")
        for program, report in pairs
    )
    data: dict[str, Any] = {"programs": [report.to_json() for report in reports]}
    layers = tuple(_layers(program, report) for program, report in pairs)
    return Report(
        kind="explain",
        title=title,
        facts={**model_facts(model), "input_shapes": [shapes_text(p) for p in model.programs]},
        tables=(table, memory_table(model)),
        notes=(_LEGEND,),
        data=data,
        details=details,
        brief=Report(
            kind="explain",
            title=f"{title}, {compiled_for(model)}",
            facts={"memory": memory_text(model.memory)},
            tables=(table, *layers),
            notes=(_LEGEND, "-v shows everything of each shape."),
        ),
    )


def _layers(program: ProgramFacts, report: Report) -> Table:
    """The short table of a program's layers under its shape."""
    short = report.brief or report
    return replace(short.tables[0], title=shapes_text(program))
