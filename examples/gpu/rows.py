"""Measurements as tables in Markdown, for ``docs/benchmarks/index.md``, with minimum times."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from math import exp, log
from pathlib import Path

from examples.gpu.measuring import NETWORKS, table
from examples.gpu.phases import PRECISIONS, phases
from tvmconv.core.errors import InputError
from tvmconv.lab.bench.gpu.fit import fit_report
from tvmconv.lab.bench.gpu.predictions import (
    RIGHT_WITHIN,
    gpu_facts,
    prediction_table,
    translation_note,
)
from tvmconv.lab.bench.result import OWN, PEAK, BenchResult, CaseResult, Entry, read_saved

# a slower layer needs an explanation
_SLOW = 0.7
_METHODS = ("direct", "im2col", "im2win", "implicit_gemm", "winograd")
Row = Sequence[object]


def report(results: Path) -> str:
    """All tables of a folder of results, or of one file of them; missing results at the end.

    Raises :class:`InputError` if it holds no results.
    """
    if results.is_file():
        with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
            shutil.unpack_archive(results, folder, "zip")
            return report(Path(folder))
    found = {path.name.partition(".")[0]: read_saved(path) for path in results.glob("*.json.gz")}
    if not found:
        raise InputError(f"{results} holds no results of python -m examples.gpu measure")
    parts = [_head(found.values())]
    for name, section in _SECTIONS.items():
        if name in found:
            parts += section(found[name])
    parts += _networks([found[name] for name in NETWORKS if name in found])
    fitted = [p.name for p in phases(Path(), False, ()) if p.fitted and p.name in found]
    parts += _predictions([found[name] for name in fitted])
    summary = results / "summary.json"
    if summary.is_file():
        parts += ["## What is missing", "", "```", *table(json.loads(summary.read_text())), "```"]
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*parts, ""]))


def _head(results: Iterable[BenchResult]) -> str:
    every = list(results)
    facts = gpu_facts(every[0].machine.get("gpu"))
    versions = {
        f"{entry.label} {entry.version}"
        for result in every
        for case in result.results
        for entry in case.entries
        if entry.version and not entry.label.startswith((OWN, PEAK))
    }
    notes = (note for result in every for note in translation_note(result))
    lines = [*(f"{key}: {value}" for key, value in facts.items()), *sorted(versions), *notes]
    return "\n".join([f"# {facts.get('gpu', 'GPU')}", "", *lines])


def _dnn12(result: BenchResult) -> list[str]:
    baselines = ("cudnn", "im2col_cublas", "torch")
    rows = []
    for case in result.results:
        own = case.ranked(own=True)
        rows.append(
            [
                case.name,
                *(_least(case, f"{OWN} {method}") for method in _METHODS),
                *(_least(case, baseline) for baseline in baselines),
                own[0].label.removeprefix(f"{OWN} ") if own else "-",
                _share(case, own[0]) if own else "-",
                _text(_ratio(case, "cudnn")),
            ]
        )
    head = ("layer", *_METHODS, *baselines, "fastest of ours", "% of peak", "cudnn / fastest")
    return [
        *_table("The twelve layers", head, rows),
        *_against(result, "cudnn"),
        *_memory(result),
    ]


def _by_label(
    title: str, result: BenchResult, labels: Sequence[str], cell: Callable[[CaseResult, Entry], str]
) -> list[str]:
    """A table with a column for each label, and ``-`` where a case lacks it."""
    rows = []
    for case in result.results:
        entries = [case.entry(label) for label in labels]
        rows.append([case.name, *(cell(case, entry) if entry else "-" for entry in entries)])
    head = ("layer", *(label.removeprefix(f"{OWN} ") for label in labels))
    return _table(title, head, rows)


def _memory(result: BenchResult) -> list[str]:
    """Bytes of a call's output and buffers."""

    def cell(case: CaseResult, entry: Entry) -> str:
        size = entry.facts.get("call_bytes")
        return f"{size / 2**20:.0f}" if size else "-"

    labels = [*(f"{OWN} {method}" for method in _METHODS), "im2col_cublas", "cudnn"]
    return _by_label("MiB of output and buffers", result, labels, cell)


def _layers(result: BenchResult) -> list[str]:
    rows = []
    for case in result.results:
        own = case.entry(OWN)
        times = [case.name, case.count, _least(case, OWN), _least(case, "cudnn")]
        text = own.info if own else "-"
        share = _share(case, own) if own else "-"
        rows.append([*times, _text(_ratio(case, "cudnn")), share, text])
    head = ("layer", "times", OWN, "cudnn", "ratio", "% of peak", "schedule")
    precision = result.settings["precision"]
    title = "ResNet-50, layer by layer" + f", {precision}" * (precision in PRECISIONS)
    return [*_table(title, head, rows), *_against(result, "cudnn")]


def _steps(result: BenchResult) -> list[str]:
    labels = list(
        dict.fromkeys(
            entry.label
            for case in result.results
            for entry in case.entries
            if entry.label.startswith(f"{OWN} ")
        )
    )
    return _by_label("im2win by steps, % of the measured peak", result, labels, _share)


def _rounded(result: BenchResult) -> list[str]:
    precision = result.settings["precision"]
    own = f"{OWN} implicit_gemm_mma:precision={precision}"
    rows = [
        [case.name, _least(case, own), _least(case, "cudnn"), _text(_ratio(case, "cudnn", own))]
        for case in result.results
    ]
    return _table(f"Tensor cores, {precision}", ("layer", OWN, "cudnn", "ratio"), rows)


def _networks(results: Sequence[BenchResult]) -> list[str]:
    if not results:
        return []
    baselines = ("torch", "onnxruntime", "torch_compile")
    names = list(dict.fromkeys(case.name for result in results for case in result.results))
    rows = []
    for name in names:
        cases = [case for result in results for case in result.results if case.name == name]
        cells: list[object] = [name, _least(cases[0], OWN)]
        for baseline in baselines:
            # each with ours of the same rounds
            there = [case for case in cases if case.entry(baseline)]
            cells += (
                [_least(there[0], baseline), _text(_ratio(there[0], baseline))]
                if there
                else ["-", "-"]
            )
        rows.append(cells)
    head = ("network", OWN, *(word for baseline in baselines for word in (baseline, "ratio")))
    return _table("Whole networks, ms a call", head, rows)


def _predictions(results: Sequence[BenchResult]) -> list[str]:
    if not results:
        return []
    rows = [row for result in results for row in prediction_table(result).rows]
    cells = [
        (
            *(row["case"], row["contender"], f"{row['median_seconds'] * 1e3:.4f}"),
            *(f"{row['predicted_seconds'] * 1e3:.4f}", f"{row['ratio']:.2f}"),
        )
        for row in rows
    ]
    head = ("layer", "contender", "ms median", "predicted", "predicted / measured")
    lines = _table("Predicted and measured", head, cells)
    try:
        facts = fit_report(results).facts
    except InputError as error:
        return [*lines, f"No fit: {error}"]
    text = [f"- {key}: {value:.4g}" for key, value in facts.items() if isinstance(value, float)]
    head = f"The fit, and the shares of kernels within {RIGHT_WITHIN:.0%} of the measured time:"
    return [*lines, head, "", *text, ""]


def _against(result: BenchResult, baseline: str) -> list[str]:
    """Geometric means over batch sizes, and layers that are too slow."""
    found: dict[str, list[tuple[str, float]]] = {}
    for case in result.results:
        ratio = _ratio(case, baseline)
        if ratio:
            batch = case.problem.partition("mb")[2].partition("ic")[0] or "1"
            found.setdefault(batch, []).append((case.name, ratio))
    lines = []
    for batch, ratios in found.items():
        mean = exp(sum(log(ratio) for _, ratio in ratios) / len(ratios))
        slow = [f"{name} {ratio:.2f}" for name, ratio in ratios if ratio < _SLOW]
        slower = f"; below {_SLOW}: {', '.join(slow)}" if slow else ""
        lines.append(
            f"- batch {batch}: {baseline} / {OWN} {mean:.2f} of {len(ratios)} layers{slower}"
        )
    return [*lines, ""]


def _ratio(case: CaseResult, baseline: str, label: str = "") -> float | None:
    """A baseline's time over the time of one of ours, by default the fastest."""
    own = case.entry(label) if label else next(iter(case.ranked(own=True)), None)
    other = case.entry(baseline)
    return other.best / own.best if own and other and own.best and other.best else None


def _least(case: CaseResult, label: str) -> str:
    entry = case.entry(label)
    if entry is None:
        return "-"
    return f"{entry.best * 1e3:.4g}" if entry.best else entry.status


def _share(case: CaseResult, entry: Entry) -> str:
    peak = case.peak_gflops
    return f"{100 * entry.gflops / peak:.0f}" if entry.gflops and peak else "-"


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _table(title: str, head: Row, rows: Sequence[Row]) -> list[str]:
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (head, ["---"] * len(head), *rows)]
    return ["", f"## {title}", "", *lines, ""]


_SECTIONS: dict[str, Callable[[BenchResult], list[str]]] = {
    "dnn12": _dnn12,
    "resnet50-layers": _layers,
    "im2win-steps": _steps,
    **dict.fromkeys(PRECISIONS, _rounded),
    **dict.fromkeys((f"resnet50-{precision}" for precision in PRECISIONS), _layers),
}
