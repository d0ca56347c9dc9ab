"""Multiply-accumulate instructions of CPUs: one record each, the same for every number type.

Algorithms, cost models and schedules use the attributes of a :class:`Multiply`. Only the TIR passes
that emit an instruction compare its name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from tvmconv.core.datatypes import DataTypes, itemsize
from tvmconv.machines.features import required_features
from tvmconv.machines.record import Machine


@dataclass(frozen=True)
class Multiply:
    """One way to add products to 32-bit accumulators.

    A reduction step multiplies ``width`` elements of data by ``width`` weights for each
    accumulator.

    Parameters
    ----------
    name
        The instruction, or the main one of several.
    features
        CPU features, any one of which provides it; empty if every CPU has it.
    data
        Type of a layer's activations in a model.
    element
        Type of the factors: :attr:`data`, or a wider type to which the data are converted.
    accumulator
        Type of the accumulators.
    width
        Elements of one operand whose products are added to one accumulator.
    rows, columns
        Positions and output channels of one instruction, if it multiplies matrices. It reads
        ``rows * width`` elements of data and ``width * columns`` weights.
    in_tiles
        Whether operands are in tile registers; see :class:`~tvmconv.machines.tile_unit.TileUnit`.
    steps
        Instructions of one reduction step.
    additions
        How many of these only add. CPUs execute them in parallel with multiplications.
    spread
        Instructions that broadcast a dword of data, if the multiplication cannot read one lane of
        a vector.
    by_lane
        Whether the instruction can multiply by one lane of a vector.
    widens
        Whether accumulators have twice as many bits as products.
    share
        Measured reduction steps in a cycle, relative to FP32 FMAs in a cycle.
    of_segments
        Whether scalable vectors have the instruction, and it multiplies by one lane of each
        segment. Vectors of fixed length use it, too.
    is_exact
        Integers: whether accumulators are exact modulo 2**32 for all operands. ``vpmaddubsw``
        saturates to 16 bits; :mod:`tvmconv.algorithms.integer.saturation` makes weights safe for
        it.
    adds_pairs
        Whether two products are first added in 16 bits. Only the sum of -128 times -128 twice
        overflows.
    is_negated
        Whether data are negated and products subtracted. LLVM keeps the order of subtractions if a
        step is a product and an addition.
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
    of_segments: bool = False
    is_exact: bool = True
    adds_pairs: bool = False
    is_negated: bool = False

    @property
    def of_integers(self) -> bool:
        """Whether accumulators are integers."""
        return self.accumulator == "int32"

    @property
    def is_packed(self) -> bool:
        """Whether operands are dwords that pack elements narrower than the accumulator."""
        return self.element != self.accumulator

    @property
    def is_matrix(self) -> bool:
        """Whether one instruction multiplies several positions, in vector registers."""
        return self.rows > 1 and not self.in_tiles

    @property
    def step_bytes(self) -> int:
        """Bytes of one operand's elements for one accumulator."""
        return self.width * itemsize(self.element)


FMA = Multiply("fma", data="float32", element="float32", accumulator="float32")
# In order of preference, for operands of the same types. Shares were measured on Zen 3 and Zen 4:
# vpmaddwd and its addition compete for units, 156 to 188 of 200 to 230 GOP/s.
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
    # On Zen 4 as many steps in a cycle as FMAs. It flushes denormals, unlike an FMA.
    Multiply(
        "vdpbf16ps",
        "bfloat16",
        "bfloat16",
        accumulator="float32",
        features=("avx512_bf16",),
        width=2,
    ),
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
    Multiply("sve_sdot", "int8", "int8", features=("sve",), width=4, of_segments=True),
    # with smull, smlal2 and sadalp
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
    # any other CPU: 32-bit products of elements that shifts take out of dwords
    Multiply("plain_pairs", "uint8", "int16", width=2, steps=8, additions=6),
)
BY_NAME = {each.name: each for each in MULTIPLIES}
# features of 128-bit NEON instructions, left out if SVE vectors of fixed length are longer
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
    """The exact instruction of a machine for operands of types that its algorithms support.

    Floating-point types without an instruction (:func:`lacking`) are multiplied one by one.
    ``matrices`` says whether matrix instructions on vector registers suit the layer.
    """
    if not types.is_integer:
        plain = replace(FMA, data=types.data, element=types.data, accumulator=types.data)
        return _of_floats(types, machine) or plain
    if types.weight != "int8":
        return multiply_of_shorts(machine)
    return matrix_multiply_of_bytes(machine) if matrices else multiply_of_bytes(machine)


def lacking(types: DataTypes, machine: Machine) -> str | None:
    """Why a machine cannot multiply floating-point types, as a clause; None if it can."""
    if _of_floats(types, machine):
        return None
    sums = f"{types.data} with {types.accumulator} accumulators"
    return f"{machine.described} has no instruction that multiplies {sums}"


def _of_floats(types: DataTypes, machine: Machine) -> Multiply | None:
    kinds = types.data, types.weight, types.accumulator
    found = [m for m in MULTIPLIES if (m.element, m.element, m.accumulator) == kinds]
    # the features of a machine come from TVM, which only instructions with features need
    return next((m for m in found if not m.features or m in multiplies(machine)), None)


def multiply_of_bytes(machine: Machine) -> Multiply:
    """The exact instruction of a machine for INT8 data and INT8 weights."""
    of_bytes = next((m for m in _exact(machine) if itemsize(m.element) == 1), None)
    return of_bytes or multiply_of_shorts(machine)


def matrix_multiply_of_bytes(machine: Machine) -> Multiply:
    """The exact INT8 instruction, a matrix instruction on vector registers if there is one."""
    found = next((m for m in multiplies(machine) if m.of_integers and m.is_matrix), None)
    return found or multiply_of_bytes(machine)


def multiply_of_shorts(machine: Machine) -> Multiply:
    """The instruction of a machine for 16-bit integers."""
    return next(m for m in _exact(machine) if m.element == "int16")


def multiply_of_product(types: DataTypes, machine: Machine) -> Multiply:
    """The instruction for a matrix product of run-time matrices of these types.

    It is exact for all values, so that instructions that add pairs in 16 bits are left out.
    """
    if not types.is_integer:
        return FMA
    of_bytes = multiply_of_bytes(machine)
    able = (of_bytes.element, "int8") == (types.data, types.weight) and not of_bytes.adds_pairs
    return of_bytes if able else multiply_of_shorts(machine)


def saturating_multiply(machine: Machine) -> Multiply | None:
    """The saturating INT8 instruction, if the machine has no exact one."""
    if itemsize(multiply_of_bytes(machine).element) == 1:
        return None
    return next((m for m in multiplies(machine) if not m.is_exact), None)


def _exact(machine: Machine) -> list[Multiply]:
    """The exact instructions for integers that no tiles or matrices need."""
    return [m for m in multiplies(machine) if m.of_integers and m.is_exact and m.rows == 1]


def steps_a_cycle(multiply: Multiply, machine: Machine, vectors: int = 1) -> float:
    """Reduction steps of one vector of accumulators that a core sustains in a cycle.

    ``vectors`` of weights share a broadcast dword of data.
    """
    if not multiply.is_packed:
        return machine.rates.multiply_adds
    if multiply.of_integers and machine.rates.words:
        return machine.rates.words
    if multiply.share is not None:
        return multiply.share * machine.rates.multiply_adds
    slowdown = machine.code.widening if multiply.widens else 1.0
    multiplying = (multiply.steps - multiply.additions) * slowdown
    every = multiply.steps + multiply.spread / vectors
    return machine.rates.multiply_adds / max(multiplying, every / (1 + machine.code.other_units))


# tolerance for measured rates
_NEARLY = 0.95


def multiplications_a_cycle(machine: Machine) -> float:
    """Vector multiplications of narrow integers that a core sustains in a cycle.

    The rate equals the FP32 FMA rate, or less if 16-bit dot products are slower than their
    additions explain.
    """
    rates, pairs = machine.rates, BY_NAME["vpmaddwd"]
    limit = (pairs.share or 1.0) * rates.multiply_adds
    return rates.words if 0 < rates.words < _NEARLY * limit else rates.multiply_adds


def packs_with_saturation(machine: Machine) -> bool:
    """Whether an instruction packs two vectors of integers to half their width with saturation."""
    features = required_features(machine)
    # NEON's pack instructions have 128-bit vectors only
    return "avx2" in features or ("asimd" in features and not machine.exact_vector_bits)


def permuted_bytes(machine: Machine) -> int:
    """Bytes that permute instructions look up in a table at once; 0 without such instructions."""
    features = required_features(machine)
    known = (("avx512vbmi", 64), ("avx2", 32), ("asimd", 16))
    return next((count for feature, count in known if feature in features), 0)
