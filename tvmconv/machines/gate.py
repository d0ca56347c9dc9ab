"""The CPU-feature check before compiled code runs.

Machine code can be compiled, read and saved for any machine on any host. Code that calls it goes
through this module. A CPU that lacks an instruction set then gives an error, not a signal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tvmconv.core.errors import ArtifactError
from tvmconv.machines.features import required_features
from tvmconv.machines.host import HIDE_VARIABLE, host_features, host_model, host_vector_bits
from tvmconv.machines.llvm_options import llvm_options
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Module

_REMEDY = "build it on this machine, or for an older target such as x86-64-v3"


def lacks(machine: Machine) -> tuple[str, ...]:
    """CPU flags that code for a machine may need and this CPU lacks or hides.

    A different length of scalable vectors counts as a missing flag.
    """
    missing = _missing(required_features(machine))
    bits = machine.exact_vector_bits
    return (*missing, f"{bits}-bit SVE") if bits and bits != host_vector_bits() else missing


def ensure_executable(needed: Iterable[str], subject: str, remedy: str = _REMEDY) -> None:
    """Raise an error if this CPU lacks an instruction set that the code may use.

    Raises ``ArtifactError`` if features are missing; names them and the remedy. ``needed`` are CPU
    flags, named as in ``/proc/cpuinfo``. The message begins with ``subject``, such as
    ``model.so was built for x86-64-v4``, and ends with ``remedy``.
    """
    missing = _missing(needed)
    if "asimd" in missing:
        raise ArtifactError(
            f"{subject} and needs a 64-bit Arm CPU; this host is {host_model()}. Run it on such a "
            "CPU, or emulate one with tvmconv run --emulate or qemu-aarch64."
        )
    if missing:
        hidden = f" or {HIDE_VARIABLE} hides" if os.environ.get(HIDE_VARIABLE) else ""
        raise ArtifactError(
            f"{subject} and needs {', '.join(missing)}, which this CPU ({host_model()}) "
            f"lacks{hidden}; {remedy}"
        )


def ensure_machine(machine: Machine, subject: str, remedy: str = _REMEDY) -> None:
    """As :func:`ensure_executable` for code of a machine; ``subject`` names the code."""
    built = f"{subject} was built for {machine.name} ({machine.mcpu})"
    ensure_executable(required_features(machine), built, remedy)
    if lacks(machine):
        raise ArtifactError(
            f"{built} and needs scalable vectors of {machine.exact_vector_bits} bits; this "
            f"CPU ({host_model()}) has {host_vector_bits()} bits; {remedy}"
        )


def _missing(needed: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(needed) - host_features()))


class GuardedCode:
    """Compiled functions of one machine: readable anywhere, callable where the CPU supports them.

    Only this class may take functions from the TVM module.
    """

    def __init__(self, module: Module, machine: Machine) -> None:
        self._module = module
        self.machine = machine

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function to call; raises :class:`ArtifactError` if this CPU lacks a feature of it."""
        ensure_machine(self.machine, f"the compiled function {name!r}")
        with llvm_options(self.machine):
            return self._module[name]

    def inspect_source(self, form: str = "s") -> str:
        """The assembly, or LLVM IR (``"ll"``)."""
        with llvm_options(self.machine):
            return str(self._module.inspect_source(form))

    def write_object(self, path: str | Path) -> None:
        """Write an object file, for a linker."""
        with llvm_options(self.machine):
            self._module.write_to_file(str(path), "o")

    def as_import(self) -> Module:
        """The TVM module, for ``relax.build``, whose caller checks features before running it.

        The caller also writes it while no other code is compiled: see
        :func:`.llvm_options.llvm_options`.
        """
        return self._module

    def export_library(
        self, path: str | Path, link: Callable[[str, Sequence[str]], object]
    ) -> None:
        """Write a shared object, for a device that checks features by itself.

        ``link`` links object files for the machine.
        """
        with llvm_options(self.machine):
            self._module.export_library(str(path), fcompile=link)
