"""The C compiler that is selected for each system."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import pytest

from tests.compile.toy_program import facts, objects, toy
from tvmconv.compile import toolchain
from tvmconv.compile.network import CompiledProgram
from tvmconv.compile.toolchain import Toolchain, usual_driver
from tvmconv.core.errors import ArtifactError
from tvmconv.machines.arm import MACHINES

GNU, MUSL, ANDROID = "aarch64-linux-gnu", "aarch64-linux-musl", "aarch64-linux-android21"
Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Install:
    """An x86-64 host with the named programs alone, each of which makes code for a triple."""
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(toolchain.platform, "machine", lambda: "x86_64")

    def put(names: Collection[str], makes: str = "x86_64-linux-gnu") -> None:
        for name in names:
            path = tmp_path / name
            path.write_text(
                f"#!/bin/sh\ncase $1 in --target=*) echo ${{1#*=}};; *) echo {makes};; esac"
            )
            path.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(
        toolchain.shutil, "which", lambda name: name if (tmp_path / name).exists() else None
    )
    toolchain._makes_code_for.cache_clear()
    return put


@pytest.mark.parametrize(
    ("installed", "triple", "driver"),
    [
        (["cc", f"{GNU}-gcc"], GNU, [f"{GNU}-gcc"]),
        (["cc", f"{GNU}-gcc"], "aarch64-unknown-linux-gnu", [f"{GNU}-gcc"]),
        (["clang", f"{GNU}-ld"], GNU, ["clang", f"--target={GNU}"]),
        (["clang", "ld.lld"], GNU, ["clang", f"--target={GNU}", "-fuse-ld=lld"]),
        (["cc", f"{GNU}-gcc", f"{MUSL}-gcc"], MUSL, [f"{MUSL}-gcc"]),
        (["clang", f"{ANDROID}-clang"], ANDROID, [f"{ANDROID}-clang"]),
        (["cc", f"{GNU}-gcc"], "x86_64-linux-gnu", ["cc"]),
        (["cc", f"{GNU}-gcc"], "", ["cc"]),
    ],
)
def test_usual_names(
    install: Install, installed: list[str], triple: str, driver: list[str]
) -> None:
    install(installed)
    assert list(Toolchain.find(triple=triple).driver) == driver


@pytest.mark.parametrize(
    ("triple", "message"),
    [
        (GNU, r"Install aarch64-linux-gnu-gcc \(Debian: apt install gcc-aarch64-linux-gnu libc6-"),
        (MUSL, r"for it was found. Name one by --cc or in the variable CC, such as DIR/aar"),
        (ANDROID, r"such as DIR/aarch64-linux-android21-clang or"),
    ],
)
def test_none(install: Install, triple: str, message: str) -> None:
    # compilers of this system, and a clang without a linker for the other
    install(["cc", "gcc", "clang"])
    with pytest.raises(ArtifactError, match=message):
        Toolchain.find(triple=triple)


def test_a_named_one_goes_before(install: Install) -> None:
    install([f"{GNU}-gcc", "mine"], GNU)
    install(["cc", "clang"])
    for named in ("mine -O3", f"clang --target={GNU} --sysroot=/"):
        assert Toolchain.find(named, GNU).driver == tuple(named.split())
    with pytest.raises(ArtifactError, match=r"'cc' makes code for x86_64-linux-gnu, and the model"):
        Toolchain.find("cc", GNU)


def test_the_variable_counts_where_it_fits(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install([f"{GNU}-gcc", "mine"], GNU)
    install(["cc"])
    monkeypatch.setenv("CC", "cc")
    assert Toolchain.find(triple=GNU).driver == (f"{GNU}-gcc",)
    assert Toolchain.find().driver == ("cc",)
    monkeypatch.setenv("CC", "mine")
    assert Toolchain.find(triple=GNU).driver == ("mine",)


def test_libraries_of_each_libc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(Toolchain, "_run", lambda _, *given: commands.extend(map(list, given)))
    for triple in (MUSL, ANDROID):
        Toolchain(("cc",), triple).link(tmp_path / "model.so", {}, [], b"")
    assert ["-lpthread" in command for command in commands] == [True, False]


def test_the_kept_script_names_compiler_and_libraries(tmp_path: Path) -> None:
    for triple, threads in ((GNU, True), (MUSL, True), (ANDROID, False)):
        machine = replace(MACHINES["aarch64"], triple=triple)
        CompiledProgram(toy(), objects(), facts(), machine).keep(tmp_path)
        script = (tmp_path / "build.sh").read_text()
        assert f"${{CC:-{usual_driver(triple)}}}" in script
        assert ("-lpthread" in script) == threads
