"""The cycles of a stretch of code on a CPU, as llvm-mca simulates it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tvmconv.core.errors import ArtifactError
from tvmconv.lab.estimation.assembly import Instruction, architecture
from tvmconv.lab.estimation.tools import llvm_tool, output_of

# simulated instructions of a stretch, in whole repetitions, until it counts as steady
_SIMULATED, _LEAST, _MOST = 1024, 4, 128


@dataclass(frozen=True)
class Steady:
    """A stretch that is repeated without end.

    ``cycles`` are for one repetition. ``unknown`` counts instructions that the CPU's model lacks,
    and that cost nothing here.
    """

    cycles: float
    unknown: int = 0


def steady_cycles(
    wanted: Iterable[tuple[str, ...]], known: Mapping[str, Instruction], model: str, triple: str
) -> dict[tuple[str, ...], Steady]:
    """Cycles of stretches in the steady state, by llvm-mca's ``model`` of a CPU.

    A stretch is simulated for n and for 2 n repetitions, and the difference counts: the time to
    fill the pipeline is left out. Code that runs once between loops overlaps with them on an
    out-of-order CPU, which its repetition approximates. ``wanted`` are the bytes of the
    instructions of each, which ``known`` explains. Raises :class:`ArtifactError` if llvm-mca is
    missing, or does not know the CPU.
    """
    groups: dict[int, list[tuple[str, ...]]] = defaultdict(list)
    found: dict[tuple[str, ...], Steady] = {}
    for codes in dict.fromkeys(wanted):
        if any(code in known for code in codes):
            groups[_repetitions(len(codes))].append(codes)
        else:
            found[codes] = Steady(0.0, len(codes))
    for repetitions, group in groups.items():
        texts = [[_simulable(known[code]) for code in codes if code in known] for codes in group]
        with ThreadPoolExecutor(2) as pool:
            short, long = pool.map(
                lambda n, texts=texts: simulated(texts, model, triple, n),
                (repetitions, 2 * repetitions),
            )
        for codes, one, two in zip(group, short, long, strict=True):
            cycles = max(0, two[0] - one[0]) / repetitions
            found[codes] = Steady(cycles, len(codes) - one[1])
    return found


def _simulable(instruction: Instruction) -> str:
    """Its text; ``nop`` for a jump, because llvm-mca gives calls a hundred cycles."""
    return "nop" if instruction.ends else instruction.text


def _repetitions(length: int) -> int:
    """A power of two, so that stretches of similar length are simulated by one command."""
    wanted = max(_LEAST, min(_MOST, _SIMULATED // length))
    return 1 << (wanted.bit_length() - 1)


def simulated(
    texts: Sequence[Sequence[str]], model: str, triple: str, repetitions: int
) -> list[tuple[int, int]]:
    """Cycles of so many repetitions of each stretch, and the simulated instructions of one."""
    lines = []
    for index, text in enumerate(texts):
        lines += [f"# LLVM-MCA-BEGIN {index}", *text, f"# LLVM-MCA-END {index}"]
    command = [
        llvm_tool("llvm-mca"),
        "--json",
        f"-mtriple={architecture(triple)}-linux-gnu",
        f"-mcpu={model}",
        f"-iterations={repetitions}",
        "-skip-unsupported-instructions=any",
    ]
    output = output_of(command, "\n".join(lines) + "\n", f"llvm-mca for {model}")
    try:
        regions: list[Any] = json.loads(output[output.index("{") :])["CodeRegions"]
    except (ValueError, KeyError) as error:
        raise ArtifactError(f"cannot read what llvm-mca wrote for {model}: {error}") from error
    found = {int(region["Name"]): region["SummaryView"] for region in regions}
    return [
        (int(found[i]["TotalCycles"]), int(found[i]["Instructions"]) // repetitions)
        if i in found
        else (0, 0)
        for i in range(len(texts))
    ]
