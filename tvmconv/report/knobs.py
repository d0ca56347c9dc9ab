"""Descriptions of the declared knobs: a table of ``explain``, and the page ``docs/reference/knobs.md``.

``python -m tvmconv.report.knobs > docs/reference/knobs.md`` writes the page again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tvmconv.core.config import KnobValue
from tvmconv.core.decision import Decision
from tvmconv.core.knobs import Knob
from tvmconv.kernels import registry
from tvmconv.kernels.families import schedules_of
from tvmconv.machines.device import Device
from tvmconv.machines.presets import MACHINES
from tvmconv.machines.record import Machine
from tvmconv.report.table import Column, Table

_SHOWN = 12
_COLUMNS = (
    Column("algorithm", "algorithm"),
    Column("knob", "knob"),
    Column("doc", "meaning"),
    Column("values", "worth trying here"),
    Column("neutral", "neutral"),
)
_PAGE = """# Knobs

What schedules leave open: `tvmconv tune` searches it, overrides and
`bench --algorithms NAME:KNOB=VALUE` set it, and `tvmconv explain MODEL --knobs` adds the values
worth trying for the layers of a model. A config or tuning record that lacks a knob means the
neutral value; a knob that has none must always be given.

`python -m tvmconv.report.knobs` writes this page from the declarations in the schedules.
"""


def knobs_table(decisions: Sequence[Decision], machine: Device) -> Table:
    """Knobs of the chosen algorithms, with the values worth trying for their layers."""
    rows = []
    for name in dict.fromkeys(decision.chosen.algorithm for decision in decisions):
        layers = [d.workload for d in decisions if d.chosen.algorithm == name]
        for knob in registry.knobs(name, machine):
            values = [value for layer in layers for value in knob.values(layer, machine)]
            rows.append({"algorithm": name, **_row(knob), "values": listed(_ordered(values))})
    return Table("knobs", "Knobs of the chosen schedules", _COLUMNS, rows)


def knob_values(decision: Decision, machine: Device) -> Table:
    """The schedule parameters of a layer: the value, the meaning and the values worth trying."""
    chosen = decision.chosen
    rows = [
        {
            **_row(knob),
            "value": chosen.config.get(knob.name, knob.neutral),
            "values": listed(_ordered(knob.values(decision.workload, machine))),
        }
        for knob in registry.knobs(chosen.algorithm, machine)
    ]
    columns = (
        Column("knob", "knob"),
        Column("value", "value"),
        Column("doc", "meaning", leaves=1),
        Column("values", "worth trying here", leaves=2),
    )
    title = f"Schedule parameters of {chosen.algorithm}"
    return Table("knobs", title, columns, rows, one_line=True)


def listed(values: Sequence[KnobValue]) -> str:
    """Values as text; a long list shows the first ones and the last."""
    shown = ", ".join(str(value) for value in values[:_SHOWN])
    return f"{shown}, ..., {values[-1]}" if len(values) > _SHOWN else shown


def knobs_page(machine: Machine) -> str:
    """The declarations of a family as Markdown."""
    gemm = schedules_of(machine, "gemm").KNOBS
    parts = [_PAGE]
    for title, names in (
        ("Algorithms", registry.ALGORITHMS),
        ("Reproductions", registry.REPRODUCTIONS),
    ):
        parts.append(f"\n## {title}\n")
        for name in names:
            parts += _section(name, registry.knobs(name, machine))
    parts.append("\n## Matrix products\n")
    parts += _section("gemm", gemm)
    return "".join(parts)


def _section(name: str, knobs: Iterable[Knob[Any]]) -> Iterator[str]:
    yield f"\n### `{name}`\n\n| knob | meaning | neutral |\n|---|---|---|\n"
    for row in map(_row, knobs):
        neutral = "" if row["neutral"] is None else f"`{row['neutral']}`"
        yield f"| `{row['knob']}` | {row['doc']} | {neutral} |\n"


def _row(knob: Knob[Any]) -> Mapping[str, Any]:
    return {"knob": knob.name, "doc": knob.doc, "neutral": knob.neutral}


def _ordered(values: Iterable[KnobValue]) -> list[KnobValue]:
    """Each value once; numbers by size."""
    unique = list(dict.fromkeys(values))
    return sorted(unique) if all(type(value) is int for value in unique) else unique


if __name__ == "__main__":
    sys.stdout.write(knobs_page(MACHINES["x86-64-v3"]))
