"""The one place that lets compiled code run.

Machine code can be made, read and saved for any machine on any host. Whoever wants to call it
takes it from here, or asks here first, so that a processor which lacks an instruction set gives
a sentence instead of a signal.
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
    """CPU flags that code for a machine may need and this processor lacks or hides.

    A length of scalable vectors that is not this processor's counts as one.
    """
    missing = _missing(required_features(machine))
    bits = machine.exact_vector_bits
    return (*missing, f"{bits}-bit SVE") if bits and bits != host_vector_bits() else missing


def ensure_executable(needed: Iterable[str], what: str, remedy: str = _REMEDY) -> None:
    """Refuse to run code on a processor that lacks an instruction set the code may use.

    Parameters
    ----------
    needed
        CPU flags, named as in ``/proc/cpuinfo``.
    what
        How the sentence begins: ``model.so was built for x86-64-v4``.
    remedy
        How it ends: what to do.

    Raises
    ------
    ArtifactError
        Naming the missing features and the remedy.
    """
    missing = _missing(needed)
    if "asimd" in missing:
        raise ArtifactError(
            f"{what} and needs a 64-bit Arm processor, this is {host_model()}; run it there, or "
            "emulated: tvmconv run --emulate, or qemu-aarch64 with a program that opens it"
        )
    if missing:
        hidden = f" or {HIDE_VARIABLE} hides" if os.environ.get(HIDE_VARIABLE) else ""
        raise ArtifactError(
            f"{what} and needs {', '.join(missing)}, which this processor ({host_model()}) "
            f"lacks{hidden}; {remedy}"
        )


def ensure_machine(machine: Machine, what: str, remedy: str = _REMEDY) -> None:
    """Refuse to run code for a machine with features that this processor lacks.

    Parameters
    ----------
    machine
        What the code is or would be compiled for.
    what
        The code: ``model.so``.
    remedy
        What to do.

    Raises
    ------
    ArtifactError
        See :func:`ensure_executable`.
    """
    built = f"{what} was built for {machine.name} ({machine.mcpu})"
    ensure_executable(required_features(machine), built, remedy)
    if lacks(machine):
        raise ArtifactError(
            f"{built} and needs scalable vectors of {machine.exact_vector_bits} bits; this "
            f"processor ({host_model()}) has {host_vector_bits()} bits; {remedy}"
        )


def _missing(needed: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(needed) - host_features()))


class Code:
    """Compiled functions of one machine: to be read and written anywhere, called where they run.

    Parameters
    ----------
    module
        The TVM module; nobody else may take functions from it.
    machine
        What it was compiled for.
    """

    def __init__(self, module: Module, machine: Machine) -> None:
        self._module = module
        self.machine = machine

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function to call.

        Raises
        ------
        ArtifactError
            If this processor lacks a feature that the code may use.
        """
        ensure_machine(self.machine, f"the compiled function {name!r}")
        with llvm_options(self.machine):
            return self._module[name]

    def inspect_source(self, form: str = "s") -> str:
        """The assembly, or LLVM's own form (``"ll"``)."""
        with llvm_options(self.machine):
            return str(self._module.inspect_source(form))

    def write_object(self, path: str | Path) -> None:
        """Write an object file, for a linker."""
        with llvm_options(self.machine):
            self._module.write_to_file(str(path), "o")

    def as_import(self) -> Module:
        """The TVM module, for ``relax.build``; what that makes is its owner's to run.

        And to write, while nothing else is compiled: see :func:`.llvm_options.llvm_options`.
        """
        return self._module

    def export_library(
        self, path: str | Path, link: Callable[[str, Sequence[str]], object]
    ) -> None:
        """Write a shared object, for a device that checks it by itself.

        Parameters
        ----------
        path
            Of the shared object.
        link
            Makes it of object files for the machine.
        """
        with llvm_options(self.machine):
            self._module.export_library(str(path), fcompile=link)
