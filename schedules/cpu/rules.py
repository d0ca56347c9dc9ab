"""The rules for operators other than convolutions, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmconv.schedules.cpu import dense, elementwise, lanes, lrn, matmul, reduction, reorder, rows

Rule = Callable[[Any, Any], Any]

RULES: tuple[Rule, ...] = (
    dense.rule,
    lanes.rule,
    lrn.rule,
    reorder.rule,
    rows.rule,
    matmul.rule,
    elementwise.rule,
    reduction.rule,
)
