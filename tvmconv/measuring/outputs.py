"""Outputs described in a table, next to the outputs of another library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tvmconv.core.errors import TvmconvError
from tvmconv.core.tensor import Array
from tvmconv.report.table import Column, Table, plain

_COLUMNS = (
    *plain("output", "shape"),
    Column("min", "min", ".5g"),
    Column("max", "max", ".5g"),
    Column("mean", "mean", ".5g"),
    Column("argmax", "argmax"),
)
_NOT_FINITE = Column("not_finite", "NaN or inf")
_COMPARED = (
    Column("max_difference", "max |diff|", ".1e"),
    Column("relative_error", "relative", ".1e"),
    Column("differing", "differ"),
)


def outputs_table(values: Mapping[str, Array], expected: Mapping[str, Array]) -> Table:
    """A row for each output; ``expected`` holds the outputs of another library, or is empty.

    Raises :class:`TvmconvError` if an output has another shape there.
    """
    rows = [_row(name, value, expected.get(name)) for name, value in values.items()]
    columns: tuple[Column, ...] = _COLUMNS
    if any(row["not_finite"] for row in rows):
        columns += (_NOT_FINITE,)
    return Table("values", "Outputs", columns + (_COMPARED if expected else ()), rows)


def _row(name: str, value: Array, expected: Array | None) -> dict[str, Any]:
    plain = value.astype("float64")
    finite = plain[np.isfinite(plain)]
    row: dict[str, Any] = {
        "output": name,
        "shape": "x".join(map(str, value.shape)),
        "dtype": str(value.dtype),
        "min": float(finite.min()) if finite.size else None,
        "max": float(finite.max()) if finite.size else None,
        "mean": float(finite.mean()) if finite.size else None,
        "argmax": int(plain.argmax()) if finite.size else None,
        "not_finite": plain.size - finite.size,
    }
    if expected is not None:
        row |= _compared(name, value, expected)
    return row


def _compared(name: str, value: Array, expected: Array) -> dict[str, Any]:
    """Differences; infinite where only one side has a NaN or an infinity."""
    if value.shape != expected.shape:
        raise TvmconvError(
            f"comparison of output {name!r}: shape {value.shape}. Expected {expected.shape}. "
            "Name the ONNX model that was built."
        )
    ours, theirs = value.astype("float64"), expected.astype("float64")
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(ours - theirs))
    difference[np.isnan(difference)] = np.inf
    largest = float(difference.max(initial=0.0))
    scale = float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)) or 1.0
    row: dict[str, Any] = {"max_difference": largest, "relative_error": largest / scale}
    if value.dtype.kind in "iu":
        row["differing"] = int(np.count_nonzero(value != expected))
    return row
