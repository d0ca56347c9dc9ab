"""The subcommands through their entry point, on a network of a few kilobytes."""

from __future__ import annotations

import csv
import inspect
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import typer

from tests.cli.verbs import data_of, invoke
from tvmconv.cli.choices import parse_choices
from tvmconv.cli.main import app
from tvmconv.core.errors import ConfigError
from tvmconv.machines import targets


@pytest.fixture(scope="module")
def compiled(folder: Path) -> dict:
    args = (folder / "small.onnx", "--shape", "input:1x3x21x20", "--threads", 1, "--no-winograd")
    return data_of("compile", *args, "-o", folder / "small.so", "--report", folder / "compile.json")


@pytest.fixture
def library(folder: Path, compiled: dict) -> Path:
    return folder / "small.so"


def test_compile_writes_the_module_and_reports_it(folder: Path, compiled: dict):
    assert (folder / "small.so").stat().st_size == compiled["library_bytes"] > 0
    assert (folder / "small.json").is_file()
    assert compiled == json.loads((folder / "compile.json").read_text())
    assert sum(row["layers"] for row in compiled["algorithms"]) == 7
    memory = {row["name"]: row["bytes"] for row in compiled["memory"]}
    assert memory["constant_bytes"] > 0
    assert memory["workspace_bytes"] == 0


def test_run_computes_what_onnxruntime_computes(folder: Path, library: Path):
    value = np.random.default_rng(5).standard_normal((1, 3, 21, 20)).astype("float32")
    np.save(folder / "x.npy", value)
    report = data_of(
        "run", library, "--input", f"input={folder / 'x.npy'}", "-o", folder / "y.npz",
        "--repeat", 2, "--compare-onnxruntime", "--onnx", folder / "small.onnx",
    )  # fmt: skip
    assert report["worst_relative_error"] < 1e-5
    assert len(report["samples"]) == 2
    session = ort.InferenceSession(str(folder / "small.onnx"), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"input": value})
    with np.load(folder / "y.npz") as file:
        np.testing.assert_allclose(file["output"], expected, rtol=1e-4, atol=1e-6)
    assert report["values"][0]["argmax"] == int(expected.argmax())


def test_run_reads_npz_and_nameless_npy(folder: Path, library: Path):
    value = np.ones((1, 3, 21, 20), "float32")
    np.save(folder / "one.npy", value)
    np.savez(folder / "one.npz", input=value)
    by_file = [
        data_of("run", library, "--input", folder / n)["values"] for n in ("one.npy", "one.npz")
    ]
    assert by_file[0] == by_file[1]
    assert by_file[0] != data_of("run", library)["values"]
    assert (
        data_of("run", library, "--seed", 1)["values"]
        == data_of("run", library, "--seed", 1)["values"]
    )


def test_profile_tables_trace_and_csv(folder: Path, library: Path):
    report = data_of(
        "profile", library, "--repeat", 2, "--chrome-trace", folder / "trace.json",
        "--csv", folder / "layers.csv",
    )  # fmt: skip
    layers = report["layers"]
    decided = [row for row in layers if row["workload"]]
    assert {row["layer"] for row in decided} == {
        "stem", "depthwise", "point", "left", "right", "projection", "dense",
    }  # fmt: skip
    for row in decided:
        assert row["algorithm"] in ("direct", "direct_first", "depthwise", "dense")
        assert row["gflops"] >= 0
        assert row["peak_share"] == pytest.approx(row["gflops"] / report["peak_gflops"])
        assert row["config"]
    assert sum(row["time_share"] for row in layers) == pytest.approx(1)
    assert report["peak_gflops"] > 0
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    assert len(events) == len(layers)
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in events)
    with (folder / "layers.csv").open() as file:
        assert [row["kernel"] for row in csv.DictReader(file)] == [row["kernel"] for row in layers]


def test_explain_gives_reasons(library: Path):
    report = data_of("explain", library)
    counted = ("convolutions", "fully_connected_layers")
    assert [report[name] for name in counted] == [6, 1] and len(report["layers"]) == 7
    assert all(row["reason"] and row["knobs"] for row in report["layers"])
    assert {row["name"] for row in report["memory"]} >= {"arena_bytes", "padding_bytes"}
    text = invoke("explain", library).stdout
    assert max(map(len, text.splitlines())) <= 120
    assert "stem" in text and "problem" not in text
    full = invoke("explain", library, "-v").stdout
    assert "Candidates" in full and "requantize" in full and "requantise" not in full


def test_explain_shows_one_layer(library: Path):
    text = invoke("explain", library, "--layer", "stem").stdout
    report = data_of("explain", library)
    (row,) = [row for row in report["layers"] if row["layer"] == "stem"]
    words = " ".join(text.split())
    assert all(part in words for part in (row["workload"], row["reason"], row["config"]))
    assert all(name in text for name in row["knobs"])
    assert data_of("explain", library, "--layer", "stem")["kind"] == "layer"
    assert "a layer's name, for example" in invoke("explain", library, "--layer", "stm").stderr


def test_summaries_are_short(folder: Path, library: Path):
    words = ("compile", folder / "small.onnx", "-o", folder / "short.so", "--threads", 1)
    text = invoke(*words, "--shape", "input:1x3x21x20").stdout
    assert str(folder / "short.so") in " ".join(text.split())
    for command in (("bundle", library, "-o", folder / "bundled"), ("run", library)):
        text = invoke(*command).stdout
        assert 3 <= text.count("\n") <= 10, text
    report = ("profile", library, "--repeat", 1)
    assert max(map(len, invoke(*report).stdout.splitlines())) <= 120
    assert "shared" not in invoke(*report).stdout


def test_explain_says_what_not_finite_leaves_out(folder: Path):
    words = ("explain", folder / "small.onnx", "--shape", "input:1x3x21x20", "--threads", 1)
    report = data_of(*words, "--no-finite")
    assert report["finite"] is False
    assert all("finite=False" in row["reason"] for row in report["layers"])
    causes = {row["cause"] for row in report["candidates"] if row["algorithm"] == "winograd"}
    assert causes <= {"finite", "unsupported"}


def test_explain_writes_a_page_and_measures(folder: Path):
    pytest.importorskip("pygal")
    # large enough that layers take more than a call, whose time is subtracted
    words = ("explain", folder / "small.onnx", "--shape", "input:16x3x21x20", "--threads", 1)
    page = folder / "small.html"
    report = data_of(
        *words, "--no-winograd", "--memory-budget", 0, "--measure-error", "--measure",
        "--html", page,
    )  # fmt: skip
    assert page.read_text().count("<svg ") == 4
    names = ("direct", "direct_first", "depthwise", "dense")
    assert all(row["algorithm"] in names for row in report["layers"])
    for row in report["layers"]:
        assert 0 < row["error_measured"] < 1e-5
        assert row["seconds"] > 0
        assert row["workspace_bytes"] == 0 or row["algorithm"] == "dense"
    causes = {row["cause"] for row in report["candidates"] if row["algorithm"] == "winograd"}
    assert causes <= {"disallowed", "unsupported"}
    assert report["peak_gflops"] > 0


def test_compile_takes_overrides(folder: Path):
    choices = folder / "choices.json"
    choices.write_text(json.dumps({"right": {"algorithm": "winograd"}}))
    words = ("compile", folder / "small.onnx", "-o", folder / "w.so", "--threads", 1, "--shape")
    report = data_of(*words, "input:1x3x21x20", "--override", choices)
    assert {"algorithm": "winograd", "layers": 1} in report["algorithms"]


def test_compile_writes_what_belongs_to_the_module(folder: Path, tmp_path: Path):
    words = ("compile", folder / "small.onnx", "-o", tmp_path / "s.so", "--threads", 1)
    options = (
        "--header",
        "--weights",
        "external",
        "--emit-sources",
        tmp_path / "parts",
        "--cc",
        "cc -g0",
    )
    report = data_of(*words, "--shape", "input:1x3x21x20", *options)
    for name, file in (("header", "s.h"), ("interface", "tvmconv.h"), ("weights", "s.weights")):
        assert report[name] == str(tmp_path / file)
        assert (tmp_path / file).is_file()
    subprocess.run(["sh", "build.sh"], cwd=tmp_path / "parts", check=True)
    assert (tmp_path / "parts/model.so").is_file()
    values = data_of("run", tmp_path / "s.so", "--no-verify")["values"]
    assert values == data_of("run", tmp_path / "s.so")["values"]
    (tmp_path / "s.weights").unlink()
    assert "s.weights is missing" in invoke("run", tmp_path / "s.so").stderr


def test_builds_take_a_log_and_finished_modules_do_not(folder: Path, library: Path):
    words = (folder / "small.onnx", "--shape", "input:1x3x21x20", "--threads", 1)
    assert data_of("run", *words, "--tuning-log", "none")["values"]
    for verb in ("run", "profile", "explain"):
        absent = invoke(verb, *words, "--tuning-log", folder / "absent.jsonl")
        assert "absent.jsonl" in absent.stderr
        assert "--tuning-log" in invoke(verb, library, "--tuning-log", "none").stderr


def test_subcommands_that_build_have_one_set_of_options():
    group = typer.main.get_command(app)
    shared = set(inspect.signature(parse_choices).parameters)
    assert {"algorithms", "error_budget", "override", "tuning_log", "cc"} <= shared
    for verb in ("compile", "bundle", "run", "profile", "explain"):
        assert shared <= {each.name for each in group.commands[verb].params}, verb


def test_run_and_profile_choose_algorithms(folder: Path):
    words = (folder / "small.onnx", "--shape", "input:1x3x21x20", "--threads", 1)
    chosen = ("--algorithms=-direct", "--tuning-log", "none", "--cc", "cc -g0")
    layers = data_of("profile", *words, *chosen, "--repeat", 1)["layers"]
    algorithms = {row["algorithm"] for row in layers if row["workload"]}
    assert "depthwise" in algorithms and "direct" not in algorithms
    for verb in ("run", "profile"):
        assert "mean 'direct'?" in invoke(verb, *words, "--algorithms", "dirict").stderr
        assert "no-such-cc" in invoke(verb, *words, "--cc", "no-such-cc").stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "nothing.onnx"), "nothing.onnx"),
        (("run", "nothing.so"), "nothing.so"),
        (("compile", "a.so", "-o", "b.so"), "requires an ONNX model"),
        (("compile", "small.onnx", "-o", "b.so", "--shape", "input=1x3"), "--shape"),
        (("compile", "small.onnx", "-o", "b.so", "--target", "z80"), "z80"),
        (("compile", "small.onnx", "-o", "b.so", "--target", "cortex_a72"), "mean 'cortex-a72'?"),
        (("compile", "small.onnx", "-o", "b.so"), "--shape input:1x3x21x20"),
        (("compile", ".", "-o", "b.so"), "not a regular file but a folder"),
        (("compile", "small.onnx", "-o", "b.so", "--weights", "away"), "--weights"),
        (("compile", "small.onnx", "-o", "b.so", "--cc", "'"), "is not a command"),
        (("compile", "small.onnx", "-o", "tvmconv.so", "--header"), "reserved for the interface"),
        (("bundle", "small.so", "-o", "b", "--no-winograd"), "require an ONNX model"),
        (("run", "small.onnx", "--no-verify"), "--no-verify"),
        (("run", "small.so", "--target", "x86-64-v3"), "require an ONNX model"),
        (("run", "small.so", "--target", "x86-64-v3"), "TVMCONV_TARGET selects a target"),
        (("run", "small.so", "--shape", "input:1x3x21x21"), "Expected one of: 1x3x21x20"),
        (("run", "small.so", "--dim", "width=20"), "Expected inputs of small.so: input"),
        (("bundle", "small.so", "-o", "b", "--shape", "input:1x3x21x20"), "require an ONNX model"),
        (("run", "small.so", "--input", "other=gone.npy"), "gone.npy"),
        (("run", "small.so", "--compare-onnxruntime"), "--onnx"),
        (("run", "small.so", "--onnx", "small.onnx"), "--compare-onnxruntime"),
        (("run", "small.so", "--compare-onnxruntime", "--onnx", "gone.onnx"), "gone.onnx"),
        (("run", "small.so", "--compare-onnxruntime", "--onnx", "cut.onnx"), "cannot open cut"),
        (("run", "small.so", "--compare-onnxruntime", "--onnx", "else.onnx"), "cannot run else"),
        (("compile", "small.onnx", "-o", "b.so", "--memory-budget", "1 lot"), "--memory-budget"),
        (("compile", "small.onnx", "-o", "b.so", "--algorithms", "fft"), "fft"),
        (("explain", "small.onnx", "--algorithms", "windograd"), "mean 'winograd'?"),
        (("explain", "small.onnx", "--shape", "imput:1x3x21x20"), "mean 'input'?"),
        (("run", "small.so", "--input", "inpt=one.npy"), "mean 'input'?"),
        (("explain", "small.so", "--no-winograd"), "require an ONNX model"),
        (("run", "small.so", "--algorithms", "direct"), "require an ONNX model"),
        (("run", "small.so", "--emulate", "--no-winograd"), "require an ONNX model"),
        (("profile", "small.so", "--cc", "cc"), "--cc require an ONNX model"),
        (("run", "small.so", "--batch", "any"), "--batch and --cc require an ONNX model"),
        (("explain", "small.so", "--measure-error"), "requires the ONNX model"),
        (("dev", "check-model"), "--suite"),
        (("bench", "run"), "nothing to measure"),
        (("bench", "run", "--suite", "nope"), "unknown suite"),
        (("bench", "run", "--suite", "resnet-18"), "mean 'resnet18'?"),
        (
            ("bench", "run", "--layer", "ic4ih9oc4kh3", "--baselines", "onnxruntim"),
            "mean 'onnxruntime'?",
        ),
        (
            ("bench", "run", "--layer", "ic4ih9oc4kh3", "--algorithms", "windograd"),
            "mean 'winograd'?",
        ),
        (("bench", "run", "--layer", "ic4", "--threads", "two"), "--threads"),
    ],
)
def test_user_errors_are_one_line(folder: Path, library: Path, monkeypatch, words, message):
    monkeypatch.chdir(folder)
    result = invoke(*words)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("tvmconv: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_warnings_are_one_line(monkeypatch):
    def slow(*_: object) -> None:
        warnings.warn("net: 'conv1'\nruns as plain loops", stacklevel=2)
        raise ConfigError("enough")

    monkeypatch.setattr(targets, "shipped_machine", slow)
    text = invoke("cpu").stderr
    assert text == "tvmconv: warning: net: 'conv1' runs as plain loops\ntvmconv: enough\n"


def test_debug_shows_the_traceback(library: Path):
    result = invoke("--debug", "run", library, "--input", "nope.npy")
    assert result.exit_code == 1
    assert "nope.npy" in str(result.exception)


def test_the_module_runs_as_a_program(library: Path, tmp_path: Path):
    words = [sys.executable, "-m", "tvmconv", "explain", str(library), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert json.loads(done.stdout)["convolutions"] == 6
    assert done.stderr == ""
    words = [sys.executable, "-m", "tvmconv", "explain", "missing.so"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("run", "{model}"),
        ("profile", "{model}"),
        ("explain", "{model}", "--measure"),
        ("explain", "{model}", "--measure-error"),
        ("bench", "run", "{model}", "--baselines", "none"),
        ("dev", "check-model", "--layer", "ic16ih6oc16kh3ph1"),
        ("tune", "--layer", "ic16ih6oc16kh3ph1"),
    ],
    ids=" ".join,
)
def test_code_for_a_processor_that_this_is_not_is_not_run(
    folder: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TVMCONV_HIDE_FEATURES", "avx512")
    words = tuple(word.format(model=folder / "small.onnx") for word in words)
    shape = ("--shape", "input:1x3x21x20") if words[0] in ("run", "profile", "explain") else ()
    result = invoke(*words, *shape, "--target", "x86-64-v4")
    assert result.exit_code == 1, result.output
    last = result.stderr.splitlines()[-1]
    assert "was built for x86-64-v4" in last
    assert "avx512f" in last
    assert "TVMCONV_HIDE_FEATURES hides" in last


def test_it_is_built_and_explained(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TVMCONV_HIDE_FEATURES", "avx512")
    words = (folder / "small.onnx", "--shape", "input:1x3x21x20", "--target", "x86-64-v4")
    report = data_of("compile", *words, "-o", folder / "wide.so")
    assert report["target"] == "x86-64-v4"
    assert data_of("explain", *words)["convolutions"] == 6
    assert "was built for x86-64-v4" in invoke("run", folder / "wide.so").stderr
