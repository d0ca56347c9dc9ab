"""LLVM's options of this process, of which the compiler of one target must not see another's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tvmconv.machines.record import Machine

_changed = threading.Condition()
# what is compiled just now, each by a thread of its own
_compiling: list[Machine] = []


@contextmanager
def llvm_options(machine: Machine) -> Iterator[None]:
    """While TVM has LLVM make or write code of a machine: LLVM's options are this machine's.

    LLVM takes the length of SVE vectors from an option of the process. TVM sets it whenever it
    makes or writes such code, and puts back what it found. Two threads at a time would put back
    each other's, so that the option stays set, and all later code for vectors of any length relies
    on that one. Code of a fixed length is therefore made and written by one thread, while none
    makes other code with SVE. Not to be nested.

    Parameters
    ----------
    machine
        The target of the code.
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
    """Whether code of any of them has vectors of a fixed length, which an option says."""
    return any(machine.exact_vector_bits for machine in machines)
