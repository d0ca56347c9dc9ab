"""How planes of a workspace lie, of which code touches the same place in turn."""

from __future__ import annotations

from math import gcd

from tvmconv.machines.record import Machine


def plane_stride(planes: int, plane: int, machine: Machine, size: int) -> int:
    """Values from one plane of a tensor to the next.

    A transform touches one line of all planes at a time. Where the size of a plane is a multiple
    of a large power of two, these lines would share few sets of L1; there a line is left free
    after each plane.

    Parameters
    ----------
    planes
        How many there are.
    plane
        Values of one.
    machine
        The processor: the geometry of its L1.
    size
        Bytes of a value.
    """
    span = machine.l1d_way_bytes // size
    together = planes * gcd(plane, span) / span
    return plane + machine.line_bytes // size if together > machine.l1d_ways else plane
