"""The C side of compiled models, driven by a C program with a toy model."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import toolchain

TESTS = ["one", "errors", "states", "parallel_for", "threads", "pool", "fork", "profile"]
TESTS += ["queue", "queue_options", "queue_fork"]


@dataclass(frozen=True)
class Build:
    """How model and program are compiled, and what the program is started with."""

    drivers: tuple[str, ...]
    model_flags: tuple[str, ...] = ()
    program_flags: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()

    def program(self, folder: Path) -> list[str]:
        driver = toolchain.tool(*self.drivers)
        launcher = [toolchain.tool(self.launcher[0]), *self.launcher[1:]] if self.launcher else []
        return [*launcher, str(toolchain.checker(driver, folder / "check", *self.program_flags))]

    def model(self, folder: Path, *flags: str) -> str:
        driver = toolchain.tool(*self.drivers)
        return str(toolchain.toy(driver, folder / "toy.so", *self.model_flags, *flags))


def sanitized(kind: str) -> Build:
    flags = (f"-fsanitize={kind}", "-fno-sanitize-recover=all", "-O1")
    # the address space of new kernels is laid out in ways that older sanitizers do not know
    return Build(("gcc", "clang"), flags, flags, ("setarch", "-R"))


BUILDS = {
    "gcc": Build(("gcc",), program_flags=("-DCOUNT_ALLOCATIONS", "-fopenmp")),
    "clang": Build(("clang", "clang-19", "clang-16", "clang-14")),
    # where the system has no futex
    "condition": Build(("gcc", "clang"), ("-DTVMCONV_NO_FUTEX",)),
    "address": sanitized("address,undefined"),
    "thread": sanitized("thread"),
    "valgrind": Build(
        ("gcc", "clang"),
        launcher=("valgrind", "-q", "--leak-check=full", "--error-exitcode=9"),
    ),
    "musl": Build(("musl-gcc",)),
    "aarch64": Build(
        ("aarch64-linux-gnu-gcc",), launcher=("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
    ),
}
SLOW = {"musl", "aarch64"}
# valgrind counts memory that the parent's threads leave in a child. A child waits for ever for the
# lock of AddressSanitizer's allocator in gcc, if another thread of its parent held the lock. The
# others do not follow threads that such a child starts
NO_FORKS = {"valgrind", "address", "thread", "aarch64"}


@pytest.fixture(scope="session")
def commands() -> dict[str, list[str]]:
    return {}


@pytest.fixture
def command(
    request: pytest.FixtureRequest,
    commands: dict[str, list[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[str]:
    """The command that starts the program of one build, which is made once."""
    name = request.param
    if name not in commands:
        folder = tmp_path_factory.mktemp(name)
        commands[name] = [*BUILDS[name].program(folder), BUILDS[name].model(folder)]
    return commands[name]


def check(command: list[str], test: str, runs: int) -> None:
    done = toolchain.run(*command, test, str(runs))
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("test", [*TESTS, "allocations"])
@pytest.mark.parametrize("command", ["gcc"], indirect=True)
def test_in_a_program(command: list[str], test: str) -> None:
    check(command, test, 100)


@pytest.mark.parametrize(
    ("command", "test"),
    [
        pytest.param(build, test, marks=pytest.mark.slow if build in SLOW else ())
        for build in BUILDS
        for test in TESTS
        if build != "gcc" and not (test in ("fork", "queue_fork") and build in NO_FORKS)
    ],
    indirect=["command"],
)
def test_in_other_builds(command: list[str], test: str) -> None:
    check(command, test, 3)


@pytest.mark.parametrize(
    "command",
    [
        # sanitizers see more than the others
        pytest.param(build, marks=() if build in ("address", "thread") else pytest.mark.slow)
        for build in BUILDS
    ],
    indirect=True,
)
def test_any_batch(command: list[str], request: pytest.FixtureRequest, tmp_path: Path) -> None:
    build = BUILDS[request.node.callspec.params["command"]]
    check([*command[:-1], build.model(tmp_path, "-DTOY_BATCHED")], "batch", 1)


# three interleaved states, eight threads, one caller that starts threads for every kernel
@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "runs"), [("states", 3334), ("threads", 1250), ("pool", 1250), ("parallel_for", 1000)]
)
@pytest.mark.parametrize("command", ["gcc", "condition", "address", "thread"], indirect=True)
def test_ten_thousand_runs(command: list[str], test: str, runs: int) -> None:
    check(command, test, runs)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["gcc", "condition"], indirect=True)
def test_many_forks(command: list[str]) -> None:
    check(command, "fork", 200)
