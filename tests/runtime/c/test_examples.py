"""The C++ header and the examples, as a user compiles and runs them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.packaging.pages import blocks

sys.path.insert(0, str(Path(__file__).parent))

import toolchain

EXAMPLES = toolchain.ROOT / "examples" / "deploy"
SCORES = np.array([3, -1, 7, 0, 7.5, 2, 2, -9, 1, 0.5], np.float32)
HIGHEST = ["4", "7.5", "2", "7", "0", "3", "5", "2", "6", "2"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="session")
def model(folder: Path) -> Path:
    """A model that returns its ten inputs."""
    sources = [toolchain.HERE / "copy.c", toolchain.RUNTIME / "runtime.c"]
    return toolchain.compile_c(
        toolchain.compiler(), folder / "copy.so", sources, "-shared", "-fPIC"
    )


@pytest.fixture(scope="session", params=["c", "cc"])
def classify(request: pytest.FixtureRequest, folder: Path) -> Path:
    """The example, compiled from a folder with what its comment says to copy."""
    driver = toolchain.tool("cc") if request.param == "c" else toolchain.tool("c++")
    board = folder / f"board-{request.param}"
    board.mkdir()
    for name in (f"classify.{request.param}", "tvmconv.h", "tvmconv.hpp"):
        shutil.copy(EXAMPLES / name, board)
    strict = ("-Wall", "-Wextra", "-Werror")
    source = board / f"classify.{request.param}"
    done = toolchain.run(driver, *strict, source, "-o", board / "classify", "-ldl")
    assert done.returncode == 0, done.stderr
    return board / "classify"


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    SCORES.tofile(tmp_path / "scores.f32")
    return tmp_path / "scores.f32"


def test_highest_scores(classify: Path, model: Path, scores: Path) -> None:
    done = toolchain.run(classify, model, scores)
    assert done.returncode == 0, done.stderr
    title, *lines = done.stdout.splitlines()
    assert title == "scores, highest of 10:"
    assert " ".join(lines).split() == HIGHEST


def test_ramp(classify: Path, model: Path) -> None:
    done = toolchain.run(classify, model)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[4:6] == ["9", "0.9"]


def test_what_cannot_be_run(classify: Path, model: Path, scores: Path) -> None:
    short = scores.with_name("short.f32")
    short.write_bytes(scores.read_bytes()[:-1])
    for arguments in ([], [scores], ["none.so"], [model, short], [model, "none.f32"]):
        done = toolchain.run(classify, *arguments)
        assert done.returncode in (1, 2)
        assert done.stderr.strip()
        assert not done.stdout


def test_example_of_the_documents(folder: Path, model: Path) -> None:
    page = toolchain.ROOT / "docs/how-to/deploy-c-cpp.md"
    # the page runs its other programs itself, which need a compiled model
    block = next(each for each in blocks(page) if each.language == "c")
    (folder / block.mark).write_text(block.text)
    strict = ("-Wall", "-Wextra", "-Werror", f"-I{toolchain.RUNTIME}")
    done = toolchain.run(
        toolchain.tool("cc"), *strict, folder / block.mark, "-o", folder / "example", "-ldl"
    )
    assert done.returncode == 0, done.stderr
    done = toolchain.run(folder / "example", model)
    assert (done.returncode, done.stdout) == (0, "scores: 0\n")


def test_example_from_the_repository(folder: Path, model: Path) -> None:
    command = ["cc", "examples/deploy/classify.c", "-o", str(folder / "here"), "-ldl"]
    toolchain.tool("cc")
    done = toolchain.run("env", "-C", toolchain.ROOT, *command)
    assert done.returncode == 0, done.stderr
    assert toolchain.run(folder / "here", model).returncode == 0


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
@pytest.mark.parametrize("driver", ["g++", "clang++"])
def test_cxx_header(folder: Path, driver: str, standard: str) -> None:
    driver = toolchain.tool(*((driver,) if driver == "g++" else (driver, "clang++-14")))
    toy = folder / "toy.so"
    if not toy.exists():
        toolchain.toy(toolchain.compiler(), toy)
    program = folder / f"check-{driver}-{standard}"
    strict = (f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1")
    source = toolchain.HERE / "check.cc"
    flags = (f"-I{toolchain.RUNTIME}", "-o", program)
    done = toolchain.run(driver, *strict, source, *flags, "-ldl", "-lpthread")
    assert done.returncode == 0, done.stderr
    done = toolchain.run(program, toy)
    assert done.returncode == 0, done.stderr
