"""CPU features that Linux reports to a process in the auxiliary vector."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

_AT_HWCAP, _AT_HWCAP2 = 16, 26
_WORD = 32


def auxiliary_features(names: Sequence[str]) -> frozenset[str]:
    """Features of the CPU of this process, also under emulation.

    Under emulation ``/proc/cpuinfo`` may show the host's features.

    Parameters
    ----------
    names
        As in :attr:`tvmconv.machines.architectures.Architecture.hwcap`.
    """
    getauxval = ctypes.CDLL(None).getauxval
    getauxval.restype, getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return features_of(names, getauxval(_AT_HWCAP), getauxval(_AT_HWCAP2))


def features_of(names: Sequence[str], low: int, high: int) -> frozenset[str]:
    """The names of the bits of AT_HWCAP and AT_HWCAP2."""
    bits = low & ((1 << _WORD) - 1) | high << _WORD
    return frozenset(name for bit, name in enumerate(names) if bits >> bit & 1)
