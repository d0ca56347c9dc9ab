"""The machine's physical limits, measured: FMA peak and memory bandwidth."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from tvmconv.machines import probe_kernels
from tvmconv.machines.probe import CHAINS, converging_factors
from tvmconv.machines.record import Machine

_STEPS = 100_000
# Far beyond the last-level cache, yet bounded: servers report hundreds of megabytes of L3.
_CACHE_FACTOR = 4
_MAX_BYTES = 512 * 1024**2


@dataclass(frozen=True)
class Peak:
    """The result of a probe.

    ``gflops`` and ``read_gbs`` are rates in 1e9 per second; an FMA has two operations for each
    lane. ``median_gflops`` of the repeats is far below the best on a machine that does other work.
    """

    threads: int
    gflops: float
    median_gflops: float
    read_gbs: float


def measure_peak(machine: Machine, threads: int | None = None, repeat: int = 30) -> Peak:
    """Probe the host's FMA peak and its memory read bandwidth.

    ``threads`` are the machine's cores by default. Each probe runs ``repeat`` times; the best one
    is the peak. Raises :class:`ArtifactError` if this CPU lacks a feature of the machine.
    """
    threads = threads or machine.cores
    fma, operations = fma_runner(machine, threads)
    read, size = read_runner(machine, threads)
    seconds = _repeat(fma, repeat)
    return Peak(
        threads=threads,
        gflops=operations / min(seconds) * 1e-9,
        median_gflops=operations / statistics.median(seconds) * 1e-9,
        read_gbs=size / min(_repeat(read, max(3, repeat // 6))) * 1e-9,
    )


def fma_runner(machine: Machine, threads: int) -> tuple[Callable[[], None], int]:
    """One call of the FMA probe, and its floating-point operations."""
    from tvmconv.tvm_api import runtime
    from tvmconv.tvm_runtime.threads import call

    function = probe_kernels.multiply_adds(machine, threads, CHAINS, _STEPS)["main"]
    arguments = (
        converging_factors(machine),
        runtime.empty((threads, CHAINS * machine.lanes), "float32"),
    )
    return lambda: call(
        threads, function, *arguments
    ), threads * _STEPS * CHAINS * machine.lanes * 2


def read_runner(machine: Machine, threads: int) -> tuple[Callable[[], None], int]:
    """One call of the bandwidth probe, and the bytes it reads."""
    import numpy as np

    from tvmconv.tvm_api import runtime
    from tvmconv.tvm_runtime.threads import call

    row = threads * CHAINS * machine.lanes
    size = min(max(_CACHE_FACTOR * machine.last_cache_bytes, 64 * 1024**2), _MAX_BYTES)
    steps = size // (4 * row)
    function = probe_kernels.reads(machine, threads, CHAINS, steps, passes=1)["main"]
    arguments = (
        runtime.tensor(np.ones((threads, steps, CHAINS * machine.lanes), "int32")),
        runtime.empty((threads, CHAINS * machine.lanes), "int32"),
    )
    return lambda: call(threads, function, *arguments), 4 * steps * row


def _repeat(run: Callable[[], None], repeat: int) -> list[float]:
    from time import perf_counter

    run()
    seconds = []
    for _ in range(repeat):
        start = perf_counter()
        run()
        seconds.append(perf_counter() - start)
    return seconds
