"""The machine records of all families by their names, which are what users give as targets."""

from __future__ import annotations

from tvmconv.machines import arm, sve, x86
from tvmconv.machines.record import Machine

MACHINES: dict[str, Machine] = {**x86.MACHINES, **arm.MACHINES, **sve.MACHINES}


def similar(isa: str, mcpu: str) -> Machine | None:
    """The record of an instruction set that comes nearest to a processor.

    Parameters
    ----------
    isa
        As of :class:`~tvmconv.machines.record.Machine`.
    mcpu
        LLVM's name of the processor; the first record of ``isa`` stands for those without one.

    Returns
    -------
    Machine or None
        None where the instruction set has no record.
    """
    records = [machine for machine in MACHINES.values() if machine.isa == isa]
    return next((m for m in records if m.mcpu == mcpu), records[0] if records else None)
