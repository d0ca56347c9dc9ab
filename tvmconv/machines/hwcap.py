"""CPU features that Linux reports to an AArch64 process in the auxiliary vector."""

from __future__ import annotations

import ctypes

# names of /proc/cpuinfo in the order of the bits of AT_HWCAP, then of AT_HWCAP2, as in
# tvmconv/runtime/c/features.c
NAMES = (
    *("fp", "asimd", "evtstrm", "aes", "pmull", "sha1", "sha2", "crc32"),
    *("atomics", "fphp", "asimdhp", "cpuid", "asimdrdm", "jscvt", "fcma", "lrcpc"),
    *("dcpop", "sha3", "sm3", "sm4", "asimddp", "sha512", "sve", "asimdfhm"),
    *("dit", "uscat", "ilrcpc", "flagm", "ssbs", "sb", "paca", "pacg"),
    *("dcpodp", "sve2", "sveaes", "svepmull", "svebitperm", "svesha3", "svesm4", "flagm2"),
    *("frint", "svei8mm", "svef32mm", "svef64mm", "svebf16", "i8mm", "bf16", "dgh"),
)
_AT_HWCAP, _AT_HWCAP2 = 16, 26
_WORD = 32


def arm_features() -> frozenset[str]:
    """Features of the AArch64 CPU of this process, also under emulation.

    Under emulation ``/proc/cpuinfo`` may show the host's features.
    """
    getauxval = ctypes.CDLL(None).getauxval
    getauxval.restype, getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return features_of(getauxval(_AT_HWCAP), getauxval(_AT_HWCAP2))


def features_of(low: int, high: int) -> frozenset[str]:
    """The names of the bits of AT_HWCAP and AT_HWCAP2."""
    bits = low & ((1 << _WORD) - 1) | high << _WORD
    return frozenset(name for bit, name in enumerate(NAMES) if bits >> bit & 1)
