"""The machine's physical limits, measured: multiply-add peak and memory bandwidth.

The kernels are TIR compiled for the target's own instruction set, so that no C compiler is
needed and the peak is that of the instructions which the convolutions may use.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from tvmconv.machines.record import Machine

# Twelve chains cover latency x units of every x86 record and leave four of AVX2's sixteen
# registers for the two factors, which every chain shares.
_CHAINS = 12
_STEPS = 100_000
# Far beyond the last-level cache, yet bounded: servers report hundreds of megabytes of L3.
_CACHE_FACTOR = 4
_MAX_BYTES = 512 * 1024**2


@dataclass(frozen=True)
class Peak:
    """What a probe measured.

    Parameters
    ----------
    threads
        Threads that ran together.
    gflops
        Best multiply-add rate in 1e9 operations per second, two per multiply-add and lane.
    median_gflops
        Median of the repeats; far below ``gflops`` on a machine that does other work.
    read_gbs
        Memory read bandwidth in 1e9 bytes per second.
    """

    threads: int
    gflops: float
    median_gflops: float
    read_gbs: float

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def measure_peak(machine: Machine, threads: int | None = None, repeat: int = 30) -> Peak:
    """Probe the host's multiply-add peak and its memory read bandwidth.

    Parameters
    ----------
    machine
        Decides the instruction set and register width; must run on this host.
    threads
        Threads to run together; the machine's cores by default.
    repeat
        Runs of each probe; the best one is the peak.
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
    """One call of the multiply-add probe, and the floating-point operations it executes."""
    import numpy as np
    import tvm

    from tvmconv.runtime.threads import call

    function = fma_library(machine, threads)["main"]
    # the chains converge to 1, so the values neither overflow nor become denormal
    factors = np.repeat(np.array([[0.999], [0.001]], "float32"), machine.lanes, axis=1)
    arguments = (
        tvm.runtime.tensor(factors),
        tvm.runtime.empty((threads, _CHAINS * machine.lanes), "float32"),
    )
    return lambda: call(
        threads, function, *arguments
    ), threads * _STEPS * _CHAINS * machine.lanes * 2


def read_runner(machine: Machine, threads: int) -> tuple[Callable[[], None], int]:
    """One call of the bandwidth probe, and the bytes it reads."""
    import numpy as np
    import tvm

    from tvmconv.runtime.threads import call

    row = threads * _CHAINS * machine.lanes
    size = min(max(_CACHE_FACTOR * machine.last_cache_bytes, 64 * 1024**2), _MAX_BYTES)
    steps = size // (4 * row)
    function = _read_library(machine, threads, steps)["main"]
    arguments = (
        tvm.runtime.tensor(np.ones((threads, steps, _CHAINS * machine.lanes), "float32")),
        tvm.runtime.empty((threads, _CHAINS * machine.lanes), "float32"),
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


@lru_cache(maxsize=8)
def fma_library(machine: Machine, threads: int) -> Any:
    """The compiled multiply-add probe (``runtime.Module``); its loop holds nothing else."""
    import tvm
    from tvm.script import tirx as T

    chains, lanes, steps = _CHAINS, machine.lanes, _STEPS

    # acc = acc * a + b cannot be simplified: neither factor is a constant, and the chain
    # through acc keeps LLVM from moving the product out of the loop.
    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def main(
        factors: T.Buffer((2, lanes), "float32"),  # type: ignore[valid-type]
        out: T.Buffer((threads, chains * lanes), "float32"),  # type: ignore[valid-type]
    ) -> None:
        for t in T.parallel(threads):
            with T.sblock("fma"):
                vt = T.axis.spatial(threads, t)
                T.reads(factors[0:2, 0:lanes])
                T.writes(out[vt, 0 : chains * lanes])
                acc = T.alloc_buffer((chains, lanes), "float32")
                for c in T.unroll(chains):
                    for v in T.vectorized(lanes):
                        acc[c, v] = T.float32(c)
                for _ in T.serial(steps):
                    for c in T.unroll(chains):
                        for v in T.vectorized(lanes):
                            acc[c, v] = acc[c, v] * factors[0, v] + factors[1, v]
                for c in T.unroll(chains):
                    for v in T.vectorized(lanes):
                        out[vt, c * lanes + v] = acc[c, v]

    return tvm.tirx.build(tvm.IRModule({"main": main}), target=_target(machine))


@lru_cache(maxsize=8)
def _read_library(machine: Machine, threads: int, steps: int) -> Any:
    import tvm
    from tvm.script import tirx as T

    chains, lanes = _CHAINS, machine.lanes

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def main(
        data: T.Buffer((threads, steps, chains * lanes), "float32"),  # type: ignore[valid-type]
        out: T.Buffer((threads, chains * lanes), "float32"),  # type: ignore[valid-type]
    ) -> None:
        for t in T.parallel(threads):
            with T.sblock("read"):
                vt = T.axis.spatial(threads, t)
                T.reads(data[vt, 0:steps, 0 : chains * lanes])
                T.writes(out[vt, 0 : chains * lanes])
                acc = T.alloc_buffer((chains, lanes), "float32")
                for c in T.unroll(chains):
                    for v in T.vectorized(lanes):
                        acc[c, v] = T.float32(0)
                for i in T.serial(steps):
                    for c in T.unroll(chains):
                        for v in T.vectorized(lanes):
                            acc[c, v] = acc[c, v] + data[vt, i, c * lanes + v]
                for c in T.unroll(chains):
                    for v in T.vectorized(lanes):
                        out[vt, c * lanes + v] = acc[c, v]

    return tvm.tirx.build(tvm.IRModule({"main": main}), target=_target(machine))


def _target(machine: Machine) -> Any:
    import tvm

    return tvm.target.Target(machine.tvm_target())
