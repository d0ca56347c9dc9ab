"""A Python interpreter of another architecture with baselines' packages, run under qemu."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tvmconv.compile.emulation import emulator
from tvmconv.core.errors import InputError
from tvmconv.machines.features import required_features
from tvmconv.machines.record import Machine

_LOADER = "lib/ld-linux-aarch64.so.1"
# e_machine of ELF files
_AARCH64 = 183
# implementer and part number of /proc/cpuinfo, by which libraries choose code for a core
_PARTS = {
    "cortex-a53": (0x41, 0xD03),
    "cortex-a55": (0x41, 0xD05),
    "cortex-a72": (0x41, 0xD08),
    "cortex-a76": (0x41, 0xD0B),
    "neoverse-n1": (0x41, 0xD0C),
    "neoverse-v1": (0x41, 0xD40),
    "neoverse-n2": (0x41, 0xD49),
    "neoverse-v2": (0x41, 0xD4F),
    "ft1500a": (0x70, 0x660),
    "ft2000plus": (0x70, 0x662),
    "apple-m1": (0x61, 0x023),
}


@dataclass(frozen=True)
class EmulatedPython:
    """An interpreter for Arm.

    ``root`` is the folder with its C library, as on the system's root. For ``usr/bin/python3.11``
    of Debian packages it is the folder that they were unpacked in.
    """

    path: Path
    root: Path

    @classmethod
    def find(cls, path: Path) -> EmulatedPython:
        """The interpreter of a program file.

        Raises :class:`InputError` if it is not a program for 64-bit Arm, or no folder above it has
        its C library.
        """
        try:
            with path.open("rb") as file:
                head = file.read(20)
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
        if head[:4] != b"\x7fELF" or int.from_bytes(head[18:20], "little") != _AARCH64:
            raise InputError(
                f"{path} is not a program for 64-bit Arm. Expected a Python of the target's "
                "architecture (docs/notes/arm-estimated.md)."
            )
        whole = path.resolve()
        root = next((folder for folder in whole.parents if (folder / _LOADER).exists()), None)
        if root is None:
            raise InputError(
                f"no folder above {path} has {_LOADER}, which starts it. Unpack libc6 there."
            )
        return cls(whole, root)

    @contextmanager
    def on(self, machine: Machine) -> Iterator[list[str]]:
        """Options of qemu with which libraries see a CPU: its features, name and caches."""
        with TemporaryDirectory(prefix="tvmconv-") as name:
            root = Path(name)
            for entry in self.root.iterdir():
                if entry.name not in ("proc", "sys"):
                    (root / entry.name).symlink_to(entry)
            _write_system(root, machine)
            yield ["-L", name, "-cpu", emulated_cpu(machine)]


def emulated_cpu(machine: Machine) -> str:
    """The ``-cpu`` of qemu: the CPU itself, or one with the same features for NEON.

    With SVE it has all features of qemu except SME, which no machine here has, at the length of the
    machine's vectors.
    """
    if "sve" in machine.features:
        return f"max,sme=off,sve-default-vector-length={machine.vector.bits // 8}"
    known = _emulated(machine.triple)
    if machine.mcpu in known:
        return machine.mcpu
    if "i8mm" in required_features(machine):
        # the only CPU of qemu 7.2 with INT8 matrix multiplication
        return "max,sve=off,sme=off"
    return "neoverse-n1" if "asimddp" in machine.features else "cortex-a72"


@lru_cache(maxsize=4)
def _emulated(triple: str) -> frozenset[str]:
    command = [*emulator(triple), "-cpu", "help"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return frozenset(done.stdout.split())


def _write_system(root: Path, machine: Machine) -> None:
    """The files of ``/proc`` and ``/sys`` that libraries read; qemu would show the host's files."""
    implementer, part = _PARTS.get(machine.name, (0x41, 0xD08))
    facts = {
        "processor": "0",
        "Features": " ".join(machine.features),
        "CPU implementer": f"0x{implementer:02x}",
        "CPU architecture": "8",
        "CPU variant": "0x0",
        "CPU part": f"0x{part:03x}",
        "CPU revision": "0",
    }
    (root / "proc").mkdir()
    lines = [f"{name}\t: {value}\n" for name, value in facts.items()]
    (root / "proc" / "cpuinfo").write_text("".join(lines) + "\n")
    cpus = root / "sys" / "devices" / "system" / "cpu"
    caches = [
        (1, "Data", machine.l1d_bytes),
        (1, "Instruction", machine.l1d_bytes),
        (2, "Unified", machine.l2_bytes),
        (3, "Unified", machine.l3_bytes),
    ]
    for index, (level, kind, size) in enumerate(c for c in caches if c[2]):
        folder = cpus / "cpu0" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        (folder / "level").write_text(f"{level}\n")
        (folder / "type").write_text(f"{kind}\n")
        (folder / "size").write_text(f"{size // 1024}K\n")
        (folder / "coherency_line_size").write_text(f"{machine.line_bytes}\n")
        (folder / "shared_cpu_list").write_text("0\n")
    for name in ("possible", "present", "online"):
        (cpus / name).write_text("0\n")
