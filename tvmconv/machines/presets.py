"""The machine models of all families by name, as users name targets."""

from __future__ import annotations

from tvmconv.machines import arm, riscv, sve, x86
from tvmconv.machines.record import Machine

MACHINES: dict[str, Machine] = {
    **x86.MACHINES,
    **arm.MACHINES,
    **sve.MACHINES,
    **riscv.MACHINES,
}


def similar(isa: str, mcpu: str) -> Machine | None:
    """The machine model of an instruction set that is closest to a CPU.

    Parameters
    ----------
    isa
        As in :class:`~tvmconv.machines.record.Machine`.
    mcpu
        LLVM's name of the CPU; the first model of ``isa`` is for CPUs without a model.

    Returns
    -------
    Machine or None
        None if the instruction set has no model.
    """
    records = [machine for machine in MACHINES.values() if machine.isa == isa]
    return next((m for m in records if m.mcpu == mcpu), records[0] if records else None)
