"""The machine model of a CPU, for schedules and cost models.

A machine is one frozen record. Adding a target means adding a record. A new family may have its own
folder under ``schedules/``. Costs are cycles of one core, not times: no choice depends on the
clock.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from tvmconv.core.errors import TargetError
from tvmconv.machines.architectures import architecture_of
from tvmconv.machines.device import Device
from tvmconv.machines.tile_unit import TILE_ATTRIBUTES, TileUnit

_FLOAT_BITS = 32
# bits of a NEON vector, and of the segments within which scalable instructions select lanes
_SEGMENT_BITS = 128
# value of `CodeCosts.halved_loads`
_ORDERED = 2
# origin of rates that were not measured on this CPU
SHIPPED = "shipped"


@dataclass(frozen=True)
class Vector:
    """The vector registers.

    Parameters
    ----------
    bits
        Length of a vector. For scalable vectors, the length for which costs are computed.
    scalable
        Whether code must run at any length.
    registers
        Architectural registers.
    rate
        Scalable vectors per vector of fixed length in a cycle. Neoverse V1 joins two units for one
        256-bit vector.
    """

    bits: int
    registers: int
    scalable: bool = False
    rate: float = 1.0


@dataclass(frozen=True)
class Rates:
    """The sustained rates of one core, per cycle.

    Parameters
    ----------
    multiply_adds
        Independent vector FMAs.
    broadcasts
        Values in L1 that are broadcast to a vector.
    l1, l2, l3
        Bytes read from that cache; 0 for a missing L3.
    memory, all_memory
        Bytes read from memory, by one core and by all together; 0 for no common limit.
    origin
        ``shipped`` with the package, or ``measured`` and when.

    The field ``words`` counts packed integer steps for one vector of accumulators; 0 if unknown.
    """

    multiply_adds: float
    broadcasts: float
    l1: float
    l2: float
    l3: float
    memory: float
    origin: str = SHIPPED
    words: float = 0.0
    all_memory: float = 0.0

    @property
    def behind_l2(self) -> float:
        """Bytes a cycle from the next level after L2."""
        return self.l3 or self.memory


@dataclass(frozen=True)
class CodeCosts:
    """Costs of generated code on a family in addition to FMAs: fitted, with the reason.

    Parameters
    ----------
    folded_broadcast
        Cycles of a broadcast inside an FMA over a shared one: load ports are not fully used.
    pack_vector, pack_element
        Cycles to copy a vector, or one value of plain input, to a packed panel and to read it back.
    unrolls_block
        Whether LLVM unrolls the loop over a channel block by itself. It then keeps data from one
        tap to the next, so that tiles need a spare register, and taps must not be unrolled.
    prefetches_weights
        Whether prefetching weights hides more than the instruction costs.
    late_run
        Latency in cycles of each run of a tile: the data of one row and channel block, which are
        not adjacent to other runs. Fitted to direct against im2col on 58 layers on x86.
    spare_registers
        Registers in addition to accumulators and weights that the GEMM of Winograd tiles needs.
    by_lane
        Whether an FMA can multiply by one lane of a vector. Values are then loaded as vectors, not
        broadcast one by one. The steps of a channel block are unrolled, without prefetches.
    loads_ahead
        Additional registers of a tile by lanes on in-order cores: LLVM loads earlier.
    halved_loads
        Whether two 64-bit loads replace each load of an FMA operand, because a whole load blocks
        FMAs on in-order cores. 0: whole loads. 1: LLVM orders the loads. 2: tvmconv orders FMAs and
        loads, so that the first half of one vector is loaded with the second half of another.
    transforms_strips
        Whether Winograd first transforms the columns of a row of tiles into L1, and computes some
        output rows at a time, because one tile exceeds the registers.
    extrema
        Whether one instruction computes a maximum that propagates NaN, and one that prefers
        numbers. Otherwise the order of operands of a comparison decides.
    widening
        Cycles of multiplying integers to accumulators of twice their bits, relative to an FMA.
    slow_conversions
        Whether additions round FP32 vectors faster than a conversion to integers.
    other_units
        Vector units that cannot multiply, relative to units that can.
    loads_block
        Cycles in which a vector load blocks multiplications; half as many for half a vector.
    phases
        Whether polyphase Winograd for strided kernels pays in FP32. For integers costs decide.

    ``halves``: Strassen pays. ``selects_lanes``: units that cannot multiply select lanes.
    ``transform`` to ``streamed`` are Winograd's costs over Cascade Lake's, ``streamed`` also
    direct's. ``border_rows`` are over Zen 4's. A prefetched panel is ``fetched_panel`` of L2.
    """

    folded_broadcast: float
    pack_vector: float
    pack_element: float
    unrolls_block: bool
    prefetches_weights: bool
    spare_registers: int
    by_lane: bool = False
    loads_ahead: int = 0
    halved_loads: int = 0
    transforms_strips: bool = False
    extrema: bool = False
    halves: bool = False
    phases: bool = False
    widening: float = 1.0
    slow_conversions: bool = False
    other_units: float = 0.0
    loads_block: float = 0.0
    late_run: float = 5.0
    transform: float = 1.0
    long_transform: float = 1.0
    spilled: float = 1.0
    streamed: float = 1.0
    border_rows: float = 1.0
    fetched_panel: float = 3 / 8
    selects_lanes: bool = False

    @property
    def orders_sums(self) -> bool:
        """Whether tvmconv, not LLVM, orders FMAs by lane and their loads."""
        return self.by_lane and self.halved_loads == _ORDERED

    def blocked(self, vectors: float, words: float) -> float:
        """Cycles in which loads block FMAs.

        ``words`` are loads of dwords to own vectors. They block FMAs only if other loads are split.
        """
        half = self.halved_loads == _ORDERED
        return self.loads_block * (vectors + words / 2 * half)


@dataclass(frozen=True)
class Machine:
    """A CPU as schedules and cost models see it.

    Parameters
    ----------
    name
        Preset name, also the stem of its tuning log.
    family
        Folder under ``schedules/`` that precedes the shared one; need not exist.
    isa
        Vector instruction set, as one identifier, for example ``avx512``.
    triple
        LLVM's target triple.
    mcpu
        LLVM's name of the CPU.
    features
        CPU flags (names as in ``/proc/cpuinfo``) that generated code may use. The loader rejects a
        CPU that lacks one.
    vector
        The vector registers.
    channel_block
        Channels of a block of the NCHWc layout, in FP32.
    fma_units, fma_latency
        Vector FMA units, and the cycles until a result can be used.
    load_ports
        Vectors that can be loaded from L1 in a cycle.
    l1d_bytes, l2_bytes, l3_bytes
        Data cache sizes. L1 and L2 are per core; a shared L2 is divided among ``cores``. 0 for a
        missing L3.
    line_bytes, l1d_way_bytes, l1d_ways
        Bytes of a cache line and of one way of L1. Lines that are multiples of a way apart share a
        set. Kernels assume ``l1d_ways`` ways, which may be fewer than the CPU has.
    cores
        Threads that the kernels are partitioned for.
    rates
        Sustained rates of one core.
    code
        Costs of generated code in addition to FMAs.
    l2_sharers
        Cores that share an L2.
    tiles
        The AMX unit, if any.
    """

    kind: ClassVar[str] = "cpu"
    runs_along_axes: ClassVar[bool] = True

    name: str
    family: str
    isa: str
    triple: str
    mcpu: str
    features: tuple[str, ...]
    vector: Vector
    channel_block: int
    fma_units: int
    fma_latency: int
    load_ports: int
    l1d_bytes: int
    l2_bytes: int
    l3_bytes: int
    line_bytes: int
    l1d_way_bytes: int
    l1d_ways: int
    cores: int
    rates: Rates
    code: CodeCosts
    l2_sharers: int = 1
    tiles: TileUnit | None = None

    @property
    def architecture(self) -> str:
        """The first part of the triple: ``x86_64``, ``aarch64``."""
        return self.triple.partition("-")[0]

    @property
    def described(self) -> str:
        """The name with LLVM's name of the processor."""
        return f"{self.name} ({self.mcpu})"

    @property
    def rates_origin(self) -> str:
        """The origin of the rates."""
        return self.rates.origin

    @property
    def lanes(self) -> int:
        """FP32 values of one vector of fixed length."""
        return self._fixed_bits // _FLOAT_BITS

    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector of fixed length."""
        return self._fixed_bits // 8

    @property
    def _fixed_bits(self) -> int:
        """Bits of fixed-length vectors; NEON's if vectors are scalable."""
        return min(self.vector.bits, _SEGMENT_BITS) if self.vector.scalable else self.vector.bits

    @property
    def segments(self) -> int:
        """128-bit segments of one vector, at the length for which costs are computed."""
        return self.vector.bits // _SEGMENT_BITS

    @property
    def exact_vector_bits(self) -> int:
        """The only SVE length that fixed-length code is compiled for; 0 for any length."""
        fixed = "sve" in self.features and not self.vector.scalable
        return self.vector.bits if fixed else 0

    @property
    def vector_registers(self) -> int:
        """Architectural vector registers."""
        return self.vector.registers

    @property
    def minimum_accumulators(self) -> int:
        """Independent accumulators that keep the FMA units busy (Zhang et al. 2018)."""
        return self.fma_units * self.fma_latency

    @property
    def last_cache_bytes(self) -> int:
        """Size of the last cache before memory."""
        return self.l3_bytes or self.l2_bytes

    def load_cycles(self, vectors: float, broadcasts: float) -> float:
        """Cycles of loading whole vectors, and broadcast values, from L1."""
        return vectors * self.vector_bytes / self.rates.l1 + broadcasts / self.rates.broadcasts

    def tvm_target(self) -> dict[str, Any]:
        """The TVM target of this machine, in TVM 0.27's dictionary form."""
        target: dict[str, Any] = {
            "kind": "llvm",
            "mcpu": self.mcpu,
            "mtriple": self.triple,
            "num-cores": self.cores,
        }
        if known := architecture_of(self.triple):
            target |= known.target_options(self.features)
        if self.tiles:
            target["mattr"] = list(TILE_ATTRIBUTES)
        if self.exact_vector_bits:
            target["cl-opt"] = [f"-aarch64-sve-vector-bits-min:uint={self.exact_vector_bits}"]
        return target

    @property
    def record_facts(self) -> dict[str, Any]:
        """Empty: tuning records use this model's field names."""
        return {}

    def blocks(self, channels: int) -> int:
        """Channel blocks that store ``channels`` values; the last one is padded with zeros."""
        return -(-channels // self.channel_block)

    def with_cores(self, cores: int) -> Machine:
        """The same machine for so many threads; fewer threads get larger parts of a shared L2."""
        whole = self.l2_bytes * min(self.l2_sharers, self.cores)
        return replace(self, cores=cores, l2_bytes=whole // min(self.l2_sharers, cores))

    def to_json(self) -> dict[str, Any]:
        """Plain data for manifests, workers and reports."""
        return {**asdict(self), "features": list(self.features)}


def processor(device: Device) -> Machine:
    """A device that must be a CPU; raises :class:`TargetError` for a GPU."""
    if not isinstance(device, Machine):
        raise TargetError(
            f"a CPU target is required, got {device.described}. Name one, such as native or "
            "x86-64-v3."
        )
    return device
