"""Copies of matrices to panels of one vector of columns, for the register tiles of attention."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from tvmconv.operators import math
from tvmconv.operators.vector_loops import ramp
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ir_builder import T

# steps of the smallest square that is transposed in registers
_SQUARE = 4


class Neighbors(Enum):
    """The axis of a matrix along which elements are neighbors in memory."""

    ROWS = "rows"
    COLUMNS = "columns"
    NONE = "none"


def pack_panels(
    value: Callable[[Any, Any], Any],
    panels: Any,
    sizes: tuple[int, int],
    lanes: int,
    neighbors: Neighbors,
    transposed: str,
) -> None:
    """Write loops that copy ``value(step, column)`` to ``panels``, a flat buffer.

    ``sizes`` are steps and columns. Panels are ``(columns / lanes, steps, lanes)``; the last one is
    filled up with zeros. ``transposed`` is the annotation of loops that copy squares in registers.
    """
    steps, columns = sizes
    whole, rest = divmod(columns, lanes)

    def place(panel: Any, step: Any, lane: Any) -> Any:
        return (panel * steps + step) * lanes + lane

    def squares(panel: Any, first: Any, side: int) -> None:
        """Steps that are neighbors, for all columns of a panel."""
        columns_of_panel = T.serial(0, lanes, annotations={transposed: "1"})
        with columns_of_panel as lane, T.vectorized(0, side) as step:
            copied = value(first + step, panel * lanes + lane)
            panels[place(panel, first + step, lane)] = copied

    if whole:
        with T.serial(0, whole) as panel:
            if neighbors == Neighbors.COLUMNS:
                with T.serial(0, steps) as step:
                    vector = value(step, ramp(panel * lanes, lanes))
                    panels[ramp(place(panel, step, 0), lanes)] = vector
            else:
                side, done = lanes, 0
                while neighbors == Neighbors.ROWS and side >= _SQUARE:
                    count = (steps - done) // side
                    if count:
                        with T.serial(0, count) as number:
                            squares(panel, done + number * side, side)
                    done, side = done + count * side, side // 2
                if done < steps:
                    with T.grid(steps - done, lanes) as (step, lane):
                        copied = value(done + step, panel * lanes + lane)
                        panels[place(panel, done + step, lane)] = copied
    if rest:
        with T.serial(0, steps) as step:
            panels[ramp(place(whole, step, 0), lanes)] = tirx.Broadcast(math.constant(0.0), lanes)
        with T.grid(rest, steps) as (lane, step):
            panels[place(whole, step, lane)] = value(step, whole * lanes + lane)
