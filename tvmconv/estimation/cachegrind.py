"""Cache misses of kernels on this machine, simulated by valgrind's cachegrind."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmconv.compile.toolchain import SOURCES, Toolchain
from tvmconv.core.errors import ArtifactError
from tvmconv.estimation.kernels import Layers, written
from tvmconv.kernels.kernel import Kernel
from tvmconv.machines.dot import dot_of_bytes
from tvmconv.machines.gate import ensure_machine
from tvmconv.machines.record import Machine, processor

# of the second cache; cachegrind wants powers of two, records hold what a processor has
_WAYS = 8
_FUNCTION = re.compile(r"fn=.*kernel(\d+)(?!\d)")
# what valgrind 3.19 to 3.24 can execute
_MOST_BITS = 256


@dataclass(frozen=True)
class Misses:
    """Accesses of data by one kernel, and those that L1 and the second cache do not hold."""

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
    """Refuse what cannot be simulated before work is spent on it.

    Raises
    ------
    ArtifactError
        If valgrind is missing, or does not know the machine's instructions.
    """
    if shutil.which("valgrind") is None:
        raise ArtifactError(
            "cache misses are counted by valgrind, which is not installed "
            "(Debian: apt install valgrind)"
        )
    if machine.vector.bits > _MOST_BITS or dot_of_bytes(machine).steps == 1:
        raise ArtifactError(
            f"valgrind executes no AVX-512 and no VNNI, which code for {machine.name} may have; "
            "name --target x86-64-v3"
        )
    ensure_machine(machine, "a kernel under valgrind")


def stage_misses(kernels: Sequence[Kernel]) -> list[dict[str, Misses]]:
    """Misses of one call of each kernel, in caches that others have left, by its stages.

    Those of a stage are what a kernel that ends after it has more than one that ends before it.
    Operands are zeros. A kernel without stages is one, ``call``.

    Raises
    ------
    ArtifactError
        As :func:`check_cachegrind`, or if the program fails.
    """
    machine, layers = processor(kernels[0].machine), Layers()
    check_cachegrind(machine)
    parts: list[list[str]] = []
    for kernel in kernels:
        stages = kernel.expression.stages or (("call", ()),)
        for number, _ in enumerate(stages, 1):
            layers.add(kernel, omit=[b for _, blocks in stages[number:] for b in blocks])
        parts.append([name for name, _ in stages])
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        path = written(layers.compiled(machine), Path(folder))
        found = _run(path, Path(folder), machine)
    results, place = [], 0
    for names in parts:
        before, stages_found = Misses(), {}
        for name in names:
            until = found.get(place, Misses())
            stages_found[name], before, place = until - before, until, place + 1
        results.append(stages_found)
    return results


def _run(path: Path, folder: Path, machine: Machine) -> dict[int, Misses]:
    """Misses by the number of the kernel."""
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
        raise ArtifactError(f"kernels under valgrind: {done.stderr.strip()[-1000:]}")
    return read_counts(counts.read_text().splitlines())


def read_counts(lines: Iterable[str]) -> dict[int, Misses]:
    """What a file of cachegrind says of functions ``kernelN`` and of their parts, by ``N``."""
    events: list[str] = []
    found: dict[int, Misses] = {}
    number = None
    for line in lines:
        if line.startswith("events:"):
            events = line.split()[1:]
        elif line.startswith("fn="):
            match = _FUNCTION.match(line)
            number = int(match[1]) if match else None
        elif number is not None and line[:1].isdigit():
            counts = dict(zip(events, map(int, line.split()[1:]), strict=False))
            read_and_written = (
                sum(counts.get(name.format(way), 0) for way in ("r", "w"))
                for name in ("D{}", "D1m{}", "DLm{}")
            )
            found[number] = found.get(number, Misses()) + Misses(*read_and_written)
    return found
