"""The page of ONNX's backend tests, from a saved run of ``python -m tvmconv.backend``."""

from __future__ import annotations

from pathlib import Path

from tvmconv.backend.judge import CONSTANT, LEFT_OUT, PASSED, REFUSED, Verdict
from tvmconv.backend.table import counts, load, reasons

RESULTS = Path(__file__).parents[1] / "results/onnx-backend.json.gz"
_HEAD = """# ONNX backend tests

For everyone who wants to know how much of ONNX tvmconv supports. You see the results of ONNX's
own tests, and can repeat them:

```sh
python -m tvmconv.backend --kind node --filter 'conv|pool'
```

onnx {onnx}, operator sets up to {opset}, raw data:
[onnx-backend.json.gz](../results/onnx-backend.json.gz).

{counts}

{faults}

- **Passed**: the results agree within the tolerances of the test.
- **Constants**: passed after all inputs but the first became constants. The tests give shapes,
  axes and counts as inputs.
- **Refused**: an error names the node and the reason.
- **Wrong**: a result differs.
- **Foreign**: an error without a reason of tvmconv, a crash or a hang.
- **Left out**: out of scope, see below. The share does not count these tests.

## Refused

| tests | operator and reason | first test |
|---|---|---|
{refused}

## Left out

| tests | kind |
|---|---|
{left_out}

## Use tvmconv as a backend

[`tvmconv.backend`](../../tvmconv/backend/__init__.py) has the functions of
`onnx.backend.base.Backend`:

```python
import numpy as np
import onnx
import tvmconv.backend

picture = np.ones((1, 3, 224, 224), np.float32)
outputs = tvmconv.backend.run_model(onnx.load("model.onnx"), [picture])
```

Dimensions that the model leaves open come from the inputs of each call. `prepare` takes the
options of `tvmconv.build`.
"""
_SHORT = {CONSTANT: "constants", "passed of those run": "share"}
# columns that the page gives in a sentence, and words of a cell
_TOLD = ("tests", "wrong", "foreign error")
_LONGEST_CELL = 12


def page(path: Path = RESULTS) -> str:
    """Return the page."""
    versions, verdicts = load(path)
    return _HEAD.format(
        onnx=versions["onnx"],
        opset=versions["opset"],
        counts=_counts(verdicts),
        faults=_faults(verdicts),
        refused=_groups(verdicts, REFUSED),
        left_out=_groups(verdicts, LEFT_OUT, example=False),
    )


def _counts(verdicts: list[Verdict]) -> str:
    head, *rows = counts(verdicts)
    kept = [place for place, name in enumerate(head) if name not in _TOLD]
    names = [_SHORT.get(head[place], head[place]) for place in kept]
    assert PASSED in names
    lines = [names, ["---", *["---:"] * (len(names) - 1)]]
    lines += [[row[place] for place in kept] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _faults(verdicts: list[Verdict]) -> str:
    head, *_, total = counts(verdicts)
    found = dict(zip(head, total, strict=True))
    return (
        f"These are {found['tests']} tests. {found['wrong']} results are wrong, and "
        f"{found['foreign error']} errors are foreign."
    )


def _groups(verdicts: list[Verdict], outcome: str, *, example: bool = True) -> str:
    lines = []
    for count, reason, name in reasons(verdicts, outcome):
        words = reason.split()
        cut = [*words[: _LONGEST_CELL - 1], "..."] if len(words) > _LONGEST_CELL else words
        text = " ".join(cut).replace("|", "\\|").replace("<", "&lt;")
        lines.append(f"| {count} | {text} |" + (f" `{name}` |" if example else ""))
    return "\n".join(lines)
