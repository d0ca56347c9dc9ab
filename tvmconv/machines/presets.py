"""The machine records of all families by their names, which are what users give as targets."""

from __future__ import annotations

from tvmconv.machines import x86
from tvmconv.machines.record import Machine

MACHINES: dict[str, Machine] = {**x86.MACHINES}
