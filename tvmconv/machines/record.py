"""What a schedule and a cost model may know about the processor they work for.

A machine is one frozen record. Adding a target is adding a record; a new family may have a folder
under ``schedules/`` for what differs there. Nothing here is a time: costs are counted in cycles of
one core, and what turns them into seconds is no property that a choice may depend on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from tvmconv.core.errors import TargetError
from tvmconv.machines.device import Device
from tvmconv.machines.tile_unit import TILE_ATTRIBUTES, TileUnit

_FLOAT_BITS = 32
# the vectors of NEON, and the parts within which scalable instructions pick lanes
_SEGMENT_BITS = 128
# of `CodeCosts.halved_loads`
_ORDERED = 2
# origin of rates that nobody measured on the processor in question
SHIPPED = "shipped"


@dataclass(frozen=True)
class Vector:
    """The vector registers.

    Parameters
    ----------
    bits
        Length of one; where it is scalable, the length that costs are counted for.
    scalable
        Whether code must run at any length.
    registers
        Architectural registers.
    rate
        Scalable vectors over those of fixed length that the units take in a cycle: Neoverse V1
        joins two units for one of 256 bits.
    """

    bits: int
    registers: int
    scalable: bool = False
    rate: float = 1.0


@dataclass(frozen=True)
class Rates:
    """What one core sustains in a cycle.

    Parameters
    ----------
    multiply_adds
        Vector multiply-adds that depend on nothing.
    broadcasts
        Values of memory, in L1, that are spread over a whole vector.
    l1, l2, l3
        Bytes read from that cache. 0 for an L3 that does not exist.
    memory
        Bytes read from memory.
    origin
        ``shipped`` with the package, or ``measured`` and when.
    words
        Steps of a reduction of integers, for a vector of sums each: the instructions of
        :mod:`~tvmconv.machines.multiply`. 0 where only ``multiply_adds`` is known.
    """

    multiply_adds: float
    broadcasts: float
    l1: float
    l2: float
    l3: float
    memory: float
    origin: str = SHIPPED
    words: float = 0.0

    @property
    def behind_l2(self) -> float:
        """Bytes a cycle from the next level after L2."""
        return self.l3 or self.memory


@dataclass(frozen=True)
class CodeCosts:
    """What generated code costs on a family beside its multiply-adds: fitted, with the reason.

    Parameters
    ----------
    folded_broadcast
        Cycles of a broadcast inside a multiply-add over those of one that several share: such
        loops do not quite sustain the load ports.
    pack_vector, pack_element
        Cycles of copying a vector, or one value from plain input, into a packed panel and
        reading it back.
    unrolls_block
        Whether LLVM unrolls the loop over a channel block by itself. It then keeps pixels from one
        tap to the next: tiles need a register to spare, and taps must not be written out.
    prefetches_weights
        Whether asking for weights ahead of their use hides more than the instruction costs.
    late_run
        Cycles by which the pixels of one row and channel block of a tile arrive late: each such run
        lies elsewhere. Fitted to direct against im2col on 58 layers of x86.
    spare_registers
        Registers beside accumulators and weights that the product of Winograd's tiles needs.
    by_lane
        Whether a multiply-add takes one lane of a vector as the factor of all lanes. Values that
        tiles spread are then loaded by the vector, which needs no instruction for each, and the
        steps of a channel block are written out, without prefetches between them.
    loads_ahead
        Registers that a tile by lanes needs beside those that it counts: where LLVM orders
        instructions for a core that executes them in order, it loads earlier.
    halved_loads
        Whether the vectors that multiply-adds take are loaded as two words of 64 bits: cores that
        execute in order start none while a whole one loads. 1: where LLVM likes; 2: in an order
        with the multiply-adds that is given to it, one's first word beside another's second. 0:
        whole.
    transforms_strips
        Whether Winograd transforms the columns of a row of tiles first, into L1, and some of the
        output's rows at a time: one tile's values and what they are made of exceed the registers.
    extrema
        Whether one instruction takes the larger of two values and keeps a NaN of either, and one a
        number beside a NaN; else a comparison's order of operands does that.
    widening
        Cycles of multiplying integers into sums of twice their bits over those of a multiply-add.
    slow_conversions
        Whether additions round vectors of float32 in less time than a conversion to integers.
    other_units
        Vector units that multiply nothing over those that do.
    loads_block
        Cycles in which no vector is multiplied while one is loaded, half of them of half a vector.
    halves
        Whether products of halves (``strassen``) were found to pay: sums cost little beside them.
    phases
        Whether Winograd of strided kernels, as a sum of dense ones, was found to pay for floats.
        Integers take it where it is predicted to be the fastest.
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

    @property
    def orders_sums(self) -> bool:
        """Whether multiply-adds by lanes and their loads are ordered by us, not by LLVM."""
        return self.by_lane and self.halved_loads == _ORDERED

    def blocked(self, vectors: float, words: float) -> float:
        """Cycles in which loads of whole vectors keep multiply-adds from starting.

        Those of words, into vectors of their own, do so where halves are loaded in pairs.
        """
        half = self.halved_loads == _ORDERED
        return self.loads_block * (vectors + words / 2 * half)


@dataclass(frozen=True)
class Machine:
    """A processor as schedules and cost models see it.

    Parameters
    ----------
    name
        Preset name, also the stem of its tuning log.
    family
        Folder under ``schedules/`` that goes before the shared one; need not exist.
    isa
        Vector instruction set, in one word, for example ``avx512``.
    triple
        LLVM's target triple.
    mcpu
        LLVM's name of the processor.
    features
        CPU flags (names as in ``/proc/cpuinfo``) that generated code may use; the loader refuses
        a processor that lacks one.
    vector
        The vector registers.
    channel_block
        Channels of a block of the NCHWc layout, in float32.
    fma_units, fma_latency
        Vector multiply-add units, and the cycles until a result can be used again.
    load_ports
        Vectors that can be loaded from L1 in a cycle.
    l1d_bytes, l2_bytes, l3_bytes
        Data cache sizes; L1 and L2 of one core, of an L2 that cores share the part of one of
        ``cores``. 0 for an L3 that does not exist.
    line_bytes, l1d_way_bytes, l1d_ways
        A cache line; one way of L1: lines so many bytes apart meet in one set; and the ways that
        kernels count on, which may be fewer than there are.
    cores
        Threads that the kernels are partitioned for.
    rates
        What one core sustains in a cycle.
    code
        What generated code costs beside its multiply-adds.
    l2_sharers
        Cores that share an L2.
    tiles
        The unit that multiplies tiles of bytes, if any.
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
        """Who measured the rates."""
        return self.rates.origin

    @property
    def lanes(self) -> int:
        """float32 values of one vector of fixed length."""
        return self._fixed_bits // _FLOAT_BITS

    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector of fixed length."""
        return self._fixed_bits // 8

    @property
    def _fixed_bits(self) -> int:
        """Where vectors are scalable, code of fixed length has the shortest: NEON's."""
        return min(self.vector.bits, _SEGMENT_BITS) if self.vector.scalable else self.vector.bits

    @property
    def segments(self) -> int:
        """Segments of 128 bits of one vector, at the length that costs are counted for."""
        return self.vector.bits // _SEGMENT_BITS

    @property
    def exact_vector_bits(self) -> int:
        """The one length of scalable vectors that code of fixed length is made for; 0 for any."""
        fixed = "sve" in self.features and not self.vector.scalable
        return self.vector.bits if fixed else 0

    @property
    def vector_registers(self) -> int:
        """Architectural vector registers."""
        return self.vector.registers

    @property
    def minimum_accumulators(self) -> int:
        """Independent vectors that keep the multiply-add units busy (Zhang et al. 2018)."""
        return self.fma_units * self.fma_latency

    @property
    def last_cache_bytes(self) -> int:
        """The cache before memory."""
        return self.l3_bytes or self.l2_bytes

    def load_cycles(self, vectors: float, broadcasts: float) -> float:
        """Cycles of loading from L1: whole vectors, and values spread over one."""
        return vectors * self.vector_bytes / self.rates.l1 + broadcasts / self.rates.broadcasts

    def tvm_target(self) -> dict[str, Any]:
        """The TVM target of this machine, in TVM 0.27's dictionary form."""
        target: dict[str, Any] = {
            "kind": "llvm",
            "mcpu": self.mcpu,
            "mtriple": self.triple,
            "num-cores": self.cores,
        }
        if self.triple.startswith("aarch64"):
            # of processors that have SVE, LLVM would use it in code for NEON too
            target["mattr"] = ["+sve" if "sve" in self.features else "-sve"]
        if self.tiles:
            target["mattr"] = list(TILE_ATTRIBUTES)
        if self.exact_vector_bits:
            target["cl-opt"] = [f"-aarch64-sve-vector-bits-min:uint={self.exact_vector_bits}"]
        return target

    @property
    def record_facts(self) -> dict[str, Any]:
        """None: tuning records have this record's names."""
        return {}

    def blocks(self, channels: int) -> int:
        """Channel blocks that hold ``channels`` values, the last one padded with zeros."""
        return -(-channels // self.channel_block)

    def with_cores(self, cores: int) -> Machine:
        """The same machine for so many threads; one that is alone on a shared L2 has all of it."""
        whole = self.l2_bytes * min(self.l2_sharers, self.cores)
        return replace(self, cores=cores, l2_bytes=whole // min(self.l2_sharers, cores))

    def to_json(self) -> dict[str, Any]:
        """Plain data for manifests, workers and reports."""
        return {**asdict(self), "features": list(self.features)}


def processor(device: Device) -> Machine:
    """A device that has to be a processor.

    Raises
    ------
    TargetError
        If it is none.
    """
    if not isinstance(device, Machine):
        raise TargetError(
            f"a CPU target is required, got {device.described}. Name one, such as native or "
            "x86-64-v3."
        )
    return device
