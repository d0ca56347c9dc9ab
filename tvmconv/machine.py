"""What a schedule may know about the processor it targets.

A machine is one frozen record. Adding a target is adding a record to :data:`MACHINES` and,
where the family is new, one folder under ``schedules/``.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tvmconv.errors import TargetError


@dataclass(frozen=True)
class Machine:
    """A processor as the schedules see it.

    Parameters
    ----------
    name
        Preset name, also the stem of its tuning log.
    family
        Folder under ``schedules/`` that holds its kernels.
    isa
        Vector instruction set: ``avx2`` or ``avx512``.
    mcpu
        LLVM's name of the processor.
    lanes
        float32 values in one vector register; also the channel block of the NCHWc layout.
    vector_registers
        Architectural vector registers.
    fma_units, fma_latency
        Vector multiply-add units, and the cycles until a result can be used again.
    l1d_bytes, l2_bytes, l3_bytes
        Data cache sizes; L1 and L2 of one core.
    cores
        Threads that the kernels are partitioned for.
    features
        CPU flags (names as in ``/proc/cpuinfo``) that generated code may use; the loader refuses
        a processor that lacks one.
    """

    name: str
    family: str
    isa: str
    mcpu: str
    lanes: int
    vector_registers: int
    fma_units: int
    fma_latency: int
    l1d_bytes: int
    l2_bytes: int
    l3_bytes: int
    cores: int
    features: tuple[str, ...]

    @property
    def minimum_accumulators(self) -> int:
        """Independent vectors that keep the multiply-add units busy (Zhang et al. 2018)."""
        return self.fma_units * self.fma_latency

    @property
    def triple(self) -> str:
        """LLVM target triple."""
        return "x86_64-linux-gnu"

    def tvm_target(self) -> dict[str, Any]:
        """The TVM target of this machine, in TVM 0.27's dictionary form."""
        return {
            "kind": "llvm",
            "mcpu": self.mcpu,
            "mtriple": self.triple,
            "num-cores": self.cores,
        }

    def blocks(self, channels: int) -> int:
        """Channel blocks that hold ``channels`` values, the last one padded with zeros."""
        return -(-channels // self.lanes)

    def with_cores(self, cores: int) -> Machine:
        """The same machine, partitioned for another number of threads."""
        return replace(self, cores=cores)

    def to_json(self) -> dict[str, Any]:
        """Plain data for manifests and logs."""
        return {**asdict(self), "features": list(self.features)}


_AVX2_FEATURES = ("avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "movbe", "popcnt", "sse4_2")
_AVX512_FEATURES = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

_X86_64_V3 = Machine(
    name="x86-64-v3",
    family="x86",
    isa="avx2",
    mcpu="x86-64-v3",
    lanes=8,
    vector_registers=16,
    fma_units=2,
    fma_latency=4,
    l1d_bytes=32 * 1024,
    l2_bytes=512 * 1024,
    l3_bytes=16 * 1024 * 1024,
    cores=1,
    features=_AVX2_FEATURES,
)
_X86_64_V4 = replace(
    _X86_64_V3,
    name="x86-64-v4",
    isa="avx512",
    mcpu="x86-64-v4",
    lanes=16,
    vector_registers=32,
    l2_bytes=1024 * 1024,
    features=_AVX2_FEATURES + _AVX512_FEATURES,
)
MACHINES: dict[str, Machine] = {m.name: m for m in (_X86_64_V3, _X86_64_V4)}

HIDE_VARIABLE = "TVMCONV_HIDE_FEATURES"


def host_features() -> frozenset[str]:
    """CPU flags of this host; empty where ``/proc/cpuinfo`` does not list any.

    Those that the environment variable ``TVMCONV_HIDE_FEATURES`` names are left out: names
    separated by commas, ``avx512`` for all that begin with it.

    Raises
    ------
    TargetError
        If the variable names something that is no feature.
    """
    flags = _cpu_flags()
    return flags - _hidden_features(flags)


def _hidden_features(flags: frozenset[str]) -> frozenset[str]:
    """Those of some CPU flags that ``TVMCONV_HIDE_FEATURES`` hides."""
    names = {name.strip() for name in os.environ.get(HIDE_VARIABLE, "").split(",")} - {""}
    known = flags.union(*(machine.features for machine in MACHINES.values()))
    if unknown := sorted(n for n in names if n not in known and not n.startswith("avx512")):
        raise TargetError(
            f"{HIDE_VARIABLE} names {', '.join(unknown)}, which is no CPU feature here; use names "
            "of /proc/cpuinfo separated by commas, or avx512 for all that begin with it"
        )
    return frozenset(
        flag for flag in flags if flag in names or ("avx512" in names and flag.startswith("avx512"))
    )


def _cpu_flags() -> frozenset[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    flags = next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
    return frozenset(flags.partition(":")[2].split())


def host_cores() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0))


def host_model() -> str:
    """The processor's name as the operating system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown")


def native_machine(mcpu: str | None = None) -> Machine:
    """Detect this host: instruction set, cache sizes and cores.

    Parameters
    ----------
    mcpu
        LLVM's name of the processor. Where it is not given the generic name of the widest
        instruction set is used.

    Raises
    ------
    TargetError
        If the host has no AVX2.
    """
    have = host_features()
    record = next((m for m in (_X86_64_V4, _X86_64_V3) if have >= set(m.features)), None)
    if record is None:
        raise TargetError(
            f"this processor ({host_model()}) lacks AVX2 or FMA; "
            f"name a target instead of 'native': {', '.join(MACHINES)}"
        )
    caches = _host_caches()
    return replace(
        record,
        name="native",
        mcpu=mcpu or record.mcpu,
        l1d_bytes=caches.get(1, record.l1d_bytes),
        l2_bytes=caches.get(2, record.l2_bytes),
        l3_bytes=caches.get(3, record.l3_bytes),
        cores=host_cores(),
    )


def _host_caches() -> dict[int, int]:
    """Level -> bytes of the data or unified caches that CPU 0 sees."""
    sizes: dict[int, int] = {}
    units = {"K": 1024, "M": 1024**2, "G": 1024**3}
    for entry in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            kind = (entry / "type").read_text().strip()
            level = int((entry / "level").read_text())
            size = (entry / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and size[-1:] in units:
            sizes[level] = int(size[:-1]) * units[size[-1]]
    return sizes
