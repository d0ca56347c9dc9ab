"""Where the time of one call goes, kernel by kernel: clocked inside the compiled program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from ..core.decision import KernelCall
from .timing import BoundCall, Timing, time_call


@dataclass(frozen=True)
class KernelTiming:
    """One kernel call with its times in seconds, one for each repetition.

    ``start`` is the time from the start of the traced repetition to the start of the call.
    """

    call: KernelCall
    samples: tuple[float, ...]
    start: float

    @property
    def seconds(self) -> float:
        """Median time."""
        return median(self.samples)

    @property
    def seconds_min(self) -> float:
        """Minimum time."""
        return min(self.samples)

    @property
    def gflops(self) -> float:
        """Nominal arithmetic rate at the median time, GFLOP/s; 0 where no flops are counted."""
        return self.call.flops / self.seconds / 1e9 if self.seconds > 0 else 0.0

    @property
    def gbytes(self) -> float:
        """Argument bytes over the median time, GB/s."""
        return self.call.bytes / self.seconds / 1e9 if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            **asdict(self.call),
            "seconds": self.seconds,
            "seconds_min": self.seconds_min,
            "gflops": self.gflops,
            "gbytes": self.gbytes,
        }


@dataclass(frozen=True)
class Profile(Sequence[KernelTiming]):
    """Kernel timings in execution order.

    ``total`` are times of whole calls, measured before and without a clock inside.
    """

    kernels: tuple[KernelTiming, ...]
    total: Timing
    threads: int = 1

    def __repr__(self) -> str:
        return (
            f"Profile({len(self)} kernels, {self.kernel_seconds * 1e3:.3f} ms; "
            f"whole calls {self.total.median * 1e3:.3f} ms)"
        )

    def __str__(self) -> str:
        """A line for each kernel call: milliseconds, layer and operator."""
        lines = [
            f"{kernel.seconds * 1e3:10.3f} ms  {kernel.call.layer or kernel.call.kernel}  "
            f"({kernel.call.operator})"
            for kernel in self
        ]
        return "\n".join((repr(self), *lines))

    def __getitem__(self, index: Any) -> Any:
        return self.kernels[index]

    def __len__(self) -> int:
        return len(self.kernels)

    def __iter__(self) -> Iterator[KernelTiming]:
        return iter(self.kernels)

    @property
    def kernel_seconds(self) -> float:
        """Sum of the kernels' median times."""
        return sum(kernel.seconds for kernel in self.kernels)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "threads": self.threads,
            "total": self.total.to_json(),
            "kernel_seconds": self.kernel_seconds,
            "kernels": [kernel.to_json() for kernel in self.kernels],
        }

    def trace_events(self) -> list[dict[str, Any]]:
        """One repetition as Chrome trace events; write them as ``{"traceEvents": [...]}``."""
        return [
            {
                "name": kernel.call.layer or kernel.call.kernel,
                "cat": kernel.call.operator,
                "ph": "X",
                "ts": kernel.start * 1e6,
                "dur": kernel.seconds * 1e6,
                "pid": 0,
                "tid": 0,
                "args": {
                    "kernel": kernel.call.kernel,
                    "workload": kernel.call.workload,
                    "gflops": round(kernel.gflops, 2),
                },
            }
            for kernel in self.kernels
        ]


def profile_call(
    call: BoundCall, records: Sequence[KernelCall], repeat: int, threads: int
) -> Profile:
    """Profile a bound call: ``repeat`` whole calls, then as many calls with a clock inside."""
    total = time_call(call, repeat, warmup=2)
    return profile_of([call.profile() for _ in range(max(repeat, 1))], total, records, threads)


def profile_of(
    rows: Sequence[Sequence[int]], total: Timing, records: Sequence[KernelCall], threads: int
) -> Profile:
    """The profile of calls from the nanoseconds of each layer in each call."""
    # the trace shows the repetition with the median sum
    sums = [sum(row) for row in rows]
    drawn = rows[sorted(range(len(sums)), key=sums.__getitem__)[len(sums) // 2]]
    kernels = []
    start = 0
    for index, record in enumerate(records):
        samples = tuple(row[index] / 1e9 for row in rows)
        kernels.append(KernelTiming(record, samples, start / 1e9))
        start += drawn[index]
    return Profile(tuple(kernels), total, threads)
