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
    """The model of an instruction set for LLVM's name of a CPU, by default the set's first model.

    None if the instruction set has no model.
    """
    records = [machine for machine in MACHINES.values() if machine.isa == isa]
    return next((m for m in records if m.mcpu == mcpu), records[0] if records else None)
