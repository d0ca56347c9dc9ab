"""The page of the operators, from the reader's and the converters' tables."""

from __future__ import annotations

from collections.abc import Iterable

import onnx.defs

from tvmconv.frontend.composed import COMPOSITIONS
from tvmconv.frontend.convert import CONVERTERS
from tvmconv.frontend.operators import (
    COMPOSED,
    COMPOSED_MICROSOFT,
    CONVERTED,
    EXPANDED,
    FOLDED,
    FOREIGN,
    MICROSOFT,
)

_HEAD = """# Operators

For everyone who wants to know whether a model builds.
A model with any other operator fails with an error that names the node.

```sh
tvmconv explain model.onnx
```

Every shape must be known when the model is built. Constant subgraphs are folded.
A node with an attribute that is not listed is refused. Nothing is ignored silently.

## Computed at run time

| operator | attributes | since opset |
|---|---|---|
"""
_QUANTIZED = """
## Quantized models

These operators become INT8 layers where their scales and zero points are constant.
The first table also has `QuantizeLinear`, `DequantizeLinear`, `ConvInteger` and `MatMulInteger`.

| operator | operator set |
|---|---|
"""
_COMPOSED = """
## Written as other operators

The reader writes these operators as graphs of the operators above, which fuse as in other models.
onnxruntime's optimizer saves operators of com.microsoft. Save with `ORT_ENABLE_EXTENDED`: files of
`ORT_ENABLE_ALL` have data in the layout of one CPU, and tvmconv refuses them.

| operator | operator set | attributes |
|---|---|---|
"""
_FOLDED = """
## On constants only

These operators are evaluated when the model is read. Their operands must be constants, or shapes.

"""


def page() -> str:
    """Return the page."""
    rows = [f"| {name} | {_attributes(name)} | {_since(name)} |\n" for name in sorted(CONVERTED)]
    quantized = [
        f"| {name} | {MICROSOFT if name in FOREIGN[MICROSOFT] else 'ONNX'} |\n"
        for name in sorted(EXPANDED)
    ]
    composed = [
        f"| {name} | {domain or 'ONNX'} | {_quoted(COMPOSITIONS[domain, name].attributes)} |\n"
        for domain, names in (("", COMPOSED), (MICROSOFT, COMPOSED_MICROSOFT))
        for name in sorted(names)
    ]
    folded = ", ".join(f"`{name}`" for name in sorted(FOLDED - {"Constant"}))
    return "".join(
        [_HEAD, *rows, _QUANTIZED, *quantized, _COMPOSED, *composed, _FOLDED, folded, ".\n"]
    )


def _attributes(name: str) -> str:
    return _quoted(CONVERTERS[name].attributes)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{each}`" for each in sorted(names))


def _since(name: str) -> str:
    """The operator set that introduced an operator; older forms of it are converted, too."""
    versions = [
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == name and schema.domain == ""
    ]
    return str(min(versions))
