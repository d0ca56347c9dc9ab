"""The programs that estimates need, found or compiled on first use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from tvmconv.compile.emulation import emulator
from tvmconv.compile.toolchain import Toolchain
from tvmconv.core.errors import ArtifactError
from tvmconv.lab.estimation.cache import cache_folder, digest, kept
from tvmconv.runtime.library import C_SOURCES

SOURCES = Path(__file__).parent / "c"
# since this version llvm-mca reports instructions that it does not know
OLDEST_LLVM, _NEWEST_LLVM = 19, 40
PACKAGES = "qemu-user llvm-19 gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross"


def output_of(command: Sequence[str | Path], text: str = "", what: str = "") -> str:
    """The output of a program, given an input; fails as :func:`run`."""
    return run(command, text, what, {"LC_ALL": "C"}).stdout


def run(
    command: Sequence[str | Path],
    text: str = "",
    what: str = "",
    environment: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program with an input, further variables and a time limit.

    Raises :class:`ArtifactError`, with the name ``what``, if it cannot be started, fails or takes
    too long.
    """
    arguments = [str(argument) for argument in command]
    what = what or arguments[0]
    try:
        done = subprocess.run(
            arguments,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env={**os.environ, **(environment or {})},
            timeout=seconds,
        )
    except OSError as error:
        raise ArtifactError(f"cannot start {arguments[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ArtifactError(f"{what} took over {seconds} seconds") from error
    if done.returncode:
        output = done.stderr.strip()[-2000:] or f"exit status {done.returncode}"
        raise ArtifactError(f"{what}: {output}")
    return done


def check_tools(triple: str) -> None:
    """Raise :class:`ArtifactError` if a program is missing, with its Debian package."""
    qemu = counting_emulator(triple)
    for name in ("llvm-mca", "llvm-mc"):
        llvm_tool(name)
    plugin(qemu[0])
    layers_program(triple)


@lru_cache(maxsize=8)
def llvm_tool(name: str) -> str:
    """A program of LLVM 19 or newer: ``llvm-mca``, ``llvm-mc``.

    Raises :class:`ArtifactError` if it is missing.
    """
    names = [f"{name}-{version}" for version in range(_NEWEST_LLVM, OLDEST_LLVM - 1, -1)]
    if found := next(filter(shutil.which, names), None):
        return found
    if shutil.which(name) and _version(name) >= OLDEST_LLVM:
        return name
    raise ArtifactError(
        f"estimates: {name} of LLVM {OLDEST_LLVM} or newer is not installed. Install it "
        f"(Debian: apt install {PACKAGES})."
    )


@lru_cache(maxsize=8)
def described(tool: str) -> str:
    """A program with its version: ``llvm-mca 19.1.7``."""
    match = re.search(r"version (\d+(?:\.\d+)*)", output_of([tool, "--version"]))
    name = re.sub(r"-\d+$", "", tool)
    return f"{name} {match[1]}" if match else name


def _version(tool: str) -> int:
    match = re.search(r"version (\d+)", output_of([tool, "--version"]))
    return int(match[1]) if match else 0


def counting_emulator(triple: str) -> list[str]:
    """qemu for an architecture and the options with which it loads libraries.

    Raises :class:`ArtifactError` if it is missing, or was built without plugins, as static ones
    are.
    """
    command = emulator(triple)
    if not _takes_plugins(command[0]):
        raise ArtifactError(
            f"counting requires a {command[0].removesuffix('-static')} with plugins; "
            f"{command[0]} has no plugins (Debian: apt install qemu-user)"
        )
    return command


@lru_cache(maxsize=4)
def _takes_plugins(qemu: str) -> bool:
    return bool(re.search(r"^-plugin\b", output_of([qemu, "-h"]), re.MULTILINE))


@lru_cache(maxsize=4)
def plugin(qemu: str) -> Path:
    """``count.c`` as a shared object for a program of qemu."""
    source = SOURCES / "count.c"
    # qemu 9 has version 2 of the interface, and accepts no older one
    interface = 2 if _version(qemu) >= 9 else 1
    driver = Toolchain.find().driver
    path = cache_folder() / f"count-{interface}-{digest(source.read_bytes(), *driver)}.so"
    if not path.exists():
        options = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden"]
        options.append(f"-DPLUGIN_VERSION={interface}")
        with kept(path) as fresh:
            output_of([*driver, "-x", "c", *options, source, "-o", fresh], what="compiling count.c")
    return path


@lru_cache(maxsize=4)
def layers_program(triple: str) -> Path:
    """``layers.c`` compiled for a system."""
    toolchain = Toolchain.find("", triple)
    sources = [SOURCES / "layers.c", C_SOURCES / "tvmconv.h"]
    content = [source.read_bytes() for source in sources]
    path = cache_folder() / f"layers-{digest(triple, *toolchain.driver, *content)}"
    if not path.exists():
        with kept(path) as fresh:
            toolchain.program(sources[0], fresh)
    return path
