"""This host as the operating system reports it: features, cores, caches, and its machine model."""

from __future__ import annotations

import ctypes
import os
import platform
from dataclasses import replace
from pathlib import Path

from tvmconv.core.errors import TargetError
from tvmconv.machines.architectures import ARCHITECTURES
from tvmconv.machines.hwcap import auxiliary_features
from tvmconv.machines.presets import MACHINES
from tvmconv.machines.quota import cpu_quota
from tvmconv.machines.record import Machine
from tvmconv.machines.tile_unit import TILE_FEATURES
from tvmconv.machines.x86 import as_processor, with_tiles

HIDE_VARIABLE = "TVMCONV_HIDE_FEATURES"
_CACHES = "/sys/devices/system/cpu/cpu0/cache"


def host_features() -> frozenset[str]:
    """CPU flags of this host; empty if ``/proc/cpuinfo`` lists none.

    The environment variable ``TVMCONV_HIDE_FEATURES`` hides flags: names separated by commas, with
    ``avx512`` for all flags that begin with it. Raises ``TargetError`` if the variable names an
    unknown feature.
    """
    flags = _cpu_flags()
    return flags - _hidden_features(flags)


def _hidden_features(flags: frozenset[str]) -> frozenset[str]:
    """The CPU flags that ``TVMCONV_HIDE_FEATURES`` hides."""
    names = {name.strip() for name in os.environ.get(HIDE_VARIABLE, "").split(",")} - {""}
    known = flags.union(TILE_FEATURES, *(machine.features for machine in MACHINES.values()))
    if unknown := sorted(n for n in names if n not in known and not n.startswith("avx512")):
        raise TargetError(
            f"{HIDE_VARIABLE} has unknown CPU features: {', '.join(unknown)}. Use names "
            "of /proc/cpuinfo separated by commas, or avx512 for all names that begin with it."
        )
    return frozenset(
        flag for flag in flags if flag in names or ("avx512" in names and flag.startswith("avx512"))
    )


def _cpu_flags() -> frozenset[str]:
    if names := _auxiliary_names():
        return auxiliary_features(names)
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    flags = frozenset(line.partition(":")[2].split())
    return flags if _may_use_tiles(flags) else flags - set(TILE_FEATURES)


def _may_use_tiles(flags: frozenset[str]) -> bool:
    """Whether the system lets this process use AMX, which has to be requested once."""
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18  # on x86-64 only
    if not set(TILE_FEATURES) <= flags:
        return True
    refused: int = ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data)
    return not refused


def _auxiliary_names() -> tuple[str, ...]:
    """Names of this host's features in the auxiliary vector; empty if Linux lists them in a file.

    Such hosts are described by a device tree, not by ``/proc/cpuinfo``.
    """
    own = ARCHITECTURES.get(platform.machine())
    return own.hwcap if own else ()


def host_vector_bits() -> int:
    """Length of this CPU's scalable vectors, as set by the system; 0 without SVE."""
    get_vector_length, length_bytes = 51, 0xFFFF  # PR_SVE_GET_VL, PR_SVE_VL_LEN_MASK
    if "sve" not in _cpu_flags():
        return 0
    length = ctypes.CDLL(None).prctl(get_vector_length)
    return 8 * (length & length_bytes) if length > 0 else 0


def host_cores() -> int:
    """CPUs that this process may use at a time: its affinity, and the quota of a container."""
    allowed = len(os.sched_getaffinity(0))
    return min(allowed, cpu_quota() or allowed)


def host_model() -> str:
    """The CPU's name by the operating system. A device tree gives the computer's name instead."""
    try:
        if _auxiliary_names():
            return Path("/proc/device-tree/model").read_text().strip("\0\n") or "unknown"
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown")


def native_machine(mcpu: str | None = None) -> Machine:
    """Detect this host: instruction set, cache sizes and cores.

    Raises ``TargetError`` if the host has neither AVX2 nor NEON. ``mcpu`` is LLVM's name of the
    CPU, by default the generic name of the widest instruction set.
    """
    have = host_features()
    bits = host_vector_bits()
    fitting = [m for m in MACHINES.values() if have >= set(m.features) and _suits(m, bits, mcpu)]
    if not fitting:
        raise TargetError(
            f"unsupported CPU of this host: {host_model()}. Expected AVX2 with FMA, or NEON. "
            f"Name a target instead of 'native': {', '.join(MACHINES)}"
        )
    record = max(fitting, key=lambda m: (m.vector.bits, m.mcpu == mcpu))
    caches = _host_caches()
    record = as_processor(record.with_cores(host_cores()), mcpu or record.mcpu)
    if have >= set(TILE_FEATURES):
        record = with_tiles(record)
    l1d_bytes = caches.get(1, record.l1d_bytes)
    # the machine models of other cores know theirs
    ways = _l1d_ways() if record.architecture == "x86_64" else 0
    return replace(
        record,
        name="native",
        l1d_bytes=l1d_bytes,
        l1d_way_bytes=l1d_bytes // ways if ways else record.l1d_way_bytes,
        l1d_ways=ways or record.l1d_ways,
        l2_bytes=caches.get(2, record.l2_bytes),
        l3_bytes=caches.get(3, record.l3_bytes),
    )


def _suits(machine: Machine, bits: int, mcpu: str | None) -> bool:
    """Whether a machine model suits a host with scalable vectors of ``bits``.

    Code of fixed length needs exactly that length. Scalable code is for vectors longer than NEON's.
    Cores with a NEON model of their own reach the same peak with it.
    """
    if machine.exact_vector_bits:
        return machine.exact_vector_bits == bits
    if machine.vector.scalable:
        named = any(m.mcpu == mcpu and "sve" not in m.features for m in MACHINES.values())
        return machine.vector.bits < 2 * bits and machine.mcpu == "generic" and not named
    return True


def _host_caches() -> dict[int, int]:
    """Level -> bytes of the data or unified caches of CPU 0.

    A second-level cache that cores share is divided among them, as in the shipped models. On
    x86-64, only threads of a core share it.
    """
    sizes: dict[int, int] = {}
    units = {"K": 1024, "M": 1024**2, "G": 1024**3}
    for entry in Path(_CACHES).glob("index*"):
        try:
            kind = (entry / "type").read_text().strip()
            level = int((entry / "level").read_text())
            size = (entry / "size").read_text().strip()
            sharers = _count((entry / "shared_cpu_list").read_text()) if _auxiliary_names() else 1
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and size[-1:] in units:
            sizes[level] = int(size[:-1]) * units[size[-1]] // (sharers if level == 2 else 1)
    return sizes


def _l1d_ways() -> int:
    """Ways of the first-level data cache that CPU 0 sees; 0 where the system does not say."""
    for entry in Path(_CACHES).glob("index*"):
        try:
            kind = (entry / "level").read_text().strip(), (entry / "type").read_text().strip()
            if kind in (("1", "Data"), ("1", "Unified")):
                return int((entry / "ways_of_associativity").read_text())
        except (OSError, ValueError):
            continue
    return 0


def _count(cpus: str) -> int:
    """The number of CPUs in a list such as ``0-3,6``."""
    ranges = [part.partition("-") for part in cpus.strip().split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)
