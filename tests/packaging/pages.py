"""Runs the code blocks of a document's page in order, as a reader would.

``python -m tests.packaging.pages PAGE`` runs one page in a new folder that looks like the
repository and holds ``model.onnx``, a small network whose input is ``input``, 1x3x224x224.

A block's first line says what it is: ```` ```sh ````, ```` ```python ```` and ```` ```c FILE ````
are executed (a C block is written to the file). A word after the language leaves a block to the
slow tests (``slow``) or to nobody (``skip: reason``).
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# pip reads, resolves and builds metadata, and leaves the environment as it is
_PROGRAMS = {
    "python": f'exec {sys.executable} "$@"',
    "tvmconv": f'exec {sys.executable} -m tvmconv "$@"',
    "pip": f'[ "$1" != install ] || set -- "$@" --dry-run\nexec {sys.executable} -m pip "$@"',
}
_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A code block: its language, the rest of its first line, its text."""

    language: str
    mark: str
    text: str

    @property
    def is_skipped(self) -> bool:
        """Whether nobody runs it."""
        return self.mark.startswith("skip")


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page in order."""
    return [
        Block(name, mark.strip(), text) for name, mark, text in _FENCE.findall(page.read_text())
    ]


def checkout(folder: Path) -> Path:
    """Make a folder that looks like the repository, in which commands may write files."""
    for entry in ROOT.iterdir():
        if not entry.name.startswith(".") and entry.name != "quickstart":
            (folder / entry.name).symlink_to(entry)
    # an environment that is already installed: this one
    binaries = folder / ".venv/bin"
    binaries.mkdir(parents=True)
    for name, command in _PROGRAMS.items():
        script = binaries / name
        script.write_text(f"#!/bin/sh\n{command}\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    (binaries / "activate").write_text(f"PATH={binaries}:$PATH\n")
    for extras in ("peers", "test"):
        (folder / f".venv/.tvmconv-{extras}").touch()
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of a reader who has activated the environment of a checkout."""
    values = {**os.environ, "PATH": f"{folder}/.venv/bin:{os.environ['PATH']}"}
    # the page's tuning logs and measured rates stay in the folder, the user's do not count
    values["XDG_CONFIG_HOME"] = f"{folder}/.config"
    values.pop("PYTEST_XDIST_WORKER", None)
    return values


def run(page: Path, slow: bool) -> None:
    """Run a page's blocks in a new folder, in this process and its children."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as place:
        folder = checkout(Path(place))
        os.chdir(folder)
        os.environ.update(environment(folder))
        subprocess.run([sys.executable, "-m", "tests.small_network", "model.onnx"], check=True)
        for block in blocks(page):
            if block.is_skipped or (block.mark == "slow" and not slow):
                continue
            if block.language == "python":
                exec(compile(block.text, page.name, "exec"), names)
            elif block.language == "sh":
                subprocess.run(["sh", "-ec", block.text], check=True)
            elif block.language == "c" and block.mark.endswith((".c", ".cc")):
                Path(block.mark).write_text(block.text)


if __name__ == "__main__":
    run(Path(sys.argv[1]).resolve(), slow="--slow" in sys.argv)
