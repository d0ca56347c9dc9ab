"""Measures a core's rates per cycle, and its clock.

The program counts cycles itself: a chain of one-cycle operations runs right after each probe. CPUs
change their clock with the instructions that they execute. Virtual machines expose neither clock
nor counters. The minimum time of a probe is combined with the highest clock seen with it, because
interference from other programs worsens both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from time import perf_counter

from tvmconv.core.errors import TargetError
from tvmconv.machines import probe_kernels
from tvmconv.machines.host import host_features
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import DeviceTensor

# Twelve chains hide latency times units of every model, and leave four of AVX2's sixteen
# registers for the two factors, which all chains share.
CHAINS = 12
_READ_CHAINS = 8
# cycles of one run of a probe, steps of the cycle counter after it, and runs of each probe
_RUN_CYCLES, _CHAIN_STEPS, _RUNS = 2_000_000, 10_000, 40
# data for L2 or L3 must exceed the smaller cache, and must fit its own level with space to spare
_SHARE = 0.5
# overhead of a probe's loop, within which rates are rounded: numbers of ports are integers
_LOOP_SHARE = 0.03
_MEMORY_FACTOR, _MOST_BYTES = 4, 512 * 1024**2


@dataclass(frozen=True)
class MeasuredRates:
    """A machine model with this host's measured rates, units and latency, and the highest clock."""

    machine: Machine
    hertz: float


def measure(
    machine: Machine,
    tell: Callable[[str], None] | None = None,
    packed_steps: Callable[[], tuple[Callable[[], None], float]] | None = None,
) -> MeasuredRates:
    """Measure one core of this host; takes about ten seconds.

    Raises ``TargetError`` if this host lacks a feature of the machine. The machine determines the
    instructions, and the cache sizes that separate the levels. ``tell`` gets the name of each rate
    before its measurement. ``packed_steps`` makes a call, and returns it with its number of integer
    reduction steps. It is an argument because this module does not compile kernels. Without it the
    model's rate stays.
    """
    if missing := sorted(set(machine.features) - host_features()):
        raise TargetError(
            f"cannot measure {machine.name} on this host: the CPU lacks {', '.join(missing)}. "
            "Measure on a CPU that has these features, or omit --measure."
        )
    counter = _Counter(machine)
    say = tell or (lambda name: None)
    say("multiply_adds")
    vectors = 2 * _RUN_CYCLES
    adds = counter.rate(*_multiply_adds(machine, CHAINS, vectors // CHAINS))
    latency = 1 / counter.rate(*_multiply_adds(machine, 1, _RUN_CYCLES // machine.fma_latency))
    steps = machine.rates.words
    if packed_steps is not None:
        say("words")
        steps = of_ports(counter.rate(*packed_steps()))
    say("broadcasts")
    spread = counter.rate(*_broadcasts(machine))
    levels = {}
    for name, size in _sizes(machine).items():
        say(name)
        levels[name] = counter.rate(*_reads(machine, size)) if size else 0.0
    levels["l1"] = machine.vector_bytes * of_ports(levels["l1"] / machine.vector_bytes)
    rates = replace(
        machine.rates,
        multiply_adds=of_ports(adds),
        broadcasts=of_ports(spread),
        words=steps,
        origin=f"measured {date.today().isoformat()}",
        **levels,
    )
    found = replace(
        machine, rates=rates, fma_units=max(1, round(adds)), fma_latency=max(1, round(latency))
    )
    return MeasuredRates(found, counter.hertz)


def of_ports(rate: float) -> float:
    """A measured rate of ports or units, rounded to an integer if it is close to one.

    If a tile's loads take as long as its FMAs, 0.5 % of loop overhead would decide between tiles.
    """
    whole = max(1, round(rate))
    return float(whole) if abs(rate - whole) <= _LOOP_SHARE * whole else rate


class _Counter:
    """Converts the time of a probe to work per cycle."""

    def __init__(self, machine: Machine) -> None:
        import numpy as np

        from tvmconv.tvm_api import runtime

        module, self._cycles = probe_kernels.cycle_counter(machine, _CHAIN_STEPS)
        function = module["main"]
        factors = runtime.tensor(np.array([0x5A5A5A5A, 12345], "int32"))
        out = runtime.empty((1,), "int32")
        self._chain: Callable[[], None] = lambda: function(factors, out)
        self._chain()
        self.hertz = 0.0

    def rate(self, run: Callable[[], None], work: float) -> float:
        """Units of ``work``, done by a call of ``run``, in a cycle."""
        run()
        least, clock = float("inf"), 0.0
        for _ in range(_RUNS):
            least = min(least, _time(run))
            clock = max(clock, self._cycles / _time(self._chain))
        self.hertz = max(self.hertz, clock)
        return work / (least * clock)


def _time(run: Callable[[], None]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def _sizes(machine: Machine) -> dict[str, int]:
    """Bytes that stay in each level when read repeatedly; 0 if the level does not exist."""
    beyond = int((machine.l2_bytes * machine.l3_bytes) ** 0.5)
    memory = max(_MEMORY_FACTOR * machine.last_cache_bytes, 64 * 1024**2)
    return {
        "l1": int(machine.l1d_bytes * _SHARE),
        "l2": int(machine.l2_bytes * _SHARE),
        "l3": beyond if beyond > 2 * machine.l2_bytes else 0,
        "memory": min(memory, _MOST_BYTES),
    }


def _multiply_adds(machine: Machine, chains: int, steps: int) -> tuple[Callable[[], None], float]:
    """A call, and its number of vector FMAs."""
    from tvmconv.tvm_api import runtime

    function = probe_kernels.multiply_adds(machine, 1, chains, steps)["main"]
    out = runtime.empty((1, chains * machine.lanes), "float32")
    factors = converging_factors(machine)
    return lambda: function(factors, out), float(chains * steps)


def converging_factors(machine: Machine) -> DeviceTensor:
    """Factors for which the chains converge to 1, without overflow and denormal numbers."""
    import numpy as np

    from tvmconv.tvm_api import runtime

    return runtime.tensor(np.repeat(np.array([[0.999], [0.001]], "f4"), machine.lanes, axis=1))


def _broadcasts(machine: Machine) -> tuple[Callable[[], None], float]:
    """A call, and the number of values that it broadcasts."""
    import numpy as np

    from tvmconv.tvm_api import runtime

    steps = machine.l1d_bytes // 4 // (4 * CHAINS)
    passes = max(1, 2 * _RUN_CYCLES // (steps * CHAINS))
    function = probe_kernels.broadcasts(machine, CHAINS, steps, passes)["main"]
    shape = (CHAINS, machine.lanes)
    data = runtime.tensor(np.ones((steps, CHAINS), "int32"))
    start = runtime.tensor(np.arange(shape[0] * shape[1], dtype="int32").reshape(shape))
    out = runtime.empty(shape, "int32")
    return lambda: function(data, start, out), float(passes * steps * CHAINS)


def _reads(machine: Machine, size: int) -> tuple[Callable[[], None], float]:
    """A call that reads ``size`` bytes, repeatedly if they are few, and the total of bytes."""
    import numpy as np

    from tvmconv.tvm_api import runtime

    row = _READ_CHAINS * machine.lanes
    steps = max(1, size // (4 * row))
    passes = max(1, 16 * _RUN_CYCLES // size)
    function = probe_kernels.reads(machine, 1, _READ_CHAINS, steps, passes)["main"]
    data = runtime.tensor(np.ones((1, steps, row), "int32"))
    out = runtime.empty((1, row), "int32")
    return lambda: function(data, out), float(4 * row * steps * passes)
