"""Where the time of one call goes, kernel by kernel.

The virtual machine's instrument hook records one call: every kernel with its argument tensors.
That sequence is then replayed in order with a clock around each kernel, so that caches hold
what they hold in a real call and no hook runs inside the measured spans. What remains is the
cost of one call through the foreign-function interface; it is measured and subtracted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tvmconv.core.decision import KernelCall
from tvmconv.runtime import engine, threads
from tvmconv.runtime.runner import Runner
from tvmconv.runtime.timing import BoundCall, Timing, time_call

if TYPE_CHECKING:
    from tvmconv.model import CompiledModel

Array = npt.NDArray[Any]
Tape = list[tuple[str, Any, tuple[Any, ...]]]  # symbol, function, arguments

_RUNTIME_PREFIX = "vm.builtin."


@dataclass(frozen=True)
class KernelTiming:
    """One kernel call with its measured time.

    ``samples`` are seconds, one for each repetition, call overhead subtracted; ``start`` is when
    the call began in the traced repetition, in seconds since that repetition's start.
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
        """Least time."""
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
    """Kernel timings in execution order, and what the whole call takes.

    Parameters
    ----------
    kernels
        One entry for each kernel call.
    total
        Whole calls through the virtual machine, measured before without a clock inside.
    overhead
        Seconds subtracted from every sample: one call through the foreign-function interface.
    """

    kernels: tuple[KernelTiming, ...]
    total: Timing
    overhead: float
    threads: int = 1

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
            "overhead_seconds": self.overhead,
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


def profile_model(
    model: CompiledModel, runner: Runner, arrays: Sequence[Array], repeat: int
) -> Profile:
    """Profile a model on checked input arrays.

    Whole calls and replays are repeated ``repeat`` times each, after a warm-up.
    """
    bound = BoundCall(model, runner, arrays)
    total = time_call(bound, repeat, warmup=2)
    instance = runner.new_instance()
    run = partial(runner.invoke, instance, bound.tensors)
    tape = record_tape(instance.machine, run)
    spans = threads.call(model.threads, _replay, tape, max(repeat, 1))
    overhead = _call_overhead(tape)
    calls = match_calls([symbol for symbol, _, _ in tape], model.calls)
    # the repetition nearest to the median total is the one worth drawing
    sums = [sum(end - start for start, end in row) for row in spans]
    drawn = spans[sorted(range(len(sums)), key=sums.__getitem__)[len(sums) // 2]]
    kernels = tuple(
        KernelTiming(
            call=call,
            samples=tuple(max(row[i][1] - row[i][0] - overhead, 0.0) for row in spans),
            start=drawn[i][0] - drawn[0][0],
        )
        for i, call in enumerate(calls)
    )
    return Profile(kernels, total, overhead, model.threads)


def record_tape(machine: Any, run: Any) -> Tape:
    """The kernels of one call, in order, with their arguments.

    Parameters
    ----------
    machine
        The virtual machine whose hook is used.
    run
        Makes the call.
    """
    tape: Tape = []

    def hook(function: Any, symbol: str, before: bool, _result: Any, *arguments: Any) -> int:
        if before and not symbol.startswith(_RUNTIME_PREFIX):
            tape.append((str(symbol), function, arguments))
        return 0

    machine["set_instrument"](engine.ffi().convert(hook))
    run()
    return tape


def match_calls(symbols: Sequence[str], calls: Sequence[KernelCall]) -> list[KernelCall]:
    """The graph's record of every executed kernel.

    A later pass may have dropped or added kernels: records are taken in order for each symbol,
    and a kernel without one is described by its symbol alone.
    """
    waiting: dict[str, list[KernelCall]] = {}
    for call in reversed(calls):
        waiting.setdefault(call.kernel, []).append(call)
    found = []
    for symbol in symbols:
        records = waiting.get(symbol)
        found.append(records.pop() if records else KernelCall("", symbol, symbol))
    return found


def _replay(tape: Tape, repeat: int) -> list[list[tuple[float, float]]]:
    clock = time.perf_counter
    rows = []
    for _ in range(repeat + 1):
        row = []
        for _, function, arguments in tape:
            start = clock()
            function(*arguments)
            row.append((start, clock()))
        rows.append(row)
    return rows[1:]


def _call_overhead(tape: Tape) -> float:
    """Least time of a call that does nothing but pass as many tensors as the kernels take."""
    nothing = engine.global_function("vm.builtin.make_tuple")
    count = round(sum(len(arguments) for _, _, arguments in tape) / max(len(tape), 1))
    tensor = next((a for _, _, arguments in tape for a in arguments), None)
    arguments = (tensor,) * count
    best = float("inf")
    for _ in range(200):
        start = time.perf_counter()
        nothing(*arguments)
        best = min(best, time.perf_counter() - start)
    return best
