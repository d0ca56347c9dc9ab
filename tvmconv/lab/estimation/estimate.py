"""The cost of a call on a CPU: cycles, instructions and FMAs, by layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from tvmconv.artifact.saving import open_artifact
from tvmconv.core.decision import KernelCall
from tvmconv.lab.estimation.assembly import Instruction, disassembled, lone_inserts
from tvmconv.lab.estimation.blocks import Stretch, stretches
from tvmconv.lab.estimation.cache import digest, recall, remember
from tvmconv.lab.estimation.cores import Core, core_of
from tvmconv.lab.estimation.counting import Section, counted
from tvmconv.lab.estimation.cycles import Steady, steady_cycles
from tvmconv.lab.estimation.tools import SOURCES, described, layers_program, llvm_tool
from tvmconv.machines.record import Machine, processor

# version of the method; grows when the same counts would give other figures
_METHOD = 1
# the share of executed instructions that is simulated; the others have their mean cost
_SIMULATED = 0.9995


@dataclass(frozen=True)
class Cost:
    """Executed code, and its estimated time on one core.

    ``cycles`` are estimated, with every access a hit in L1 and every branch predicted.
    ``instructions``, and ``multiply_adds`` (FMAs on FP32 vectors), are counted. ``unknown``
    instructions, which the CPU's model lacks, cost no cycles.
    """

    cycles: float
    instructions: int
    multiply_adds: int
    unknown: int = 0

    def __add__(self, other: Cost) -> Cost:
        """The sum of both."""
        return Cost(
            self.cycles + other.cycles,
            self.instructions + other.instructions,
            self.multiply_adds + other.multiply_adds,
            self.unknown + other.unknown,
        )


NOTHING = Cost(0.0, 0, 0)


@dataclass(frozen=True)
class LayerEstimate:
    """One kernel call of a model and its cost."""

    call: KernelCall
    cost: Cost


@dataclass(frozen=True)
class Estimate:
    """The estimate of one call, by layers in the order of execution."""

    core: Core
    layers: tuple[LayerEstimate, ...]

    @property
    def total(self) -> Cost:
        """The cost of all layers."""
        return reduce(add, (layer.cost for layer in self.layers), NOTHING)


def described_method(core: Core) -> str:
    """How estimates for a core are made, in a sentence that is shown with their figures."""
    note = f" ({core.note})" if core.note else ""
    return (
        f"estimate, not a measurement: blocks counted under qemu times cycles by "
        f"{described(llvm_tool('llvm-mca'))} for {core.model}{note}; no cache misses, no "
        "mispredicted branches, one thread"
    )


def estimate_model(path: Path, machine: Machine | None = None) -> Estimate:
    """Estimate a saved model for a CPU, by default the one it was compiled for.

    Raises :class:`ArtifactError` if the files are damaged, tools are missing, or the model cannot
    be run under qemu.
    """
    manifest, _ = open_artifact(path, here=False)
    calls, built = manifest.calls, processor(manifest.machine)
    sections = layer_sections(path, built, len(calls), manifest.library_sha256)
    return estimate_sections(sections, calls, core_of(machine or built), built.triple)


def estimate_sections(
    sections: Sequence[Section], calls: Sequence[KernelCall], core: Core, triple: str
) -> Estimate:
    """Estimates of layers that were counted."""
    costs = section_costs(sections, core, triple)
    layers = (LayerEstimate(call, cost) for call, cost in zip(calls, costs, strict=True))
    return Estimate(core, tuple(layers))


def layer_sections(path: Path, machine: Machine, layers: int, key: str) -> list[Section]:
    """The executed code of each layer of a saved model; counted once for each ``key``."""
    content = digest(key, (SOURCES / "layers.c").read_bytes())
    command = [layers_program(machine.triple), path.resolve()]
    found = counted(content, command, machine.triple, options=qemu_options(machine))
    return [found.get(index, Section()) for index in range(1, layers + 1)]


def qemu_options(machine: Machine) -> list[str]:
    """qemu's CPU for the code of a machine: with all features that it can emulate."""
    if machine.triple.startswith("aarch64") and machine.vector.scalable:
        return ["-cpu", f"max,sve-default-vector-length={machine.vector.bits // 8}"]
    return ["-cpu", "max"]


def section_costs(sections: Sequence[Section], core: Core, triple: str) -> list[Cost]:
    """The cost of each section; shared code is simulated once."""
    known = disassembled((code for section in sections for _, code in section.runs), triple)
    parts = [stretches(section, known) for section in sections]
    wanted = {part.codes for section in parts for part in most(section)}
    steady = _steady(wanted, known, core, triple)
    return [_cost(section, steady, known, core) for section in parts]


def most(parts: Iterable[Stretch]) -> list[Stretch]:
    """The stretches of nearly all executed instructions, the heaviest first."""
    ordered = sorted(parts, key=lambda part: -part.runs * len(part.codes))
    left = _SIMULATED * sum(part.runs * len(part.codes) for part in ordered)
    taken = []
    for part in ordered:
        if left <= 0:
            break
        taken.append(part)
        left -= part.runs * len(part.codes)
    return taken


def _steady(
    wanted: set[tuple[str, ...]], known: Mapping[str, Instruction], core: Core, triple: str
) -> dict[tuple[str, ...], Steady]:
    """Simulated cycles of each stretch, from the cache if possible."""
    ordered = sorted(wanted)
    tool = described(llvm_tool("llvm-mca"))
    key = digest(str(_METHOD), tool, core.model, triple, *(" ".join(c) for c in ordered))
    data: Any = recall("cycles", key)
    if data is None:
        found = steady_cycles(ordered, known, core.model, triple)
        data = [list(asdict(found[codes]).values()) for codes in ordered]
        remember("cycles", key, data)
    return {codes: Steady(*values) for codes, values in zip(ordered, data, strict=True)}


def _cost(
    parts: Sequence[Stretch],
    steady: Mapping[tuple[str, ...], Steady],
    known: Mapping[str, Instruction],
    core: Core,
) -> Cost:
    cycles, simulated, instructions, multiply_adds, unknown = 0.0, 0, 0, 0, 0
    for part in parts:
        length = len(part.codes)
        found_codes = [known[code] for code in part.codes if code in known]
        products = sum(code.multiply_add for code in found_codes)
        instructions += part.runs * length
        multiply_adds += part.runs * products
        if (found := steady.get(part.codes)) is None:
            continue
        simulated += part.runs * length
        unknown += part.runs * found.unknown
        # some models start more FMAs, or multiplications, in a cycle than the CPU does
        multiplied = products + sum(code.multiply for code in found_codes)
        started = multiplied / core.multiply_adds
        started += core.wide_load * sum(code.wide_loads for code in found_codes)
        started += core.narrow_load * sum(code.narrow_loads for code in found_codes)
        started += core.lone_insert * lone_inserts(found_codes)
        cycles += part.runs * max(found.cycles, started)
    if simulated:
        cycles *= instructions / simulated
    return Cost(cycles, instructions, multiply_adds, unknown)
