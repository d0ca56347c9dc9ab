"""The results of the backend tests as text and as a file."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import onnx

from tvmconv.backend.judge import CONSTANT, LEFT_OUT, OUTCOMES, PASSED, Verdict
from tvmconv.core.version import __version__

_HEAD = ("tests", *OUTCOMES, "passed of those run")
_NODE = re.compile(r"node '(?:[^'\\]|\\.)*' \((\w+)\): (.*)", re.DOTALL)
# parts that differ between nodes that are refused for the same reason
_VALUES = re.compile(r"'(?:[^'\\]|\\.)*'|\([^()]*\)|\[[^\]]*\]|-?\d[\d.e+-]*")


def save(verdicts: Sequence[Verdict], path: Path) -> None:
    """Write the verdicts as JSON, compressed where the name ends in ``.gz``."""
    content = {
        "tvmconv": __version__,
        "onnx": onnx.__version__,
        "opset": onnx.defs.onnx_opset_version(),
        # without the names and values of nodes, to keep the file small
        "tests": [[v.kind, v.name, v.outcome, _reason(v.reason)] for v in verdicts],
    }
    text = json.dumps(content, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def load(path: Path) -> tuple[dict[str, str], list[Verdict]]:
    """The versions, and the verdicts, of a file that :func:`save` wrote."""
    data = path.read_bytes()
    content = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    verdicts = [Verdict(*entry) for entry in content.pop("tests")]
    return {name: str(value) for name, value in content.items()}, verdicts


def counts(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """A row of names, then a row of counts for each kind of test and for all."""
    rows = [["kind", *_HEAD]]
    for kind in [*dict.fromkeys(v.kind for v in verdicts), "all"]:
        mine = [v for v in verdicts if kind in (v.kind, "all")]
        found = Counter(v.outcome for v in mine)
        run = len(mine) - found[LEFT_OUT]
        share = f"{100 * (found[PASSED] + found[CONSTANT]) / run:.1f} %" if run else ""
        rows.append([kind, str(len(mine)), *(str(found[each]) for each in OUTCOMES), share])
    return rows


def reasons(verdicts: Sequence[Verdict], outcome: str) -> list[tuple[int, str, str]]:
    """Tests of an outcome in groups: their number, the reason, and the first test's name."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.outcome == outcome:
            groups.setdefault(_reason(verdict.reason), []).append(verdict)
    found = [(len(group), reason, group[0].name) for reason, group in groups.items()]
    return sorted(found, key=lambda group: (-group[0], group[1]))


def _reason(message: str) -> str:
    """The message of an error without names and values."""
    match = _NODE.search(message)
    operator, problem = match.groups() if match else ("", message)
    first = _VALUES.sub("\0", problem).split(". ")[0].replace("\0", "...")
    return f"{operator}: {first}" if operator else first


def text(verdicts: Sequence[Verdict]) -> str:
    """Counts, and the reasons of all that did not pass."""
    lines = _columns(counts(verdicts))
    for outcome in OUTCOMES[1:]:
        found = reasons(verdicts, outcome)
        if found:
            lines += ["", f"{outcome}:"]
            lines += [f"{count:6}  {reason[:150]}  [{name}]" for count, reason, name in found]
    return "\n".join(lines) + "\n"


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
