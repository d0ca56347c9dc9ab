"""The programs of a model for several shapes of its inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tvmconv.report.clock import clock_of
from tvmconv.report.document import Report
from tvmconv.report.summary import (
    algorithm_counts,
    compiled_for,
    memory_table,
    memory_text,
    model_facts,
)
from tvmconv.report.table import Column, Table, bytes_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tvmconv.artifact.facts import ModelFacts, ProgramFacts

_COLUMNS = (
    Column("shapes", "shape"),
    Column("convolutions", "convolutions"),
    Column("predicted_seconds", "predicted ms", ".3f", 1e3),
    Column("activations", "activations"),
    Column("own_weights", "own weights"),
)
_LEGEND = (
    "own weights: packed for this shape alone. All other weights are shared by two shapes or more."
)


def shapes_text(program: ModelFacts) -> str:
    """``1x3x48x160``: the shape of the only input, or of each by its name."""
    shapes = {info.name: "x".join(map(str, info.shape)) for info in program.inputs}
    if len(shapes) == 1:
        return next(iter(shapes.values()))
    return ", ".join(f"{name}:{shape}" for name, shape in shapes.items())


def programs_table(model: ModelFacts) -> Table:
    """A row for each program."""
    clock = clock_of(model.machine)
    rows = []
    for program in model.programs:
        memory = program.memory
        cycles = sum(decision.chosen.cycles for decision in program.decisions)
        rows.append(
            {
                "shapes": shapes_text(program),
                "convolutions": sum(algorithm_counts(program).values()),
                "predicted_seconds": clock.seconds(cycles),
                "arena_bytes": memory.arena_bytes,
                "activations": bytes_text(memory.arena_bytes),
                "own_constant_bytes": memory.own_constant_bytes,
                "own_weights": bytes_text(memory.own_constant_bytes),
            }
        )
    return Table("shapes", "Input shapes", _COLUMNS, rows)


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
