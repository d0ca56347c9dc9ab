"""The GPU of this host: its architecture's machine model with the driver's figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvmconv.core.errors import ArtifactError, TargetError
from tvmconv.machines.cuda import MACHINES, CudaMachine
from tvmconv.runtime.driver import Attribute, Driver, driver

_ORIGIN = "NVIDIA's driver, of the GPU of this machine"
# fields of the machine model that equal attributes of the driver
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
    """One of the GPUs that the driver lists, by default the first.

    Its machine model is that architecture's, or the newest older one with schedules, whose code it
    can run or translate. Figures that the driver does not report come from this model. Raises
    ``TargetError`` if a driver or a GPU is missing, or the GPU is older than all supported
    architectures.
    """
    names = ", ".join(MACHINES)
    try:
        gpu = driver(index)
        return adapted(gpu)
    except ArtifactError as error:
        raise TargetError(
            f"cannot use target 'cuda', the GPU of this host: {error}. Expected a GPU with a "
            f"driver. Name an architecture to build for: {names}."
        ) from error


def adapted(gpu: Driver) -> CudaMachine:
    """The machine model of a GPU; see :func:`native_gpu`."""
    capability = tuple(
        gpu.attribute(which) for which in (Attribute.CAPABILITY_MAJOR, Attribute.CAPABILITY_MINOR)
    )
    known = [machine for machine in MACHINES.values() if machine.capability <= capability]
    if not known:
        oldest = next(iter(MACHINES.values()))
        raise TargetError(
            f"unsupported GPU of this host for target 'cuda': {gpu.name} of sm_{capability[0]}"
            f"{capability[1]}. Expected {oldest.isa} or later. Use a CPU target."
        )
    base = max(known, key=lambda machine: machine.capability)
    hertz = 1e3 * gpu.attribute(Attribute.CLOCK_RATE)
    # DDR memory transfers data on both clock edges
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
