"""Softmax and log-softmax along the last axis by scalable vectors.

Maximum and sum of a row are accumulated in vectors, whose segments are reduced at the end of the
row. Exponentials use NEON's polynomial, for as many elements as a vector has.
"""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.cpu import rows as neon
from tvmconv.tir.annotations import mark_segments
from tvmconv.tvm_api.types import PrimFunc, Schedule

# vectors at once, whose accumulators and exponentials stay in registers
_VECTORS = 4


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a softmax whose rows are whole segments and exceed the accumulated vectors."""

    def width(extent: int) -> int:
        segments, rest = divmod(extent, machine.lanes)
        return machine.lanes if not rest and segments >= _VECTORS * machine.segments else 0

    def mark(schedule: Schedule, vectors: object) -> None:
        mark_segments(schedule, vectors, _VECTORS)

    found: Schedule | None = None
    if machine.segments > 1:
        found = neon.by_vectors(func, machine, width, mark)
    return found or neon.rule(func, machine)
