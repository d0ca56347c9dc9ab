"""Every output file is checked before the subcommand reads, builds or measures anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer

from tests.cli.verbs import invoke
from tvmconv.cli.main import app

# options and arguments of a file's name that only read it
READ = {
    "model",
    "models",
    "onnx",
    "overrides",
    "override",
    "log",
    "logs",
    "files",
    "earlier",
    "later",
}


def verbs(group: typer.Typer, words: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Names on the command line, and the function of each."""
    for command in group.registered_commands:
        yield (*words, command.name), command.callback
    for inner in group.registered_groups:
        yield from verbs(inner.typer_instance, (*words, inner.name or ""))


def files_of(function: Any) -> Iterator[tuple[str, Any]]:
    """The parameters of a subcommand that name files, and their declarations."""
    for name, hint in get_type_hints(function, include_extras=True).items():
        kind, *declarations = get_args(hint) or (hint,)
        if kind is Path or any(part is Path or Path in get_args(part) for part in get_args(kind)):
            yield name, declarations[0]


WRITTEN = [
    (words, declaration.default)  # where typer keeps the first of the option's names
    for words, function in verbs(app)
    for _, declaration in files_of(function)
    if declaration.callback is not None
]
FOLDERS = {
    (("compile",), "--emit-sources"),
    (("bundle",), "-o"),
    (("bench", "run"), "--kernels"),
}
# the other required options
NAMED = {("compile",): ("-o",), ("bundle",): ("-o",)}


def test_every_file_is_either_read_or_checked() -> None:
    for words, function in verbs(app):
        for name, declaration in files_of(function):
            assert (name in READ) == (declaration.callback is None) or words == ("tune",), words
    assert len(WRITTEN) >= 15
    assert (("tune",), "--tuning-log") in WRITTEN


@pytest.mark.parametrize(("words", "option"), WRITTEN, ids="".join)
def test_a_bad_destination_is_the_first_error(
    words: tuple[str, ...], option: str, tmp_path: Path
) -> None:
    """The model does not exist either: who reads it first says so."""
    (tmp_path / "file").write_text("")
    name = {("compile",): "x.so", ("run",): "x.npz"}.get(words, "x")
    (tmp_path / "folder").mkdir()
    if (words, option) in FOLDERS:
        (tmp_path / "folder" / name).write_text("")
    else:
        (tmp_path / "folder" / name).mkdir()
    missing = tmp_path / "absent" / name
    places = [tmp_path / "file" / name, tmp_path / "folder" / name, missing]
    model = {("bench", "run"): [], ("bench", "compare"): ["missing.onnx"] * 2}.get(
        words, ["missing.onnx"]
    )
    needed = ["-o", tmp_path / "fine.so"] if words in NAMED and option not in NAMED[words] else []
    for place in places:
        result = invoke(*words, *model, *needed, option, place)
        assert result.exit_code == 1, result.output
        assert str(place) in result.stderr
        assert "missing.onnx" not in result.stderr
        assert result.stderr.count("\n") == 1
        assert ("create it first" in result.stderr) >= (place == missing)
        assert not missing.parent.exists()


def test_compile_keeps_a_foreign_json(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    result = invoke("compile", "missing.onnx", "-o", tmp_path / "x.so")
    assert "is not a tvmconv manifest" in result.stderr


@pytest.mark.parametrize(("verb", "suffix"), [("compile", ".so"), ("run", ".npz")])
def test_what_is_written_has_its_suffix(verb: str, suffix: str, tmp_path: Path) -> None:
    wrong = tmp_path / "x.txt"
    result = invoke(verb, "missing.onnx", "-o", wrong)
    assert result.exit_code == 1
    assert f"{wrong}: the file name must end in {suffix}" in result.stderr


def test_a_pipe_is_no_tuning_log(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert (
        "not a regular file" in invoke("tune", "--suite", "resnet18", "--tuning-log", pipe).stderr
    )
    assert "not a regular file" in invoke("records", "show", pipe).stderr


def test_results_do_not_overwrite_models(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "small.so"
    report = str(tmp_path / "small.json")
    words = ["compile", str(folder / "small.onnx"), "-o", str(model), "--shape", "input:1x3x21x20"]
    assert "will be the manifest" in invoke(*words, "--report", report).stderr
    assert not model.exists()
    assert invoke(*words).exit_code == 0
    assert "is the manifest of a saved model" in invoke("targets", "--report", report).stderr
    assert "a model's file" in invoke("targets", "--report", str(model)).stderr
