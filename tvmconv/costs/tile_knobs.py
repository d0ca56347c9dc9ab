"""Knobs that several convolution schedules share."""

from __future__ import annotations

from tvmconv.core.knobs import Knob
from tvmconv.core.workload import Conv2dWorkload

OUT_BLOCKS: Knob[Conv2dWorkload] = Knob(
    "oc",
    "output blocks of the register tile",
    lambda w, machine: range(1, min(machine.blocks(w.out_channels), 6) + 1),
)
TILE_ROWS: Knob[Conv2dWorkload] = Knob(
    "tile_h",
    "rows of the register tile",
    lambda w, machine: (rows for rows in (1, 2, 3, 4) if rows <= w.out_height),
)


def flag(name: str, doc: str) -> Knob[Conv2dWorkload]:
    """A knob of 0, which is neutral, and 1."""
    return Knob(name, doc, lambda w, machine: (0, 1), neutral=0, closed=True)
