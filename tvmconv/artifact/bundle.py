"""A folder to copy to a device, with all files for running a model from C."""

from __future__ import annotations

import os
from pathlib import Path

from tvmconv.artifact.manifest import Manifest
from tvmconv.core import files
from tvmconv.core.arguments import shown
from tvmconv.core.errors import ArtifactError
from tvmconv.core.version import __version__
from tvmconv.runtime.library import C_SOURCES

_MARK = "# Compiles run.c and runs the model"
_EXAMPLE = Path(__file__).parent / "bundled/run.c"
_SCRIPT = """#!/bin/sh
{mark}; arguments are run.c's: [-o FOLDER] [-r REPEATS] [file of input ...]
set -e
here=$(cd "$(dirname "$0")" && pwd)
${{CC:-cc}} -O2 "$here/run.c" -o "$here/run" -ldl
exec ${{EMULATOR:-}} "$here/run" "$here/{name}.so" "$@"
"""
_README = """# {title}

Compiled by tvmconv {version}.
{targets}

    sh run.sh                       # compiles run.c, runs the model, describes its outputs
    sh run.sh -o . {inputs}    # the same on raw elements in files; outputs in 0.out, ...

Only run.c needs a C compiler (the variable CC names one). Nothing needs Python or TVM.
To emulate another CPU, set CC to a cross compiler, and EMULATOR to the emulator's command, such as
`qemu-aarch64 -L /usr/aarch64-linux-gnu`.

| file | what it is |
|---|---|
{rows}

| tensor | |
|---|---|
{tensors}
"""
_WHAT = {
    "{name}.so": "the model: code{inside}",
    "{name}.weights": "the model's weights; keep it in the folder of the .so",
    "{name}.json": "description: layers, algorithms, memory, and reasons",
    "{name}.h": "the model's symbol and sizes, for programs that are linked with it",
    "tvmconv.h": "the C interface of every model; tvmconv.hpp: the same for C++",
    "run.c": "an example of its use",
    "run.sh": "compiles and runs the example",
}


def check_bundle(folder: Path, name: str) -> None:
    """Check a folder and a name before work is spent."""
    plain = name.replace("_", "").replace("-", "").replace(".", "")
    if not (plain.isascii() and plain.isalnum()) or name.startswith((".", "-")):
        raise ArtifactError(
            f"name={shown(name)} may have only letters, digits, '_', '-' and '.'. Choose another "
            "name (--name)."
        )
    files.check_folder(folder)
    if folder.is_dir() and os.listdir(folder):  # noqa: PTH208
        script = folder / "run.sh"
        if not (script.is_file() and _MARK.encode() in files.read_regular(script, 1 << 20)):
            raise ArtifactError(f"{folder} is not empty and is not a bundle. Name a new folder.")


def write_bundle(folder: Path, name: str, manifest: Manifest, separate: bool) -> None:
    """Write the other files of a bundle next to the saved model and, perhaps, its weights."""
    left_out = set() if separate else {"{name}.weights"}
    inside = "" if separate else " and weights"
    rows = [
        f"| `{file.format(name=name)}` | {what.format(inside=inside)} |"
        for file, what in _WHAT.items()
        if file not in left_out
    ]
    tensors = [
        f"| {kind} | `{tensor}` |"
        for program in manifest.programs
        for kind, group in (("input", program.inputs), ("output", program.outputs))
        for tensor in group
    ]
    targets = [
        f"For {each.machine.described}; the CPU must have: {' '.join(each.required_features)}."
        for each in manifest.targets or (manifest.record(),)
    ]
    readme = _README.format(
        title=manifest.model_name or name,
        version=manifest.versions.get("tvmconv", __version__),
        targets="\n".join(targets),
        inputs=" ".join(f"input{i}.bin" for i in range(len(manifest.inputs))),
        rows="\n".join(rows),
        tensors="\n".join(tensors),
    )
    contents = {
        "run.sh": _SCRIPT.format(mark=_MARK, name=name).encode(),
        "run.c": _EXAMPLE.read_bytes(),
        "tvmconv.hpp": (C_SOURCES / "tvmconv.hpp").read_bytes(),
        "README.md": readme.encode(),
    }
    modes = {folder / file: 0o777 if file == "run.sh" else 0o666 for file in contents}
    with files.replacing(modes) as opened:
        for descriptor, content in zip(opened, contents.values(), strict=True):
            files.write_all(descriptor, content)
