"""The limits of a GPU as a profile shows them: multiply-adds and memory, measured."""

from __future__ import annotations

from statistics import median

from tvmconv.lab.bench.gpu.probes import REPEAT, Probes
from tvmconv.lab.bench.peak import Peak
from tvmconv.machines.cuda import CudaMachine
from tvmconv.measuring.gpu.driver import Gpu


def gpu_peak(machine: CudaMachine, device: int = 0) -> Peak:
    """What :func:`~tvmconv.lab.bench.peak.measure_peak` is of a processor.

    Parameters
    ----------
    machine
        Of the model; the probes are compiled for its architectures.
    device
        Which of the GPUs that the driver shows, from 0.

    Returns
    -------
    Peak
        float32 multiply-adds of all multiprocessors, and what a copy in the GPU's memory reads and
        writes.

    Raises
    ------
    ArtifactError
        If there is no driver, no such GPU, or no nvcc for the probes.
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
