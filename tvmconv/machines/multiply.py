"""What CPUs multiply and add: one record per instruction, the same for every number type.

Algorithms, cost models and schedules ask the attributes of a :class:`Multiply`. Only the TIR passes
that emit an instruction know it by its name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from tvmconv.core.datatypes import DataTypes, itemsize
from tvmconv.machines.features import required_features
from tvmconv.machines.record import Machine

# of an accumulator, and of the operand whose elements it adds up
DWORD_BYTES = 4


@dataclass(frozen=True)
class Multiply:
    """One way to add products to accumulators of 32 bits.

    A reduction step multiplies ``width`` elements of data by ``width`` weights for each
    accumulator.

    Parameters
    ----------
    name
        The instruction, or the main one of several.
    features
        CPU features any one of which has it; none for what every CPU has.
    data
        Type of a layer's activations inside a model.
    element
        Type of what is multiplied: :attr:`data`, or a wider type to which the data are converted.
    accumulator
        Type of the sum.
    width
        Elements of one operand whose products make one sum.
    rows, columns
        Positions and output channels of one instruction, where it multiplies matrices: it takes
        ``rows * width`` elements of data and ``width * columns`` weights.
    in_tiles
        Whether operands are in tile registers; see :class:`~tvmconv.machines.tile_unit.TileUnit`.
    steps
        Instructions of one reduction step.
    additions
        How many of these multiply nothing. CPUs execute them next to multiplications.
    spread
        Instructions that repeat a dword of data in all lanes, where the multiplication does not
        take one lane of a vector.
    by_lane
        Whether the instruction itself takes one lane of a vector as the factor of all lanes.
    widens
        Whether sums have twice as many bits as products.
    share
        Reduction steps in a cycle over the FP32 multiply-adds in a cycle, where it was measured.
    is_exact
        Whether the sums are exact modulo 2**32 for all operands. ``vpmaddubsw`` saturates to
        16 bits in between; :mod:`tvmconv.algorithms.integer.saturation` makes weights safe for it.
    adds_pairs
        Whether two products are added in 16 bits first, which hold all such sums but one: that of
        -128 times -128 twice.
    is_negated
        Whether data have the opposite sign and sums are differences. LLVM keeps the order of
        differences where a step is a product and an addition.
    """

    name: str
    data: str
    element: str
    accumulator: str = "int32"
    features: tuple[str, ...] = ()
    width: int = 1
    rows: int = 1
    columns: int = 1
    in_tiles: bool = False
    steps: int = 1
    additions: int = 0
    spread: int = 0
    by_lane: bool = False
    widens: bool = False
    share: float | None = None
    is_exact: bool = True
    adds_pairs: bool = False
    is_negated: bool = False

    @property
    def is_packed(self) -> bool:
        """Whether operands are dwords of narrower elements than the accumulator."""
        return self.element != self.accumulator

    @property
    def is_matrix(self) -> bool:
        """Whether one instruction takes several positions, in vector registers."""
        return self.rows > 1 and not self.in_tiles

    @property
    def step_bytes(self) -> int:
        """Bytes of the elements of one operand that make one sum."""
        return self.width * itemsize(self.element)


FMA = Multiply("fma", data="float32", element="float32", accumulator="float32")
# In order of preference, for operands of the same types. Measured shares are of Zen 3 and Zen 4:
# vpmaddwd and its addition do not share all units, 156 to 188 of 200 to 230 GOP/s.
MULTIPLIES = (
    FMA,
    Multiply(
        "tdpbusd",
        "uint8",
        "uint8",
        features=("amx_int8",),
        width=64,
        rows=16,
        columns=16,
        in_tiles=True,
    ),
    Multiply("smmla", "int8", "int8", features=("i8mm",), width=8, rows=2, columns=2),
    Multiply("vpdpbusd", "uint8", "uint8", features=("avx512_vnni", "avx_vnni"), width=4),
    Multiply("vpdpwssd", "uint8", "int16", features=("avx512_vnni", "avx_vnni"), width=2),
    Multiply(
        "vpmaddwd",
        "uint8",
        "int16",
        features=("avx2",),
        width=2,
        steps=2,
        share=0.8,
        is_negated=True,
    ),
    Multiply(
        "vpmaddubsw",
        "uint8",
        "uint8",
        features=("avx2",),
        width=4,
        steps=3,
        additions=1,
        is_exact=False,
    ),
    Multiply("sdot", "int8", "int8", features=("asimddp",), width=4, by_lane=True),
    # in vectors of a fixed length
    Multiply("sve_sdot", "int8", "int8", features=("sve",), width=4),
    # smull, smlal2 and sadalp
    Multiply(
        "smull",
        "int8",
        "int8",
        features=("asimd",),
        width=4,
        steps=3,
        additions=1,
        spread=2,
        widens=True,
        adds_pairs=True,
    ),
    Multiply("smlal", "int8", "int16", features=("asimd", "sve"), by_lane=True, widens=True),
)
BY_NAME = {each.name: each for each in MULTIPLIES}
# what takes NEON's vectors, and is left out where vectors of a fixed length are longer
_NEON = frozenset({"asimd", "asimddp", "i8mm"})


@cache
def multiplies(machine: Machine) -> tuple[Multiply, ...]:
    """The instructions that a machine has, in order of preference."""
    features = set(required_features(machine))
    if machine.exact_vector_bits:
        features -= _NEON
    return tuple(
        each for each in MULTIPLIES if not each.features or not features.isdisjoint(each.features)
    )


@cache
def multiply_of_types(types: DataTypes, machine: Machine, matrices: bool = False) -> Multiply:
    """How a machine multiplies operands of some types, exactly.

    Parameters
    ----------
    types
        Of a workload, which the machine's algorithms accept.
    machine
        The CPU.
    matrices
        Whether the layer is one that matrix instructions on vector registers suit.
    """
    if not types.is_integer:
        kinds = types.data, types.accumulator
        able = (m for m in multiplies(machine) if (m.element, m.accumulator) == kinds)
        plain = replace(FMA, data=types.data, element=types.data, accumulator=types.data)
        return next(able, plain)
    found = multiply_of_bytes if types.weight == "int8" else multiply_of_shorts
    if matrices and found is multiply_of_bytes:
        return matrix_multiply_of_bytes(machine)
    return found(machine)


def multiply_of_bytes(machine: Machine) -> Multiply:
    """How a machine multiplies INT8 data by INT8 weights, exactly."""
    of_bytes = next((m for m in _exact(machine) if itemsize(m.element) == 1), None)
    return of_bytes or multiply_of_shorts(machine)


def matrix_multiply_of_bytes(machine: Machine) -> Multiply:
    """The same for several positions at once, in vector registers, where the machine can."""
    found = next((m for m in multiplies(machine) if m.is_matrix), None)
    return found or multiply_of_bytes(machine)


def multiply_of_shorts(machine: Machine) -> Multiply:
    """How a machine multiplies 16-bit integers."""
    return next(m for m in _exact(machine) if m.element == "int16")


def saturating_multiply(machine: Machine) -> Multiply | None:
    """Bytes multiplied with saturation, where the machine has no exact instruction for them."""
    if itemsize(multiply_of_bytes(machine).element) == 1:
        return None
    return next((m for m in multiplies(machine) if not m.is_exact), None)


def _exact(machine: Machine) -> list[Multiply]:
    return [m for m in multiplies(machine) if m.is_exact and m.is_packed and m.rows == 1]


def steps_a_cycle(multiply: Multiply, machine: Machine, vectors: int = 1) -> float:
    """Reduction steps, each for a vector of sums, that a core sustains in a cycle.

    ``vectors`` of weights share a dword of data that is spread.
    """
    if not multiply.is_packed:
        return machine.rates.multiply_adds
    if machine.rates.words:
        return machine.rates.words
    if multiply.share is not None:
        return multiply.share * machine.rates.multiply_adds
    slowdown = machine.code.widening if multiply.widens else 1.0
    multiplying = (multiply.steps - multiply.additions) * slowdown
    every = multiply.steps + multiply.spread / vectors
    return machine.rates.multiply_adds / max(multiplying, every / (1 + machine.code.other_units))


# measured rates vary
_NEARLY = 0.95


def multiplications_a_cycle(machine: Machine) -> float:
    """Multiplications of narrow integers, by vectors, that a core sustains in a cycle.

    As many as FP32 multiply-adds; fewer where 16-bit dot products are slower than their additions
    make them.
    """
    rates, pairs = machine.rates, BY_NAME["vpmaddwd"]
    limit = (pairs.share or 1.0) * rates.multiply_adds
    return rates.words if 0 < rates.words < _NEARLY * limit else rates.multiply_adds


def packs_with_saturation(machine: Machine) -> bool:
    """Whether vectors of integers are packed to half their width with saturation, two at once."""
    features = required_features(machine)
    # NEON's packing takes its own vectors
    return "avx2" in features or ("asimd" in features and not machine.exact_vector_bits)


def permuted_bytes(machine: Machine) -> int:
    """Bytes that are looked up in a table at once by instructions that permute them; 0 for none."""
    features = required_features(machine)
    known = (("avx512vbmi", 64), ("avx2", 32), ("asimd", 16))
    return next((count for feature, count in known if feature in features), 0)
