"""The instructions that multiply and add narrow integers, by what a processor has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tvmconv.machines.features import required_features
from tvmconv.machines.record import Machine


@dataclass(frozen=True)
class DotProduct:
    """One way to add products of narrow integers to 32-bit sums, exactly.

    Parameters
    ----------
    name
        The instruction.
    data
        Type of an 8-bit layer's activations inside a model.
    element
        Type of what is multiplied: :attr:`data`, or int16 to which 8 bits are widened.
    width
        Elements of a 32-bit word, whose products make one sum.
    steps
        Instructions of one step of a reduction.
    additions
        Of these, those that multiply nothing and that processors take beside multiplications.
    spread
        Instructions that spread a word of data over vectors, where multiplying by one lane of a
        vector does not.
    widens
        Whether it multiplies into sums of twice as many bits.
    share
        Steps in a cycle over the multiply-adds of float32, where that was measured. Products and
        their sums by two instructions do not share all units: 156 to 188 of 200 to 230 Gop/s on
        Zen 3 and Zen 4.
    """

    name: str
    data: str
    element: str
    width: int
    steps: int
    additions: int = 0
    spread: int = 0
    widens: bool = False
    share: float | None = None


# Each is exact modulo 2**32, but for `vpmaddubsw`, which saturates to 16 bits in between: no
# processor's own choice, it multiplies weights that :mod:`tvmconv.algorithms.integer.saturation`
# made safe.
DOT_PRODUCTS = {
    each.name: each
    for each in (
        DotProduct("vpdpbusd", "uint8", "uint8", width=4, steps=1),
        DotProduct("vpdpwssd", "uint8", "int16", width=2, steps=1),
        DotProduct("vpmaddwd", "uint8", "int16", width=2, steps=2, share=0.8),
        DotProduct("vpmaddubsw", "uint8", "uint8", width=4, steps=3, additions=1),
        DotProduct("sdot", "int8", "int8", width=4, steps=1),
        # two pixels' words by two outputs' words: of two steps each instruction does a half of both
        DotProduct("smmla", "int8", "int8", width=8, steps=1),
        # `smull`, `smlal` and `sadalp`: 16 bits hold two products but of four numbers -128
        DotProduct("smull", "int8", "int8", width=4, steps=3, additions=1, spread=2, widens=True),
        # `sdot` of SVE, in vectors of a fixed length
        DotProduct("sve_sdot", "int8", "int8", width=4, steps=1),
        DotProduct("smlal", "int8", "int16", width=1, steps=1, widens=True),
    )
}
# the one that multiplies matrices
MATRIX = "smmla"
_BY_FEATURE = (
    ("avx512_vnni", "vpdpbusd", "vpdpwssd"),
    ("avx_vnni", "vpdpbusd", "vpdpwssd"),
    ("avx2", "vpmaddwd", "vpmaddwd"),
    ("asimddp", "sdot", "smlal"),
    ("sve", "sve_sdot", "smlal"),
    ("asimd", "smull", "smlal"),
)


def dot_of_bytes(machine: Machine) -> DotProduct:
    """How a machine multiplies 8-bit data by 8-bit weights."""
    return DOT_PRODUCTS[_found(machine)[0]]


def matrix_of_bytes(machine: Machine) -> DotProduct:
    """How a machine multiplies 8-bit data of several pixels by 8-bit weights of several outputs."""
    if "i8mm" in required_features(machine):
        return DOT_PRODUCTS[MATRIX]
    return dot_of_bytes(machine)


def dot_of_shorts(machine: Machine) -> DotProduct:
    """How a machine multiplies 16-bit integers."""
    return DOT_PRODUCTS[_found(machine)[1]]


def steps_a_cycle(dot: DotProduct, machine: Machine, vectors: int = 1) -> float:
    """Steps of a reduction, each for a vector of sums, that a core sustains in a cycle.

    ``vectors`` of weights share a word of data that is spread.
    """
    if machine.rates.words:
        return machine.rates.words
    if dot.share is not None:
        return dot.share * machine.rates.multiply_adds
    slowdown = machine.code.widening if dot.widens else 1.0
    multiplies = (dot.steps - dot.additions) * slowdown
    every = dot.steps + dot.spread / vectors
    return machine.rates.multiply_adds / max(multiplies, every / (1 + machine.code.other_units))


# measured rates vary
_NEARLY = 0.95


def multiplications_a_cycle(machine: Machine) -> float:
    """Multiplications of narrow integers, by vectors, that a core sustains in a cycle.

    As many as multiply-adds of float32; fewer where pairs are slower than additions make them.
    """
    rates, pairs = machine.rates, DOT_PRODUCTS["vpmaddwd"]
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


@cache
def _found(machine: Machine) -> tuple[str, str]:
    features = required_features(machine)
    if machine.exact_vector_bits:
        return "sve_sdot", "smlal"
    return next((byte, short) for feature, byte, short in _BY_FEATURE if feature in features)
