"""The common part of subcommands: general options, and former names."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import tvmconv
from tests.cli.test_help import COMMANDS
from tests.cli.verbs import data_of, invoke
from tests.graph.quantised_networks import single
from tests.packaging.pages import ROOT, blocks
from tvmconv.cache.folder import SIZE_ENVIRONMENT
from tvmconv.cli.command import RENAMED
from tvmconv.cli.main import app
from tvmconv.core.errors import TvmconvError

BUILD = ("--shape", "input:1x3x21x20", "--threads", 1)


PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


def documented() -> Iterator[list[str]]:
    """Commands of code blocks in the documents and of the help, whole."""
    texts = [command.help or "" for command in COMMANDS.values()]
    for path in PAGES:
        shell = (block.text for block in blocks(path) if block.language == "sh")
        texts += [text.replace("\\\n", " ") for text in shell]
    for text in texts:
        for line in re.findall(r"(?:^|[ =&])tvmconv ([a-z][^\n#&|>]*)", text, re.MULTILINE):
            yield shlex.split(line)


def test_documented_commands_have_options_of_today() -> None:
    group = typer.main.get_command(app)
    for words in documented():
        command: Any = group
        rest = [*words]
        while rest and hasattr(command, "commands"):
            command = command.commands[rest.pop(0)]
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        given = {word.partition("=")[0] for word in rest if word.startswith("-")}
        assert given <= known and not command.hidden, words


@pytest.mark.parametrize("former", RENAMED)
def test_a_former_name_means_the_option_of_today(former: str) -> None:
    owners = [
        command
        for command in COMMANDS.values()
        if any(RENAMED[former] in each.opts for each in command.params)
    ]
    assert owners
    for command in owners:
        parsed = [
            command.make_context("x", [f"{name}=a"], resilient_parsing=True).params
            for name in (former, RENAMED[former])
        ]
        assert parsed[0] == parsed[1]


def test_a_former_name_warns_and_keeps_its_value(tmp_path: Path) -> None:
    done = invoke("targets", "--save", tmp_path / "a.json", "--json")
    assert done.stderr == "tvmconv: warning: --save is deprecated. Use --report.\n"
    assert json.loads((tmp_path / "a.json").read_text()) == json.loads(done.stdout)


def test_a_name_after_two_dashes_is_an_argument() -> None:
    done = invoke("explain", "--", "--save")
    assert "deprecated" not in done.stderr
    assert "'--save'" in done.stderr


def test_former_subcommands_are_hidden_and_work() -> None:
    shown = invoke("--help").stdout
    assert "  machine " not in shown and "  log " not in shown
    assert invoke("machine", "--json").stdout == invoke("cpu", "--json").stdout
    assert invoke("log", "--help").exit_code == 0


def test_bench_without_a_command_runs() -> None:
    for words in (("bench", "run"), ("bench",), ("bench", "--debug")):
        done = invoke(*words, "--layer", "ic4ih9oc4kh3", "--threads", "two")
        assert "two" in f"{done.stderr}{done.exception}"
    assert "Commands:" in invoke("bench").output
    assert "Commands:" in invoke("bench", "--help").stdout


@pytest.mark.parametrize(
    ("option", "command"), [("--show", "bench show"), ("--list", "bench list")]
)
def test_bench_names_the_command_that_an_option_became(option: str, command: str) -> None:
    done = invoke("bench", option, "a.json")
    assert done.exit_code == 2
    assert f"Use 'tvmconv {command}" in done.stderr


def test_debug_is_accepted_after_the_subcommand() -> None:
    done = invoke("explain", "missing.onnx", "--debug")
    assert isinstance(done.exception, TvmconvError)
    assert isinstance(invoke("explain", "missing.onnx").exception, SystemExit)


def test_verbose_prints_stages_and_quiet_prints_no_notes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SIZE_ENVIRONMENT, "0")  # a model of an earlier test has no stages
    stages = invoke("explain", folder / "small.onnx", *BUILD, "-v").stderr
    assert stages.count(" s\n") == stages.count("\n") > 1
    assert invoke("-q", "tune", "--layer", "ic4ih4oc4kh1", "--trials", 1).output == ""


def test_quiet_commands_print_errors_alone(folder: Path, tmp_path: Path) -> None:
    library, log = tmp_path / "a.so", tmp_path / "log.jsonl"
    log.touch()
    compiled = ("compile", folder / "small.onnx", "-o", library, *BUILD)
    quiet = (
        (*compiled, "--report", tmp_path / "report.json"),
        ("bundle", folder / "small.onnx", "-o", tmp_path / "b", *BUILD),
        ("run", library), ("profile", library), ("explain", library), ("targets",), ("cpu",),
        ("records", "show", log), ("records", "merge", log, "-o", log), ("records", "prune", log),
    )  # fmt: skip
    for words in quiet:
        done = invoke(*words, "-q")
        assert (done.exit_code, done.output) == (0, ""), words
    assert json.loads((tmp_path / "report.json").read_text())["kind"] == "compile"
    assert data_of("run", library, "-q")["kind"] == "run"
    assert "cannot open" in invoke("explain", "missing.onnx", "-q").stderr


def test_former_values_are_accepted(folder: Path) -> None:
    words = ("compile", folder / "small.onnx", "-o", folder / "w.so", *BUILD)
    assert invoke(*words, "--weights", "separate").exit_code == 0
    assert (folder / "w.weights").is_file()
    refused = invoke(*words, "--weights", "away")
    assert "unknown --weights 'away'. Expected embedded or external." in refused.stderr


def test_the_former_keyword_of_build_warns() -> None:
    with pytest.warns(DeprecationWarning, match="requantise= is deprecated") as caught:
        model = tvmconv.build(single(), threads=1, requantise="fixed")
    assert caught[0].filename == __file__
    assert model.manifest.policy["requantise"] == "fixed"


def test_every_subcommand_accepts_the_general_options() -> None:
    group = typer.main.get_command(app)
    for command in (group, *COMMANDS.values()):
        names = {name for each in command.params for name in each.opts}
        assert {"-v", "--verbose", "-q", "--quiet", "--debug"} <= names
