"""``explain`` as one HTML page that needs no network: charts with tables, and all rows."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from tvmconv.core.printed import printable
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.machines.record import processor
from tvmconv.report import charts
from tvmconv.report.candidates import memory_frontier
from tvmconv.report.clock import clock_of
from tvmconv.report.document import Report, fact_text, fact_title
from tvmconv.report.reasons import tiled
from tvmconv.report.table import Column, Table, plain

_STYLE = """
:root { color-scheme: light dark;
  --ink: #222; --strong: #000; --faint: #666; --paper: #fff; --line: #bbb; }
@media (prefers-color-scheme: dark) { :root {
  --ink: #ddd; --strong: #fff; --faint: #999; --paper: #16181c; --line: #555; } }
body { font: 16px/1.5 sans-serif; color: var(--ink); background: var(--paper); max-width: 72rem;
  margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
figure { margin: 2rem 0; overflow-x: auto; } svg { width: 100%; min-width: 40rem; height: auto; }
figcaption { position: sticky; left: 0; }
table { border-collapse: collapse; font-size: 0.85rem; margin: 0.5rem 0; }
th, td { border: 1px solid var(--line); padding: 0.2rem 0.5rem; text-align: left;
  vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; } summary { cursor: pointer; } dt { font-weight: bold; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; } dd { margin: 0; }
"""


def explain_page(report: Report, machine: Device, error_budget: float) -> str:
    """The page of a report of :func:`~tvmconv.report.explain.explain_report`.

    The machine gives the nominal roof if none was measured; a chart shows the error budget.
    """
    named = {table.name: table for table in report.tables}
    layers, candidates = named["layers"], named["candidates"]
    figures = [
        _times(layers, candidates),
        _roofline(layers, report, machine),
        _memory(candidates, layers),
        _errors(candidates, layers, error_budget),
    ]
    facts = "".join(
        f"<dt>{escape(fact_title(name))}</dt><dd>{escape(fact_text(name, value))}</dd>"
        for name, value in report.facts.items()
        if value is not None
    )
    tables = "".join(_details(table) for table in report.tables)
    notes = "".join(f"<p>{escape(note)}</p>" for note in report.notes)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(report.title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main><h1>{escape(report.title)}</h1><dl>{facts}</dl>\n"
        f"{''.join(figures)}<h2>All figures</h2>{tables}{notes}</main></body></html>\n"
    )


def _figure(heading: str, drawing: str, caption: str, table: Table) -> str:
    name = escape(heading)
    drawing = drawing.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)
    return (
        f"<section><h2>{name}</h2><figure>{drawing}<figcaption>{escape(caption)}</figcaption>"
        f"</figure>{_details(table)}</section>\n"
    )


def _details(table: Table) -> str:
    heads = "".join(f'<th scope="col">{escape(c.title)}</th>' for c in table.columns)
    body = "".join(
        "<tr>" + "".join(_cell(column, row) for column in table.columns) + "</tr>"
        for row in table.rows
    )
    return (
        f"<details><summary>Table: {escape(table.title)}</summary><div class='scroll'>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def _cell(column: Column, row: Mapping[str, Any]) -> str:
    kind = ' class="number"' if isinstance(row.get(column.key), int | float) else ""
    return f"<td{kind}>{escape(column.text(row))}</td>"


def _times(layers: Table, candidates: Table) -> str:
    direct: dict[str, float] = {}
    for row in candidates.rows:
        if row["algorithm"] != "winograd" and "predicted_seconds" in row:
            best = direct.get(row["workload"], float("inf"))
            direct[row["workload"]] = min(best, row["predicted_seconds"])
    rows = [
        {
            "layer": row["layer"],
            "algorithm": row["algorithm"],
            "chosen": row["predicted_seconds"] * 1e3,
            "plain": direct[row["workload"]] * 1e3 if row["workload"] in direct else None,
            "measured": row["seconds"] * 1e3 if row.get("seconds") else None,
        }
        for row in layers.rows
    ]
    columns = [
        *plain("layer", "algorithm"),
        Column("chosen", "chosen, predicted ms", ".3f"),
        Column("plain", "best without Winograd, predicted ms", ".3f"),
        Column("measured", "chosen, measured ms", ".3f"),
    ]
    keys = ("chosen", "plain", "measured")
    series = {
        column.title: [row[column.key] for row in rows]
        for column in columns
        if column.key in keys and any(row[column.key] is not None for row in rows)
    }
    drawing = charts.bars([row["layer"] for row in rows], series, title="Time per layer", unit="ms")
    caption = "Milliseconds of one call of every convolution, in execution order from the top."
    return _figure("Time per layer", drawing, caption, Table("t", "time", tuple(columns), rows))


def _roofline(layers: Table, report: Report, machine: Device) -> str:
    measured = "peak_gflops" in report.facts
    peak, bandwidth = _roof(machine)
    if measured:
        peak, bandwidth = report.facts["peak_gflops"], report.facts["memory_read_gbs"]
    calls = {(c["layer"], c["kernel"]): c for c in report.data["calls"]}
    rows = []
    for row in layers.rows:
        call = calls.get((row["layer"], row["kernel"]))
        if call is None or not call["bytes"]:
            continue
        seconds = row.get("seconds") or row["predicted_seconds"]
        rows.append(
            {
                "layer": row["layer"],
                "algorithm": row["algorithm"],
                "intensity": call["flops"] / call["bytes"],
                "gflops": call["flops"] / seconds * 1e-9,
            }
        )
    dots: dict[str, list[tuple[float, float, str]]] = {}
    for row in rows:
        point = (row["intensity"], row["gflops"], row["layer"])
        dots.setdefault(row["algorithm"], []).append(point)
    ends = [row["intensity"] for row in rows] or [1.0]
    ridge = peak / bandwidth
    low, high = min(*ends, ridge / 10), max(*ends, ridge * 10)
    roof = [
        (low, low * bandwidth, f"{bandwidth:.1f} GB/s"),
        (ridge, peak, f"{peak:.0f} GFLOP/s"),
        (high, peak, f"{peak:.0f} GFLOP/s"),
    ]
    drawing = charts.scatter(
        dots,
        {"roof": roof},
        title="Roofline",
        x="nominal operations per byte of arguments",
        y="GFLOP/s, effective",
        logarithmic=(True, True),
    )
    origin = (
        "measured on this machine"
        if measured
        else f"by the CPU or GPU description at {clock_of(machine)}; --measure measures it"
    )
    caption = (
        f"Roof: {peak:.0f} GFLOP/s and {bandwidth:.1f} GB/s ({origin}). Operations are counted for "
        "the direct algorithm, so Winograd layers may exceed the roof. Layers whose data stay in "
        "the caches may exceed its slope."
    )
    columns = (
        *plain("layer", "algorithm"),
        Column("intensity", "operations per byte", ".1f"),
        Column("gflops", "GFLOP/s", ".1f"),
    )
    return _figure("Roofline", drawing, caption, Table("r", "roofline", columns, rows))


def _roof(device: Device) -> tuple[float, float]:
    """FMA in GFLOP/s and memory in GB/s, by the machine model."""
    hertz = clock_of(device).hertz
    added: float
    if isinstance(device, CudaMachine):
        added, read = device.lanes * device.multiprocessors, device.memory_rate
    else:
        machine = processor(device)
        added = machine.lanes * machine.rates.multiply_adds * machine.cores
        read = machine.rates.behind_l2
    return 2e-9 * added * hertz, 1e-9 * read * hertz


def _memory(candidates: Table, layers: Table) -> str:
    rows = memory_frontier(candidates.rows)
    steps: list[tuple[float, float, str]] = []
    for row in rows:
        mib, ms = row["workspace_bytes"] / 2**20, row["predicted_seconds"] * 1e3
        if steps:
            steps.append((mib, steps[-1][1], ""))
        steps.append((mib, ms, "memory_budget"))
    peak = max((row["workspace_bytes"] for row in layers.rows), default=0)
    total = sum(row["predicted_seconds"] for row in layers.rows)
    chosen = [(peak / 2**20, total * 1e3, "this model")]
    drawing = charts.scatter(
        {"this model": chosen, "budgets worth setting": [s for s in steps if s[2]]},
        {"fastest under the budget": steps},
        title="Speed against memory",
        x="workspace at its peak, MiB",
        y="all convolutions, predicted ms",
    )
    caption = (
        "The minimum predicted time of all convolutions under every memory budget, within the "
        "error budget. Layers share the workspace, so its peak is the largest of any layer."
    )
    columns = (
        Column("workspace_bytes", "memory_budget, bytes"),
        Column("predicted_seconds", "predicted ms", ".3f", 1e3),
        Column("packed_weight_bytes", "packed weights, bytes"),
    )
    return _figure("Speed against memory", drawing, caption, Table("m", "budgets", columns, rows))


def _errors(candidates: Table, layers: Table, budget: float) -> str:
    groups: dict[str, list[float]] = {}
    for row in candidates.rows:
        if "error_estimate" in row:
            groups.setdefault(_tile(row), []).append(row["error_estimate"])
    measured: dict[str, list[float]] = {}
    for row in layers.rows:
        if "error_measured" in row:
            measured.setdefault(_tile(row), []).append(row["error_measured"])
    names = sorted(groups, key=lambda name: median(groups[name]))
    rows: list[dict[str, Any]] = [
        {
            "tile": name,
            "minimum": min(groups[name]),
            "median": median(groups[name]),
            "largest": max(groups[name]),
            "measured": max(measured[name]) if name in measured else None,
            "layers": len(groups[name]),
        }
        for name in names
    ]
    titles = {"minimum": "lowest estimate", "median": "median", "largest": "largest estimate"}
    series: dict[str, Sequence[float | None]] = {
        title: [row[key] for row in rows] for key, title in titles.items()
    }
    if measured:
        series["largest measured"] = [row["measured"] for row in rows]
    series["error budget"] = [budget] * len(rows)
    drawing = charts.categories(
        names, series, title="Error against tile", x="algorithm and output tile", y="relative error"
    )
    caption = (
        "max|error| / max|reference| against float64 of every candidate, over the layers that it "
        "supports."
    )
    columns = (
        Column("tile", "algorithm and tile"),
        *(Column(key, title, ".1e") for key, title in titles.items()),
        Column("measured", "largest measured", ".1e"),
        Column("layers", "problems"),
    )
    return _figure("Error against tile", drawing, caption, Table("e", "errors", columns, rows))


def _tile(row: Mapping[str, Any]) -> str:
    return tiled(row["algorithm"], row["knobs"])


def escape(text: str) -> str:
    """Text of a model in HTML, with control characters as escape sequences."""
    return html.escape(printable(text))
