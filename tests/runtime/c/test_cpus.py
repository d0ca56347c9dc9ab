"""Which CPUs a queue's texts name, and how many a container's quota leaves, by files of a tree."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import toolchain

from tvmconv.machines.quota import cpu_quota

CPU = "sys/devices/system/cpu/cpu{}/"
# two nodes of two cores with two hardware threads each
SERVER = {
    "sys/devices/system/node/node0/cpulist": "0-1,4-5\n",
    "sys/devices/system/node/node1/cpulist": "2-3,6-7\n",
    **{CPU.format(n) + "topology/thread_siblings_list": f"{n % 4},{n % 4 + 4}" for n in range(8)},
}
# two performance cores with two hardware threads each, and four efficiency cores
HYBRID = {
    "sys/devices/cpu_core/cpus": "0-3\n",
    "sys/devices/cpu_atom/cpus": "4-7\n",
    **{
        CPU.format(n) + "topology/thread_siblings_list": f"{n // 2 * 2}-{n // 2 * 2 + 1}"
        for n in range(4)
    },
    **{CPU.format(n) + "topology/thread_siblings_list": f"{n}" for n in range(4, 8)},
}
# Arm: four small cores, three large ones, and one with a higher clock
PHONE = {
    CPU.format(n) + "cpu_capacity": str(capacity)
    for n, capacity in enumerate([290] * 4 + [760] * 3 + [1024])
}
EVEN = {CPU.format(n) + "cpu_capacity": str(1024 - 40 * (n % 2)) for n in range(8)}

NAMED = [
    (SERVER, 8, "node:0", "0 1 4 5"),
    (SERVER, 8, "node:1", "2 3 6 7"),
    (SERVER, 8, "node:2", ""),
    (SERVER, 8, "performance", "0 1 2 3 4 5 6 7"),
    (SERVER, 6, "node:1", "2 3"),
    (SERVER, 8, "7,2-3,9,2", "7 2 3"),
    (HYBRID, 8, "performance", "0 2 1 3"),
    (PHONE, 8, "performance", "4 5 6 7"),
    (EVEN, 8, "performance", "0 1 2 3 4 5 6 7"),
]

V1, V2 = "sys/fs/cgroup/cpu/{}cpu.cfs_{}_us", "sys/fs/cgroup/{}cpu.max"
QUOTAS = [
    ({}, 8),
    ({V2.format(""): "max 100000\n"}, 8),
    ({V2.format(""): "150000 100000\n"}, 2),
    ({V2.format(""): "junk"}, 8),
    ({V2.format(""): "5 0"}, 8),
    ({V1.format("", "quota"): "-1", V1.format("", "period"): "100000"}, 8),
    ({V1.format("", "quota"): "300000", V1.format("", "period"): "100000"}, 3),
    # a service of systemd: its slice has the quota
    (
        {
            "proc/self/cgroup": "0::/a.slice/b.service\n",
            V2.format("a.slice/"): "400000 100000",
            V2.format("a.slice/b.service/"): "max 100000",
        },
        4,
    ),
    (
        {
            "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/docker/one\n0::/\n",
            V1.format("docker/one/", "quota"): "50000",
            V1.format("docker/one/", "period"): "100000",
            V1.format("", "quota"): "-1",
        },
        1,
    ),
    # a container that sees the host's name of its group
    ({"proc/self/cgroup": "0::/docker/far\n", V2.format(""): "200000 100000"}, 2),
    # the group of another controller does not count
    (
        {
            "proc/self/cgroup": "5:cpuset:/x\n0::/\n",
            V2.format("x/"): "100000 100000",
            V1.format("x/", "quota"): "100000",
            V1.format("x/", "period"): "100000",
        },
        8,
    ),
]


def tree(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runtime's search, which reads below the working folder."""
    sources = [toolchain.HERE / name for name in ("print_cpus.c", "model.c", "kernels.c")]
    output = tmp_path_factory.mktemp("cpus") / "print_cpus"
    return toolchain.compile_c(toolchain.compiler(), output, sources, '-DTVMCONV_ROOT="."')


@pytest.mark.parametrize(("files", "among", "text", "expected"), NAMED)
def test_named_cpus(
    program: Path, tmp_path: Path, files: dict[str, str], among: int, text: str, expected: str
) -> None:
    tree(tmp_path, files)
    done = toolchain.run("env", "-C", tmp_path, program, str(among), text)
    assert (done.returncode, done.stdout) == (0, f"{expected}\n")


@pytest.mark.parametrize(("files", "expected"), QUOTAS)
def test_quota(program: Path, tmp_path: Path, files: dict[str, str], expected: int) -> None:
    tree(tmp_path, files)
    done = toolchain.run("env", "-C", tmp_path, program, "8")
    assert (done.returncode, done.stdout) == (0, f"{expected}\n")
    assert (cpu_quota(tmp_path) or 8) == expected
