"""Descriptions of the declared knobs: a table of ``explain``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tvmconv.core.config import KnobValue
from tvmconv.core.decision import Decision
from tvmconv.core.knobs import Knob
from tvmconv.kernels import registry
from tvmconv.machines.device import Device
from tvmconv.report.table import Column, Table, plain

_SHOWN = 12
_COLUMNS = (
    *plain("algorithm", "knob"),
    Column("doc", "meaning"),
    Column("values", "worth trying here"),
    Column("neutral", "neutral"),
)


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
        *plain("knob", "value"),
        Column("doc", "meaning"),
        Column("values", "worth trying here"),
    )
    title = f"Schedule parameters of {chosen.algorithm}"
    return Table("knobs", title, columns, rows)


def listed(values: Sequence[KnobValue]) -> str:
    """Values as text; a long list shows the first ones and the last."""
    shown = ", ".join(str(value) for value in values[:_SHOWN])
    return f"{shown}, ..., {values[-1]}" if len(values) > _SHOWN else shown


def _row(knob: Knob[Any]) -> Mapping[str, Any]:
    return {"knob": knob.name, "doc": knob.doc, "neutral": knob.neutral}


def _ordered(values: Iterable[KnobValue]) -> list[KnobValue]:
    """Each value once; numbers by size."""
    unique = list(dict.fromkeys(values))
    return sorted(unique) if all(type(value) is int for value in unique) else unique
