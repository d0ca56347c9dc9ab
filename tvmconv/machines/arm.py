"""Machine models of 64-bit Arm CPUs for NEON code: vectors of 128 bits.

No figure here was measured by this project. Sources:

- FMAs a cycle, their latency, and cache sizes: Arm's software optimization guides and pages of
  manufacturers. For FT-2000+: Wang et al. 2020 (one FMA and two loads a cycle, 32 KB of L1, 2 MB of
  L2 for four cores). Its latency is assumed to be Cortex-A72's. A shared L2 is divided among its
  threads.
- ``fma_latency`` is the latency of an independent result. Some cores forward to the next
  accumulation earlier (Cortex-A72 after 3 cycles, A76 and Neoverse after 2). The models ignore it.
- Loads a cycle: general knowledge.
- Bandwidth beyond L1 of Neoverse N1 and V2: Arm's learning path "Memory subsystem impact on Arm
  server performance". One core of Graviton2 at 2.5 GHz has 73.4, 35.9 and 20.9 GB/s. One core of
  Graviton4 at 2.8 GHz has 95.1, 78.0 and 37.0 GB/s. V1 and N2 are assumed to have N1's bandwidth
  beyond L2.
- Memory bandwidth of Cortex-A72: STREAM add on one core of a Raspberry Pi 4
  (www.sci-pi.org.uk/bench/stream.html: 4855 MB/s at 1.5 GHz).
- Bandwidth of other cores, and costs of generated code (``CodeCosts``): estimates in proportion to
  published figures of each family. ``unrolls_block`` is observed in LLVM's output.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tvmconv.machines.record import CodeCosts, Machine, Rates, Vector

_KB, _MB = 1024, 1024**2

# LLVM has a name for the architecture, "generic", and one for most cores
_CORTEX_A72 = Machine(
    name="cortex-a72",
    family="arm",
    isa="neon",
    triple="aarch64-linux-gnu",
    mcpu="cortex-a72",
    features=("asimd", "fp"),
    vector=Vector(bits=128, registers=32),
    channel_block=4,
    fma_units=1,
    fma_latency=7,
    load_ports=1,
    l1d_bytes=32 * _KB,
    l2_bytes=1 * _MB,
    l2_sharers=4,
    l3_bytes=0,
    line_bytes=64,
    l1d_way_bytes=16 * _KB,
    l1d_ways=2,
    cores=1,
    rates=Rates(multiply_adds=1.0, broadcasts=1.0, l1=16.0, l2=8.0, l3=0.0, memory=3.2),
    code=CodeCosts(
        # an FMA reads one lane of a register, never memory
        folded_broadcast=1.0,
        pack_vector=2.0,
        pack_element=12.0,
        unrolls_block=True,
        # a cache line has four channels of four positions, so a prefetch each would repeat it
        prefetches_weights=False,
        spare_registers=2,
        by_lane=True,
        transforms_strips=True,
        extrema=True,
        halves=True,
        phases=True,
        # estimate: a run of such short vectors is two or three cache lines
        late_run=1.0,
        other_units=1.0,
    ),
)
# LLVM schedules its "generic" CPU for in-order execution
_ORDERED = replace(_CORTEX_A72.code, loads_ahead=1)
# the two in-order cores have a 64-bit path to L1: ncnn's guide (arm-a53-a55-dual-issue.md)
_LOADS_BLOCK = 2.0


def _core(
    name: str,
    *,
    fma: int,
    latency: int,
    loads: int,
    caches: tuple[int, int, int],
    ways: int,
    rates: tuple[float, float, float, float],
    widening: float = 1.0,
    mcpu: str = "",
    line: int = 64,
    sharers: int = 1,
    ordered: bool = False,
    blocking: float = 0.0,
    halved: int = 0,
    converts: bool = True,
) -> Machine:
    """A core that differs from Cortex-A72.

    ``caches`` are sizes of L1, of the L2 of ``sharers`` cores, and of L3. ``rates`` are bytes a
    cycle of L1, L2, L3 and memory. ``widening`` is the cost of multiplying integers to wider
    accumulators, by Arm's guides. LLVM schedules for in-order execution if ``ordered``.
    ``converts`` tells whether the core converts FP32 vectors to integers at more than a quarter of
    its rate of additions, by the same guides. ``blocking`` is :attr:`CodeCosts.loads_block`, and
    ``halved`` is ``halved_loads``.
    """
    l1d, l2, l3 = caches
    from_l1, from_l2, from_l3, from_memory = rates
    code = _ORDERED if ordered else _CORTEX_A72.code
    return replace(
        _CORTEX_A72,
        name=name,
        mcpu=mcpu or name,
        fma_units=fma,
        fma_latency=latency,
        load_ports=loads,
        l1d_bytes=l1d,
        l2_bytes=l2,
        l2_sharers=sharers,
        l3_bytes=l3,
        line_bytes=line,
        l1d_way_bytes=l1d // ways,
        l1d_ways=ways,
        rates=Rates(fma, loads, from_l1, from_l2, from_l3, from_memory),
        code=replace(
            code,
            widening=widening,
            slow_conversions=not converts,
            other_units=0.0,
            loads_block=blocking,
            halved_loads=halved,
        ),
    )


_in_order = partial(_core, loads=1, ways=4, ordered=True, blocking=_LOADS_BLOCK)
# Cortex-A76 has the pipelines of Neoverse N1
_neoverse = partial(_core, latency=4, ways=4, widening=2.0, converts=False)
_CORES = (
    # any ARMv8-A: features of the oldest core, configurations of the Raspberry Pi 4's core
    replace(_CORTEX_A72, name="aarch64", mcpu="generic", code=_ORDERED),
    # in-order, one 64-bit load a cycle. The L2 of a cluster is always divided by its four cores.
    # With all of it, single-threaded choices were estimated to take 3 % longer on ResNet-18, and
    # 2 % less on ResNet-50
    _in_order(
        "cortex-a53",
        fma=1,
        latency=8,
        caches=(32 * _KB, 128 * _KB, 0),
        rates=(8.0, 4.0, 0.0, 1.5),
        halved=2,
    ),
    _in_order(
        "cortex-a55",
        fma=1,
        latency=4,
        caches=(32 * _KB, 128 * _KB, 1 * _MB),
        rates=(8.0, 6.0, 3.0, 1.5),
        halved=1,
    ),
    _CORTEX_A72,
    _neoverse(
        "cortex-a76",
        fma=2,
        loads=2,
        caches=(64 * _KB, 512 * _KB, 2 * _MB),
        rates=(32.0, 16.0, 6.0, 3.0),
    ),
    _neoverse(
        "neoverse-n1",
        fma=2,
        loads=2,
        caches=(64 * _KB, 1 * _MB, 32 * _MB),
        rates=(32.0, 29.4, 14.4, 8.4),
    ),
    _neoverse(
        "neoverse-v1",
        fma=4,
        loads=3,
        caches=(64 * _KB, 1 * _MB, 32 * _MB),
        rates=(48.0, 32.0, 14.4, 8.4),
    ),
    _neoverse(
        "neoverse-n2",
        fma=2,
        loads=3,
        caches=(64 * _KB, 1 * _MB, 32 * _MB),
        rates=(48.0, 32.0, 14.4, 8.4),
    ),
    _neoverse(
        "neoverse-v2",
        fma=4,
        loads=3,
        caches=(64 * _KB, 2 * _MB, 36 * _MB),
        rates=(48.0, 34.0, 27.9, 13.2),
    ),
    _core(
        "ft2000plus",
        mcpu="generic",
        fma=1,
        latency=7,
        loads=2,
        caches=(32 * _KB, 2 * _MB, 0),
        sharers=4,
        ways=2,
        rates=(32.0, 8.0, 0.0, 2.0),
        ordered=True,
    ),
    # sizes, and one 128-bit FMA and two loads a cycle, are of the paper on Phytium (table 2); the
    # other figures are FT-2000+'s
    _core(
        "ft1500a",
        mcpu="generic",
        fma=1,
        latency=7,
        loads=2,
        caches=(32 * _KB, 2 * _MB, 8 * _MB),
        sharers=4,
        ways=2,
        rates=(32.0, 8.0, 4.0, 2.0),
        ordered=True,
    ),
    # the performance core under Linux: an L2 of four cores, and the chip's system cache
    _core(
        "apple-m1",
        fma=4,
        latency=4,
        loads=3,
        caches=(128 * _KB, 3 * _MB, 8 * _MB),
        ways=8,
        rates=(48.0, 32.0, 12.0, 10.0),
        line=128,
    ),
)
MACHINES: dict[str, Machine] = {machine.name: machine for machine in _CORES}
