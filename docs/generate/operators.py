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
    is_imported,
)
from tvmconv.frontend.reasons import Reason, reason_of

_HEAD = """# Operators

For everyone who wants to know whether a model builds.
The first command tells it without a build: all refused nodes, and where the model can be cut.

```sh
tvmconv check model.onnx
```

Every shape must be known when the model is built. Constant subgraphs are folded.
A node with an attribute that is not listed is refused. Nothing is ignored silently.

`BatchNormalization` with `training_mode=1` computes the mean and the variance of its batch.
Its other two results are the running statistics. Such a node is not folded into a convolution.
Before operator set 14, a node with five results does the same. Its last result is the variance;
onnxruntime saves `1 / sqrt(variance + epsilon)` there.
`spatial=0` is refused, and so is `is_test=0` before operator set 7.

## Computed at run time

| operator | attributes | since opset |
|---|---|---|
"""
_QUANTIZED = """
## Quantized models

These operators become INT8 layers where their scales and zero points are constant.
`DynamicQuantizeLSTM` becomes an LSTM in FP32 instead, with its integer weights as floats.
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
_CONTROL = """
## Control flow

Functions that a model defines itself are inlined.

| operator | known when the model is built | otherwise |
|---|---|---|
| `If` | the nodes of one branch take its place | both branches are nested programs, and one runs |
| `Loop` | a trip count and no condition: a nested program runs in a loop | see below |
| `Scan` | a nested program runs in a loop | |

- Both branches of a run-time `If` must give results of one type and rank. Their sizes may differ
  along one axis: the result then has the larger size, and a call gives the actual one.
- A branch that the model's shapes do not allow is left out. A call that selects it fails.
- A `Loop` needs a constant trip count, or a condition that follows from constants.
- A `Loop` may end early by a run-time condition if it has no stacked results.
- States of a `Loop` keep their shapes and types. A short `Loop` whose states change is unrolled.
- Sequences, `SequenceMap` and optional values are refused. GPUs run no nested programs.

"""
_SIZES = """
## Sizes that depend on the data

`NonMaxSuppression`, `NonZero`, `Compress`, `Unique` and `TopK` with a computed `k` have results
of unknown size.
The tensor has its largest size, and a call gives the actual size:

- Python returns arrays of the actual shape. `run_into` takes arrays of the largest shape, and
  returns views.
- In C, `model->shape(state, output, shape)` gives the actual shape after a run. In C++ it is
  `state.shape(output)`.
- TVM's `load_module`, RPC and emulation give arrays of the largest shape. Elements beyond the
  actual shape are undefined.

Operators after such a result compute on the largest size. These keep or use the size:

- element-wise operators whose other operands broadcast along the axis, or have the same size
- `Cast`, `Concat`, `Expand`, `Gather`, `GatherElements`, `GatherND`, `OneHot`, `Pad`, `Reshape`,
  `Slice`, `Split`, `Squeeze`, `Tile`, `Transpose` and `Unsqueeze`
- `ScatterElements` and `ScatterND`, `Resize` along other axes
- `RoiAlign` and `MaxRoiPool` whose number of regions varies
- reductions, `ArgMax`, `ArgMin`, `CumSum`, `Softmax` and `TopK`
- `MatMul` and `Gemm` of rows, and convolutions and pools whose batch varies
- `Shape` and `Size`, and shape operands of `ConstantOfShape`, `Expand`, `Pad`, `Range`, `Reshape`,
  `Slice` and `Tile` that are computed from them
- branches of a run-time `If`: they read such values, and give such results

A shape operand may also be computed from other integers if it has a bound, such as a `Min` with a
constant. Everything else is refused, and the message names the value at which the model can end.
At most one axis of a value varies. The states and results of a `Loop` or `Scan` that runs as a
nested program, and its trip count, have fixed sizes. For example, Mask R-CNN of torchvision pastes
each mask into the image in a loop over the detections. End it before the loop, and paste the masks
in your program. GPUs are refused.

"""
_FOLDED = """
## On constants only

These operators are evaluated when the model is read. Their operands must be constants, or shapes.

"""
_REFUSED = """

## Refused

A refused node can be cut off: `tvmconv check` prints the option `--outputs` for the part before it.
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
    refused = [
        f"\n**{reason.kind.capitalize()}:** {reason.text}. {reason.remedy}.\n\n"
        f"{', '.join(f'`{name}`' for name in names)}.\n"
        for reason, names in _refused().items()
    ]
    tables = [
        *rows,
        _QUANTIZED,
        *quantized,
        _COMPOSED,
        *composed,
        _CONTROL,
        _SIZES,
        _FOLDED,
        folded,
        ".",
    ]
    tables += [_REFUSED, *refused]
    return "".join([_HEAD, *tables])


def _refused() -> dict[Reason, list[str]]:
    """The operators that the installed onnx defines and the reader does not know, by reason."""
    found: dict[Reason, list[str]] = {}
    schemas = {(s.domain, s.name) for s in onnx.defs.get_all_schemas_with_history()}
    for domain, name in sorted(schemas):
        if not is_imported(domain, name):
            found.setdefault(reason_of(domain, name), []).append(name)
    return found


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
