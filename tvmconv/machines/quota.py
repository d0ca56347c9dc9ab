"""The quota of CPU time that control groups give this process, as containers limit it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def cpu_quota(root: Path = Path("/")) -> int | None:
    """CPUs of the smallest quota, rounded up, or None without any.

    ``root`` is the folder with ``proc`` and ``sys``.

    Groups of version 2 and of version 1 count, and the groups around the process's own. A container
    may see the name of its group on the host, whose folder it does not have. Its own group is then
    the root. ``cpus.c`` of the runtime reads the same.
    """
    quotas = [
        -(-quota // period)
        for folder in _groups(root)
        for quota, period in (_version_2(folder), _version_1(folder))
        if quota > 0 and period > 0
    ]
    return min(quotas, default=None)


def _groups(root: Path) -> Iterator[Path]:
    """The folders of the process's groups, and of the groups around them."""
    mounts = root / "sys/fs/cgroup", root / "sys/fs/cgroup/cpu"
    yield from mounts
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, name = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        group = mounts[bool(controllers)] / name.strip("/")
        while group != mounts[bool(controllers)]:
            yield group
            group = group.parent


def _version_2(folder: Path) -> tuple[int, int]:
    return _numbers(folder / "cpu.max")


def _version_1(folder: Path) -> tuple[int, int]:
    quota, _ = _numbers(folder / "cpu.cfs_quota_us")
    period, _ = _numbers(folder / "cpu.cfs_period_us")
    return quota, period


def _numbers(file: Path) -> tuple[int, int]:
    """The first two numbers of a file; 0 for what it does not have."""
    try:
        numbers = [int(word) for word in file.read_text().split()]
    except (OSError, ValueError):
        return 0, 0
    first, second = [*numbers, 0, 0][:2]
    return first, second
