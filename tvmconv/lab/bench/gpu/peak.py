"""The limits of a GPU for a profile: FMA and memory, measured."""

from __future__ import annotations

from statistics import median

from tvmconv.lab.bench.gpu.probes import REPEAT, Probes
from tvmconv.lab.bench.peak import Peak
from tvmconv.machines.cuda import CudaMachine
from tvmconv.measuring.gpu.driver import Gpu


def gpu_peak(machine: CudaMachine, device: int = 0) -> Peak:
    """The GPU's :func:`~tvmconv.lab.bench.peak.measure_peak`: FP32 FMAs and a copy in its memory.

    ``device`` is the number of the GPU in the driver's order. Raises :class:`ArtifactError` if the
    driver, the GPU, or nvcc is missing.
    """
    probes = Probes(Gpu(device).open(), machine)
    run, operations = probes.fma()
    seconds = probes.samples(run, REPEAT)
    return Peak(
        threads=1,
        gflops=operations / min(seconds) * 1e-9,
        median_gflops=operations / median(seconds) * 1e-9,
        read_gbs=probes.rates()["memory_bytes"] * 1e-9,
    )
