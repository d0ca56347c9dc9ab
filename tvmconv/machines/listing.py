"""The named targets, as users list them."""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.machines import cuda
from tvmconv.machines.presets import MACHINES


@dataclass(frozen=True)
class TargetInfo:
    """A target that ``tvmconv.build`` accepts by name.

    Parameters
    ----------
    name
        The value for ``target=``.
    kind
        ``cpu`` or ``gpu``.
    architecture
        ``x86_64``, ``aarch64``, ``riscv64`` or ``cuda``.
    isa
        Vector instruction set, or the GPU's architecture.
    features
        CPU features that the code uses, as in ``/proc/cpuinfo``; empty for GPUs.
    """

    name: str
    kind: str
    architecture: str
    isa: str
    features: tuple[str, ...] = ()


def targets() -> tuple[TargetInfo, ...]:
    """The named targets: CPUs by family, then GPUs.

    ``native`` (this CPU), ``cuda`` (this GPU) and LLVM strings such as ``llvm -mcpu=haswell`` are
    targets, too.

    Examples
    --------
    >>> [info.name for info in targets()][:2]
    ['x86-64-v3', 'x86-64-v4']
    """
    cpus = (
        TargetInfo(name, "cpu", machine.architecture, machine.isa, machine.features)
        for name, machine in MACHINES.items()
    )
    gpus = (TargetInfo(name, "gpu", "cuda", gpu.isa) for name, gpu in cuda.MACHINES.items())
    return (*cpus, *gpus)
