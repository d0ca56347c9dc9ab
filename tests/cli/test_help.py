"""What the command says of itself: help, version, completion, wrong usage."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import typer

from tests.cli.verbs import invoke
from tvmconv.cli.main import app

VERBS = ("compile", "bundle", "run", "profile", "explain", "bench")


@pytest.mark.parametrize("words", [("fly",), ("compile",), ("run", "a.so", "--repeat", "0")])
def test_wrong_usage_is_exit_code_2(words):
    assert invoke(*words).exit_code == 2


def test_version_names_the_compiler():
    words = invoke("--version").stdout.split()
    assert words[::2] == ["tvmconv", "TVM", "LLVM"]
    assert all(word[0].isdigit() for word in words[1::2])


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_examples(verb):
    text = invoke(verb, "--help").stdout
    assert f"  tvmconv {verb} " in text


def test_help_is_whole_in_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    group = typer.main.get_command(app)
    verbs = {(name,): verb for name, verb in group.commands.items()}
    verbs |= {("log", name): verb for name, verb in verbs.pop(("log",)).commands.items()}
    assert len(verbs) > len(VERBS)
    overview = "".join((invoke("--help").stdout + invoke("log", "--help").stdout).split())
    for words, verb in verbs.items():
        assert "".join(verb.help.partition("\n")[0].split()) in overview
        text = invoke(*words, "--help").stdout
        assert max(map(len, text.splitlines())) <= 80
        shown = "".join(text.split())
        for each in verb.params:
            assert "".join(each.help.split()) in shown, each.name


def test_help_loads_nothing_heavy():
    script = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from tvmconv.cli.main import app\n"
        f"for words in ([], *([verb] for verb in {VERBS})):\n"
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
