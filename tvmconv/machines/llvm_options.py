"""Keeps LLVM options, which are global to the process, separate for each target."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tvmconv.machines.record import Machine

_changed = threading.Condition()
# targets being compiled now, each by its own thread
_compiling: list[Machine] = []


@contextmanager
def llvm_options(machine: Machine) -> Iterator[None]:
    """Set LLVM's options for a machine while TVM makes or writes its code.

    LLVM takes the length of SVE vectors from a global option. TVM sets it whenever it makes or
    writes such code, and restores the previous value. Two threads would restore each other's value,
    and the option would stay set. All later scalable code would then assume that length. Therefore
    one thread makes and writes code of fixed length, while no other thread makes code with SVE.
    Contexts must not be nested.
    """
    if "sve" not in machine.features:
        yield
        return
    with _changed:
        _changed.wait_for(lambda: not (_compiling and _fixed(machine, *_compiling)))
        _compiling.append(machine)
    try:
        yield
    finally:
        with _changed:
            _compiling.remove(machine)
            _changed.notify_all()


def _fixed(*machines: Machine) -> bool:
    """Whether any of the machines has SVE vectors of fixed length, which needs the option."""
    return any(machine.exact_vector_bits for machine in machines)
