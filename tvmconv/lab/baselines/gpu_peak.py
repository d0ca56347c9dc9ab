"""The peak of a GPU's FP32 FMA, measured in the same rounds."""

from __future__ import annotations

from .case import Case, Session


def version() -> str:
    """Name of the GPU and version of its driver; raises :class:`ImportError` without one."""
    from tvmconv.core.errors import ArtifactError
    from tvmconv.measuring.gpu.driver import Gpu

    try:
        facts = Gpu().facts()
    except ArtifactError as error:
        raise ImportError(str(error)) from None
    return f"{facts['name']}, CUDA {facts['driver_cuda']}"


def prepare(case: Case, threads: int) -> Session:
    """The probe compiled for the bench's target."""
    from tvmconv.lab.bench.gpu.probes import Probes
    from tvmconv.machines.cuda import CudaMachine
    from tvmconv.machines.targets import resolve_device
    from tvmconv.measuring.gpu.driver import Gpu

    machine = resolve_device(case.options["target"])
    assert isinstance(machine, CudaMachine)
    probes = Probes(Gpu().open(), machine, case.options.get("kernels"))
    run, operations = probes.fma()
    return Session(run, dict, info=machine.isa, operations=operations, sampler=probes.samples)
