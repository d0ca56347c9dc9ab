"""The header of every saved measurement: which machine, in which state, with which versions."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tvmconv.machines.host import host_cores, host_features, host_model


def versions() -> dict[str, str]:
    """Versions of tvmconv, TVM and LLVM, in that order; machines with GPUs may lack the others."""
    from tvmconv.core.version import __version__, package_version

    try:
        from tvmconv.tvm_api.target import llvm_version

        llvm = llvm_version()
    except ImportError:
        return {"tvmconv": __version__, "TVM": "absent", "LLVM": "absent"}
    return {"tvmconv": __version__, "TVM": package_version("apache-tvm"), "LLVM": llvm}


def host_header() -> dict[str, Any]:
    """CPU, caches, clock governor, load, software versions and date, as plain data."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "cpu": host_model(),
        "cores": host_cores(),
        "threads_per_core": _threads_per_core(),
        "caches": _caches(),
        "features": sorted(host_features()),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "unknown",
        "load_average": list(os.getloadavg()),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": versions(),
    }


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _caches() -> dict[str, str]:
    """``L1 Data`` and so on to the size text that the kernel gives, as CPU 0 sees them."""
    caches = {}
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (_read(str(entry / name)) for name in ("level", "type", "size"))
        if level and size:
            caches[f"L{level} {kind}".strip()] = size
    return caches


def _threads_per_core() -> int | None:
    """Hardware threads of core 0; a virtual machine may hide them."""
    siblings = _read("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
    if not siblings:
        return None
    count = 0
    for part in siblings.split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def busy_seconds() -> float:
    """CPU time that all programs of this machine have used; 0 where it is unknown."""
    fields = _read("/proc/stat").partition("\n")[0].split()[1:9]
    if len(fields) < 8:
        return 0.0
    ticks = [int(field) for field in fields]
    # without idle and input/output wait
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def pick_cpus(count: int) -> tuple[int, ...]:
    """CPUs for a measurement with ``count`` threads: different cores first, the last ones.

    The first CPU serves most interrupts. A second hardware thread of a core adds no FMA unit.
    """
    allowed = sorted(os.sched_getaffinity(0), reverse=True)
    seen: dict[str, int] = {}
    ranked = []
    for cpu in allowed:
        core = _read(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        seen[core] = seen.get(core, 0) + 1
        ranked.append((seen[core], -cpu, cpu))
    return tuple(sorted(cpu for _, _, cpu in sorted(ranked)[:count]))
