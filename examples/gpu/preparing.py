"""Kernels and networks in a folder, compiled on a machine without a GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from examples.gpu.networks import write_networks
from examples.gpu.phases import SMALL_SUITE, SUITE_FILE, command, environment, phases

_ABOUT = "kit.json"
# digits of the version of the code, which names the folder
_DIGITS = 12


def contents(kit: Path) -> Path:
    """The folder for the compiled code of this version; other versions are not used."""
    from tvmconv.measuring.gpu.compiled import code_digest

    return kit / code_digest()[:_DIGITS]


def prepare(kit: Path, small: bool, target: str, only: Sequence[str] = ()) -> int:
    """Compile the kernels and networks of phases; nothing is measured.

    Existing files are not compiled again, so that an interrupted run can continue. Output of nvcc
    stays in a folder next to it, also when other code changes. ``KIT.zip`` has the folder in one
    file. Returns 0 if all was compiled, else 1; the end of the output names the failures.
    """
    place = contents(kit)
    place.mkdir(parents=True, exist_ok=True)
    for older in kit.iterdir():
        if older.is_dir() and older != place:
            shutil.rmtree(older)
    (place / SUITE_FILE).write_text(SMALL_SUITE)
    (place / _ABOUT).write_text(json.dumps({"target": target}))
    state = {**environment(), "TVMCONV_NVCC_CACHE": str(kit.with_name(f"{kit.name}-nvcc"))}
    failed: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        models = write_networks(Path(folder), small)
        for phase in phases(place, small, models, only):
            start = time.monotonic()
            print(f"== {phase.name}", flush=True)
            arguments = command(phase, place, target, 0, "--compile-only", "--json")
            done = subprocess.run(
                arguments, env=state, stdout=subprocess.PIPE, text=True, check=False
            )
            if done.returncode:
                failed[phase.name] = _failures(done.stdout)
            print(f"== {phase.name}: {time.monotonic() - start:.0f} s", flush=True)
    packed = pack(kit)
    size = sum(path.stat().st_size for path in _files(kit))
    print(
        f"{kit}: {size / 2**20:.1f} MiB; {packed}: {packed.stat().st_size / 2**20:.1f} MiB"
        + f"; failed: {', '.join(failed)}" * bool(failed)
    )
    for name, kernels in failed.items():
        print("\n".join(f"{name}: {text}" for text in kernels or ["see above"]))
    return 1 if failed else 0


def _failures(output: str) -> list[str]:
    """Kernels of a report in JSON that did not compile; empty if the bench wrote no report."""
    from tvmconv.lab.bench.gpu.prepare import failure_text

    with suppress(ValueError):
        return [failure_text(row) for row in json.loads(output)["kernels"] if "failure" in row]
    return []


def prepared_target(place: Path) -> str:
    """The target of the kernels in a folder of :func:`contents`."""
    return str(json.loads((place / _ABOUT).read_text())["target"])


def pack(kit: Path) -> Path:
    """The folder as one file."""
    packed = kit.with_name(f"{kit.name}.zip")
    written = packed.with_suffix(".new")
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for path in _files(kit):
            archive.write(path, path.relative_to(kit))
    written.replace(packed)
    return packed


def unpacked(kit: Path, folder: Path) -> Path:
    """The folder itself, or a file of :func:`pack` unpacked into another one."""
    if kit.is_dir():
        return kit
    shutil.unpack_archive(kit, folder, "zip")
    return folder


def _files(kit: Path) -> list[Path]:
    return sorted(path for path in kit.rglob("*") if path.is_file() and os.access(path, os.R_OK))
