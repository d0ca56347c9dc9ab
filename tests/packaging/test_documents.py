"""The documents' examples: Python runs, commands are ones that the command line understands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest
import typer

from tvmconv.cli.main import app

ROOT = Path(__file__).parents[2]
# the click that typer brings, which is not always the package named click
USAGE_ERROR = typer.BadParameter.__base__
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")])
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def _blocks(page: Path, language: str) -> list[str]:
    return [code for name, code in _FENCE.findall(page.read_text()) if name == language]


# the README's blocks depend on each other and are run by test_readme.py
PYTHON = [page for page in PAGES if page.name != "README.md" and _blocks(page, "python")]
COMMANDS = sorted(
    {
        line.strip()
        for page in PAGES
        for block in _blocks(page, "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("tvmconv ")
    }
)


@pytest.mark.any_processor
@pytest.mark.parametrize("page", PYTHON, ids=lambda page: page.name)
def test_python_runs(page, tmp_path):
    program = "".join(_blocks(page, "python"))
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _parse(command: str) -> None:
    """Parsing alone: the subcommands' own tests check their options."""
    words = shlex.split(command, comments=True)[1:]
    group = typer.main.get_command(app)
    with group.make_context("tvmconv", words) as context:
        while hasattr(group, "commands"):
            _, group, words = group.resolve_command(context, words)
            context = group.make_context(group.name, words, parent=context)
            words = [*context._protected_args, *context.args]
        assert not words, f"left over: {words}"


def test_the_python_reference_names_what_exists():
    page = (ROOT / "docs/reference/python.md").read_text()
    listed = re.findall(r"^::: (\S+)$", page, flags=re.MULTILINE)
    assert {f"tvmconv.{name}" for name in ("build", "load", "CompiledModel")} <= set(listed)
    assert [name for name in listed if resolve_name(name) is None] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command):
    _parse(command)


@pytest.mark.parametrize("command", ["tvmconv bench --nosuch", "tvmconv nosuch", "tvmconv run a b"])
def test_other_commands_are_not(command):
    with pytest.raises(USAGE_ERROR):
        _parse(command)
