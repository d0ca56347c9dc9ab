"""llvm-mca's model of each CPU, and its known errors."""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.core.datatypes import DataTypes
from tvmconv.core.errors import TargetError
from tvmconv.machines.multiply import (
    Multiply,
    matrix_multiply_of_bytes,
    multiply_of_shorts,
    steps_a_cycle,
)
from tvmconv.machines.record import Machine


@dataclass(frozen=True)
class Core:
    """A CPU as estimates see it.

    ``model`` is llvm-mca's name of the nearest CPU that it has a model of, and ``note`` has known
    errors of the model. ``multiply_adds`` are vector FMAs that the CPU starts in a cycle: some
    models allow more. ``lanes`` are FP32 values of one vector of fixed length. ``scalable`` counts
    FMAs of such vectors that scalable ones do in a cycle, at the estimated length; 0 without them.
    ``wide_load`` and ``narrow_load`` are cycles without an FMA while 128 bits of a vector register
    are loaded, or fewer: in-order cores with 64 bits to L1. ``lone_insert`` is the same for an
    integer register that is inserted into a vector without a load, or another insertion, of half a
    vector. ``of_bytes`` and ``of_shorts`` count products that the CPU adds in a cycle for each
    lane: of 8-bit data by weights of 8 and of 16 bits. They are 0 without INT8 kernels. ``hertz``
    is a clock in cycles a second, and ``product`` the product that has it.
    """

    name: str
    model: str
    multiply_adds: float
    lanes: int = 4
    note: str = ""
    hertz: float = 2.5e9
    product: str = "assumed"
    scalable: float = 0.0
    of_bytes: float = 0.0
    of_shorts: float = 0.0
    wide_load: float = 0.0
    narrow_load: float = 0.0
    lone_insert: float = 0.0

    @property
    def peak(self) -> float:
        """Vector FMAs in a cycle at best, with either kind of vectors: shares refer to it."""
        return max(self.multiply_adds, self.scalable)

    def peak_of(self, types: DataTypes) -> float:
        """MACs for each lane in a cycle at best, for a layer's types."""
        if not types.is_integer:
            return self.peak
        return (self.of_bytes if types.weight == "int8" else self.of_shorts) or self.peak

    def seconds(self, cycles: float) -> float:
        """The time of so many cycles at the stated clock."""
        return cycles / self.hertz

    @property
    def clock_text(self) -> str:
        """The clock and its product: ``1.50 GHz (Raspberry Pi 4)``."""
        return f"{self.hertz / 1e9:.2f} GHz ({self.product})"


# by our name or LLVM's name of a CPU; for others LLVM's own choice
_MODELS = {
    "generic": ("cortex-a57", "any ARMv8-A, taken for Cortex-A72"),
    # Cortex-A57's model has no scalable vectors
    "aarch64+sve": ("neoverse-v1", "any processor with SVE, taken for Neoverse V1"),
    "ftengine": ("neoverse-v1", "LLVM has no model of it; Neoverse V1 has vectors as long"),
    # LLVM's own model delays instructions after an FMA by its latency, which the CPU does not
    # (github.com/llvm/llvm-project/pull/213238)
    "cortex-a53": (
        "cortex-a55",
        "Cortex-A55's, held to one multiply-add a cycle and none while vectors are loaded",
    ),
    "cortex-a55": (
        "cortex-a55",
        "the model has two 128-bit multiply-adds a cycle, held to one and none while 128 bits load",
    ),
    "cortex-a72": ("cortex-a57", "LLVM has Cortex-A57's model for it"),
    # LLVM's choice is Cortex-A57, which has half its FMAs
    "cortex-a76": ("neoverse-n1", "LLVM has no model of it; Neoverse N1 is its relative"),
    "neoverse-n1": ("neoverse-n1", "the model dispatches 3 instructions a cycle, the core 4"),
    "ft1500a": ("cortex-a57", "LLVM has no model of it; Cortex-A57's"),
    "ft2000plus": ("cortex-a57", "LLVM has no model of it; Cortex-A57's"),
    "apple-m1": ("apple-m1", "the model has 2 or 3 multiply-adds a cycle, the core 4"),
    "x86-64-v3": ("haswell", ""),
    "x86-64-v4": ("skylake-avx512", ""),
}

# vectors that share one broadcast, whose cost then disappears
_MANY = 1 << 20

# cycles of loading 128 bits, and fewer, and of lone insertions, by ncnn's guide
# (arm-a53-a55-dual-issue.md) and, for Cortex-A53, benchmarks of github.com/daniestevez/qsdr
_LOADS = {"cortex-a53": (2.0, 1.0, 1.0), "cortex-a55": (2.0, 0.0, 0.0)}

# clocks of one product each, as its vendor states them, in cycles a second
_CLOCKS = {
    "cortex-a53": (1.4e9, "Raspberry Pi 3 B+"),
    "cortex-a72": (1.5e9, "Raspberry Pi 4"),
    "cortex-a76": (2.4e9, "Raspberry Pi 5"),
    "neoverse-n1": (2.5e9, "Graviton 2"),
    "neoverse-v1": (2.6e9, "Graviton 3"),
    "neoverse-v2": (2.8e9, "Graviton 4"),
    "ft1500a": (1.5e9, "FT-1500A"),
    "ft2000plus": (2.3e9, "FT-2000+"),
    "a64fx": (2.2e9, "Fugaku"),
    "apple-m1": (3.2e9, "Apple M1"),
}


def core_of(machine: Machine) -> Core:
    """The core that estimates for a machine are made with.

    Raises :class:`TargetError` if the machine names no CPU of LLVM.
    """
    known = _MODELS.get(machine.name) or _MODELS.get(machine.mcpu)
    usual, note = known or (machine.mcpu, "")
    loads = _LOADS.get(machine.name) or _LOADS.get(machine.mcpu) or (0.0, 0.0, 0.0)
    if not usual:
        raise TargetError(f"{machine.name} is not a CPU with a scheduling model in LLVM")
    rate, vector = machine.rates.multiply_adds, machine.vector
    hertz, product = _CLOCKS.get(machine.name, (Core.hertz, Core.product))
    return Core(
        machine.name,
        usual,
        rate,
        machine.lanes,
        note,
        hertz=hertz,
        product=product,
        scalable=rate * vector.rate * machine.segments if vector.scalable else 0.0,
        of_bytes=_products(matrix_multiply_of_bytes(machine), machine),
        of_shorts=_products(multiply_of_shorts(machine), machine),
        wide_load=loads[0],
        narrow_load=loads[1],
        lone_insert=loads[2],
    )


def _products(found: Multiply, machine: Machine) -> float:
    """Products of a machine's instruction in a cycle, if broadcasts are free."""
    return found.width * steps_a_cycle(found, machine, _MANY)
