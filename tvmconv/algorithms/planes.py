"""The distance of workspace planes that code accesses alternately."""

from __future__ import annotations

from math import gcd

from tvmconv.machines.record import Machine


def plane_stride(planes: int, plane: int, machine: Machine, size: int) -> int:
    """Values from one plane of a tensor to the next.

    A transform accesses one line of all planes at a time. If the size of a plane is a multiple of a
    large power of two, these lines would share few sets of L1. Then a line is free after each
    plane. There are ``planes`` planes of ``plane`` values, of ``size`` bytes each.
    """
    span = machine.l1d_way_bytes // size
    together = planes * gcd(plane, span) / span
    return plane + machine.line_bytes // size if together > machine.l1d_ways else plane
