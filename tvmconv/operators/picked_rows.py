"""Rows and columns of plain images by constant indices, copied by vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvmconv.operators.vector_loops import pieces, place_of, ramp, spread, tasks
from tvmconv.tvm_api import te
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Tensor

# runs of a row that have code of their own
_MOST_RUNS = 8


@dataclass(frozen=True)
class Run:
    """Neighboring columns of the result that come from equally spaced columns.

    Parameters
    ----------
    begin
        First column of the result.
    source
        Its column in the image.
    step
        Distance of the columns in the image: 1, -1, or 0 for a repeated column.
    length
        Columns.
    """

    begin: int
    source: int
    step: int
    length: int


def runs_of(columns: Sequence[int]) -> list[Run] | None:
    """The runs of constant columns, as few as follow from left to right; None for many."""
    runs: list[Run] = []
    begin = 0
    while begin < len(columns):
        if len(runs) == _MOST_RUNS:
            return None
        end, step = begin + 1, 1
        if end < len(columns) and abs(columns[end] - columns[begin]) <= 1:
            step = columns[end] - columns[begin]
        while end < len(columns) and columns[end] - columns[end - 1] == step:
            end += 1
        runs.append(Run(begin, columns[begin], step, end - begin))
        begin = end
    return runs


def picked_rows(data: Tensor, rows: Tensor | None, runs: Sequence[Run], lanes: int) -> Tensor:
    """Select rows and columns of planes.

    Parameters
    ----------
    data
        Planes (count, height, width) of any type but bool.
    rows
        Index of the row of each row of the result, INT32. None keeps all.
    runs
        The columns of the result.
    lanes
        Elements of a vector.
    """
    planes, height, _ = map(int, data.shape)
    height = height if rows is None else int(rows.shape[0])
    width, dtype = runs[-1].begin + runs[-1].length, str(data.dtype)

    def write(ins: Any, outs: Any) -> Any:
        source, *chosen = (T.buffer_proxy(buffer) for buffer in ins)
        target = T.buffer_proxy(outs[0])

        def row(unit: Any) -> None:
            plane, line = place_of(unit, (planes, height))
            picked = chosen[0][line] if chosen else line
            for run in runs:
                copy(run, (plane, line), (plane, picked))

        def copy(run: Run, to: tuple[Any, Any], of: tuple[Any, Any]) -> None:
            if run.step < 0:
                with T.serial(0, run.length) as number:
                    target[(*to, run.begin + number)] = source[(*of, run.source - number)]
                return

            def store(first: Any, count: int) -> None:
                value = (
                    source[(*of, ramp(run.source + first, count))]
                    if run.step
                    else spread(source[(*of, run.source)], count)
                )
                target[(*to, ramp(run.begin + first, count))] = value

            pieces(run.length, lanes, store)

        return tasks(planes * height, width, lambda: None, row)

    operands = [data] if rows is None else [data, rows]
    result: Any = te.extern([[planes, height, width]], operands, write, dtype=[dtype], name="pick")
    return result
