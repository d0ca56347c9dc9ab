"""The report of ``check``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table

if TYPE_CHECKING:
    from tvmconv.frontend.check import ModelCheck

# refused nodes and operators of the short view
_SHOWN = 10


def check_report(found: ModelCheck) -> Report:
    """The nodes of a model, and the reasons that prevent its build."""
    operators = [{"operator": name, "nodes": count} for name, count in found.operators.items()]
    columns = (Column("operator", "operator"), Column("nodes", "nodes"))
    refused = [asdict(refusal) for refusal in found.refused]
    refused_columns = (
        Column("node", "node"),
        Column("operator", "operator"),
        Column("error", "error"),
    )
    facts: dict[str, Any] = {
        "model": found.name,
        "ok": found.ok,
        "inputs": [str(info) for info in found.inputs],
        "outputs": [str(info) for info in found.outputs],
        "missing": found.missing,
        "unread": found.unread,
        "cut": list(found.cut),
        "batch": found.batch,
    }
    tables = (
        Table("operators", "Operators", columns, operators),
        Table("refused", "Refused nodes", refused_columns, refused),
    )
    title = _title(found)
    brief = Report("check", title, _head(found), notes=(*_refused(found), *_notes(found)))
    return Report("check", title, facts, tables, _notes(found), brief=brief)


def _title(found: ModelCheck) -> str:
    if found.refused:
        count = len(found.refused)
        return f"{found.name}: {count} node{'s are' if count > 1 else ' is'} refused"
    if found.missing:
        return f"{found.name}: sizes are missing"
    if found.batch:
        return f"{found.name} cannot serve any batch size"
    return f"{found.name} can be built"


def _head(found: ModelCheck) -> Mapping[str, str]:
    counts = [f"{count} {name}" for name, count in found.operators.items()]
    others = f", {len(counts) - _SHOWN} others" if len(counts) > _SHOWN else ""
    head = {
        "inputs": ", ".join(map(str, found.inputs)),
        "outputs": ", ".join(map(str, found.outputs)),
        "taken": ", ".join(counts[:_SHOWN]) + others,
    }
    return {name: text for name, text in head.items() if text}


def _refused(found: ModelCheck) -> tuple[str, ...]:
    notes = [f"refused: {refusal.error}" for refusal in found.refused[:_SHOWN]]
    if len(found.refused) > _SHOWN:
        notes.append(f"{len(found.refused) - _SHOWN} more nodes are refused; -v shows all.")
    return tuple(notes)


def _notes(found: ModelCheck) -> tuple[str, ...]:
    from tvmconv.frontend.cut import cut_text

    notes: list[str] = []
    if found.missing:
        notes.append(found.missing)
    if found.batch:
        notes.append(found.batch)
    if found.unread:
        reason = "the sizes are" if found.missing else "what they read is"
        notes.append(f"{found.unread} nodes cannot be checked before {reason} known.")
    if options := cut_text(found.cut):
        notes.append(f"The part before the refused nodes can be built: {options}.")
    return tuple(notes)
