"""Knobs of register tiles and panels of convolution schedules."""

from __future__ import annotations

from tvmconv.core.knobs import Knob
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuts import divisors
from tvmconv.machines.record import Machine

# maximum for scalable vectors, whose tiles have few of them, and for others
_MOST_BLOCKS = {True: 10, False: 6}

OUT_BLOCKS: Knob[Conv2dWorkload] = Knob(
    "oc",
    "output blocks of the register tile",
    lambda w, machine: range(
        1, min(machine.blocks(w.out_channels), _MOST_BLOCKS[machine.vector.scalable]) + 1
    ),
)
TILE_ROWS: Knob[Conv2dWorkload] = Knob(
    "tile_h",
    "rows of the register tile",
    lambda w, machine: range(1, min(w.out_height, 6) + 1),
)
PANEL_HEIGHT: Knob[Conv2dWorkload] = Knob(
    "mr",
    "pixels of a panel",
    lambda w, machine: range(1, min(w.out_height * w.out_width, machine.vector_registers - 2) + 1),
)


def panel_divisors(w: Conv2dWorkload, machine: Machine) -> list[int]:
    """Divisors of the numbers of panels of all heights."""
    pixels = w.out_height * w.out_width
    counts = {-(-pixels // mr) for mr in range(1, machine.vector_registers)}
    return sorted({d for count in counts for d in divisors(count)})


def prefetch_flag(name: str, doc: str) -> Knob[Conv2dWorkload]:
    """A knob of 1 if a prefetch is made in each step of a channel block, else 0.

    Unrolled steps have no place for a prefetch.
    """

    def values(_workload: Conv2dWorkload, machine: Machine) -> tuple[int, ...]:
        return (0,) if machine.code.by_lane else (0, 1)

    return Knob(name, doc, values, neutral=0, closed=True)


def flag(name: str, doc: str) -> Knob[Conv2dWorkload]:
    """A knob of 0 (the default) and 1."""
    return Knob(name, doc, lambda w, machine: (0, 1), neutral=0, closed=True)


def row_blocks(w: Conv2dWorkload) -> tuple[int, ...]:
    """Tile rows of a cache block that a search tries; tiles, where a layer is one row."""
    count = w.out_width if w.out_height == 1 else w.out_height
    return (0, *(rows for rows in (2, 4, 7, 8, 14, 16, 28, 32) if rows < count))
