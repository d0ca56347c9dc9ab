"""Outputs compared with another library's: differences, infinities and NaN."""

from __future__ import annotations

import numpy as np
import pytest

from tvmconv.core.errors import TvmconvError
from tvmconv.measuring.outputs import outputs_table

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("ours", "theirs", "error"),
    [
        ([1.0, 2.0], [1.0, 4.0], 0.5),
        ([1.0, NAN, -INF], [1.0, NAN, -INF], 0.0),
        ([1.0, NAN], [1.0, 2.0], INF),
        ([1.0, 2.0], [1.0, NAN], INF),
        ([1.0, INF], [1.0, -INF], INF),
        ([1.0, NAN], [1.0, INF], INF),
        ([3.0, INF], [2.0, INF], 0.5),
        ([], [], 0.0),
        ([0.0], [0.0], 0.0),
    ],
)
def test_differences_see_what_is_no_number(ours: list, theirs: list, error: float) -> None:
    values = {"y": np.array(ours, "float32")}
    table = outputs_table(values, {"y": np.array(theirs, "float32")})
    (row,) = table.rows
    assert row["relative_error"] == error
    assert row["not_finite"] == len(ours) - int(np.isfinite(ours).sum())
    assert "relative_error" in [column.key for column in table.columns]


def test_numbers_are_described_next_to_infinity_and_nan() -> None:
    table = outputs_table({"y": np.array([NAN, 2, -4, INF], "float32")}, {})
    (row,) = table.rows
    assert (row["min"], row["max"], row["mean"], row["not_finite"]) == (-4, 2, -1, 2)
    shown = [column.title for column in table.columns]
    assert shown[-1] == "NaN or inf"
    (row,) = outputs_table({"y": np.full(3, NAN)}, {}).rows
    assert row["max"] is row["argmax"] is None


def test_another_shape_is_another_model() -> None:
    with pytest.raises(TvmconvError, match=r"output 'y': shape \(2,\)\. Expected \(2, 1\)"):
        outputs_table({"y": np.zeros(2)}, {"y": np.zeros((2, 1))})


def test_integers_are_counted() -> None:
    (row,) = outputs_table({"y": np.arange(4)}, {"y": np.array([0, 1, 2, 9])}).rows
    assert row["differing"] == 1
