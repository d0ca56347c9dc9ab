"""The shapes that a dynamic model keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvmconv.report.document import Report
from tvmconv.report.explain import explain_report
from tvmconv.report.summary import programs_table
from tvmconv.report.table import Column, Table, bytes_text

if TYPE_CHECKING:
    from tvmconv.artifact.facts import ModelFacts

_NONE = "No shape is built yet. A call builds the shape of its inputs."
_LAYERS = "compiled(shapes).explain() shows the layers of a shape."


def dynamic_report(name: str, inputs: str, models: Sequence[ModelFacts], most: int) -> Report:
    """The report of ``explain``: a row for each kept shape. The JSON has the layers, too.

    Models of several shapes share weights, which are in the row of their first shape.
    """
    tables = [programs_table(model) for model in models]
    rows: list[dict[str, Any]] = []
    for model, table in zip(models, tables, strict=True):
        weights = model.memory.constant_bytes
        for row in table.rows:
            rows.append({**row, "weight_bytes": weights, "own_weights": bytes_text(weights)})
            weights = 0
    programs = [explain_report(program) for model in models for program in model.programs]
    columns = tables[0].columns[:-1] if tables else ()
    table = Table("shapes", "Kept shapes", (*columns, Column("own_weights", "weights")), rows)
    return Report(
        kind="explain",
        title=f"{name}: dynamic, {len(rows)} shapes kept",
        facts={"model": name, "inputs": inputs, "max_shapes": most},
        tables=(table,) if rows else (),
        notes=(_LAYERS if rows else _NONE,),
        data={"programs": [report.to_json() for report in programs]},
    )
