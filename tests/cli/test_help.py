"""The command about itself: help, version, completion, wrong usage."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, get_type_hints

import pytest
import typer
from typer.models import OptionInfo

from tests.cli.verbs import invoke
from tvmconv.cli.main import app


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands that the help shows, with their names."""
    for name, each in group.commands.items():
        if not each.hidden:
            yield (*words, name), each
            if hasattr(each, "commands"):
                yield from commands(each, (*words, name))


COMMANDS = dict(commands(typer.main.get_command(app)))
LEAVES = {words: each for words, each in COMMANDS.items() if not hasattr(each, "commands")}


@pytest.mark.parametrize("words", [("fly",), ("compile",), ("run", "a.so", "--repeat", "0")])
def test_wrong_usage_is_exit_code_2(words):
    assert invoke(*words).exit_code == 2


def test_version_names_the_compiler():
    words = invoke("--version").stdout.split()
    assert words[::2] == ["tvmconv", "TVM", "LLVM"]
    assert all(word[0].isdigit() for word in words[1::2])


@pytest.mark.parametrize("words", [w for w in LEAVES if w[0] != "records"], ids=" ".join)
def test_help_shows_examples(words):
    assert f"  tvmconv {' '.join(words)}" in invoke(*words, "--help").stdout


@cache
def in_80_columns(*words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        return invoke(*words, "--help").stdout


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_is_whole_in_80_columns(words):
    command = COMMANDS[words]
    overview = "".join(in_80_columns(*words[:-1]).split())
    assert "".join(command.help.partition("\n")[0].split()) in overview
    text = in_80_columns(*words)
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"[{}<>]|list\[", text) is None
    shown = "".join(text.split())
    for each in command.params:
        assert "".join(each.help.split()) in shown, each.name


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_help_texts_are_short(words):
    for each in LEAVES[words].params:
        assert re.fullmatch(r"[A-Z].*\.", each.help), each.name
        assert len(each.help.split()) <= 12, each.name
        assert each.metavar or each.is_flag, each.name


def callbacks(group: typer.Typer) -> Iterator[Any]:
    """The functions of all commands."""
    yield from (command.callback for command in group.registered_commands)
    for each in group.registered_groups:
        yield from callbacks(each.typer_instance)


def test_options_whose_metavar_repeats_the_name_state_it():
    """typer 0.27 takes such a metavar for the name, and would make ``--TARGET`` of it."""
    names = set()
    for function in callbacks(app):
        for name, hint in get_type_hints(function, include_extras=True).items():
            for option in getattr(hint, "__metadata__", ()):
                if isinstance(option, OptionInfo) and option.metavar == name.upper():
                    # typer keeps the first name of an annotated option as its default
                    assert option.default == f"--{name}", function.__module__
                    names.add(name)
    assert names == {"target", "seconds", "types", "name"}


def test_help_loads_nothing_heavy():
    script = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from tvmconv.cli.main import app\n"
        f"for words in ([], *(verb for verb in {[*LEAVES]})):\n"
        "    assert CliRunner().invoke(app, [*words, '--help']).exit_code == 0\n"
        "print(sorted({'tvm', 'tvm_ffi', 'onnx', 'numpy'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    environment = {**os.environ, "_TVMCONV_COMPLETE": f"source_{shell}"}
    script = "import sys; sys.argv = ['tvmconv']; from tvmconv.cli.main import main; main()"
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert "_TVMCONV_COMPLETE" in done.stdout
