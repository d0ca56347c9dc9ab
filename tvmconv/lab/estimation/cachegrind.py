"""Cache misses of kernels on this machine, simulated by valgrind's cachegrind."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tvmconv.compile.toolchain import SOURCES, Toolchain
from tvmconv.core.errors import ArtifactError
from tvmconv.kernels.kernel import Kernel
from tvmconv.lab.estimation.kernels import Layers, written
from tvmconv.machines.gate import ensure_machine
from tvmconv.machines.multiply import multiply_of_bytes
from tvmconv.machines.record import Machine, processor

# ways of the second cache: cachegrind needs a power of two
_WAYS = 8
# the limit of valgrind 3.19 to 3.24
_MOST_BITS = 256


@dataclass(frozen=True)
class Misses:
    """Accesses of data, and misses of L1 and of the second cache."""

    references: int = 0
    first: int = 0
    second: int = 0

    def __add__(self, other: Misses) -> Misses:
        return Misses(
            self.references + other.references,
            self.first + other.first,
            self.second + other.second,
        )

    def __sub__(self, other: Misses) -> Misses:
        return self + Misses(-other.references, -other.first, -other.second)


def check_cachegrind(machine: Machine) -> None:
    """Raise :class:`ArtifactError` for machines and hosts that valgrind cannot simulate."""
    if shutil.which("valgrind") is None:
        raise ArtifactError(
            "cache misses: valgrind is not installed. Install it (Debian: apt install valgrind)."
        )
    if machine.vector.bits > _MOST_BITS or multiply_of_bytes(machine).steps == 1:
        raise ArtifactError(
            f"cache misses: target {machine.name}. Expected one without AVX-512 and VNNI, which "
            "valgrind cannot execute. Use --target x86-64-v3."
        )
    ensure_machine(machine, "a kernel under valgrind")


def stage_misses(kernel: Kernel) -> dict[str, Misses]:
    """Misses of one call by the kernel's stages, in caches without its data.

    The misses of a stage are a difference of two programs, whose kernels end after it and before
    it. Parts of a kernel that threads share have no names. Operands are zeros. A kernel without
    stages has one, ``call``. Fails as :func:`check_cachegrind`, or if a program fails.
    """
    check_cachegrind(processor(kernel.machine))
    stages = kernel.expression.stages or (("call", kernel.expression.blocks),)
    found = [
        _program_misses(kernel, [block for _, blocks in stages[number:] for block in blocks])
        for number in range(len(stages) + 1)
    ]
    pairs = pairwise(found)
    return {name: after - before for (name, _), (before, after) in zip(stages, pairs, strict=True)}


def _program_misses(kernel: Kernel, omit: Sequence[str]) -> Misses:
    """Misses of a whole program that calls a kernel without some blocks."""
    machine, layers = processor(kernel.machine), Layers()
    layers.add(kernel, omit=omit)
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as name:
        folder = Path(name)
        path = written(layers.compiled(machine), folder)
        program, empty, counts = folder / "call", folder / "empty", folder / "counts"
        Toolchain.find("", machine.triple).program(SOURCES / "call.c", program)
        empty.write_bytes(b"")
        line, first = machine.line_bytes, 1 << (machine.l1d_bytes.bit_length() - 1)
        second = 1 << (machine.l2_bytes.bit_length() - 1)
        command = [
            *("valgrind", "--tool=cachegrind", "--cache-sim=yes"),
            f"--D1={first},{machine.l1d_ways},{line}",
            f"--LL={second},{_WAYS},{line}",
            f"--cachegrind-out-file={counts}",
            *map(str, (program, path, empty, folder / "outputs")),
        ]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ArtifactError(f"a kernel under valgrind: {done.stderr.strip()[-1000:]}")
        return read_counts(counts.read_text().splitlines())


def read_counts(lines: Iterable[str]) -> Misses:
    """The counts of the whole program in a file of cachegrind."""
    output = dict(line.split(":", 1) for line in lines if line.startswith(("events:", "summary:")))
    counts = dict(zip(output["events"].split(), map(int, output["summary"].split()), strict=True))
    names = ("D{}", "D1m{}", "DLm{}")
    return Misses(*(sum(counts[name.format(way)] for way in ("r", "w")) for name in names))
