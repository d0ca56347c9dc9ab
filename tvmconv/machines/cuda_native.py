"""The GPU of this machine: an architecture's record with the figures that the driver gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvmconv.core.errors import ArtifactError, TargetError
from tvmconv.machines.cuda import MACHINES, CudaMachine
from tvmconv.runtime.driver import Attribute, Driver, driver

_ORIGIN = "NVIDIA's driver, of the GPU of this machine"
# fields of a record that are figures of the driver as they stand
_FIELDS = {
    "multiprocessors": Attribute.MULTIPROCESSORS,
    "registers": Attribute.REGISTERS,
    "threads": Attribute.THREADS,
    "blocks_resident": Attribute.BLOCKS_RESIDENT,
    "shared_bytes": Attribute.SHARED_BYTES,
    "shared_block_bytes": Attribute.SHARED_BLOCK_BYTES,
    "l2_bytes": Attribute.L2_BYTES,
}


def native_gpu(index: int = 0) -> CudaMachine:
    """One of the GPUs that the driver shows, by default the first.

    Its record is that of its architecture, or of the last one before that has schedules, whose
    code it runs or translates. What the driver does not say is as there.

    Raises
    ------
    TargetError
        If there is no driver or no GPU, or the GPU is older than all that have schedules.
    """
    names = ", ".join(MACHINES)
    try:
        gpu = driver(index)
        return adapted(gpu)
    except ArtifactError as error:
        raise TargetError(
            f"target 'cuda' is the GPU of this machine: {error}; name one: {names}"
        ) from error


def adapted(gpu: Driver) -> CudaMachine:
    """The record of a GPU; see :func:`native_gpu`."""
    capability = tuple(
        gpu.attribute(which) for which in (Attribute.CAPABILITY_MAJOR, Attribute.CAPABILITY_MINOR)
    )
    known = [machine for machine in MACHINES.values() if machine.capability <= capability]
    if not known:
        oldest = next(iter(MACHINES.values()))
        raise TargetError(
            f"target 'cuda' is the GPU of this machine, {gpu.name} of sm_{capability[0]}"
            f"{capability[1]}, which is not supported. Supported: {oldest.isa} and later"
        )
    base = max(known, key=lambda machine: machine.capability)
    hertz = 1e3 * gpu.attribute(Attribute.CLOCK_RATE)
    # both edges of the memory's clock carry data
    transfers = 2e3 * gpu.attribute(Attribute.MEMORY_CLOCK_RATE)
    memory_rate = transfers * gpu.attribute(Attribute.MEMORY_BUS_BITS) / 8
    given: dict[str, Any] = {
        **{name: gpu.attribute(which) for name, which in _FIELDS.items()},
        "memory_bytes": gpu.memory_bytes,
        "clock_hertz": hertz,
        "memory_rate": memory_rate / (hertz or base.clock_hertz),
    }
    found = {name: value for name, value in given.items() if value > 0}
    origins = {**dict(base.origins), **dict.fromkeys(found, _ORIGIN)}
    return replace(base, model=gpu.name, **found, origins=tuple(origins.items()))
