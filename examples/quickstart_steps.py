"""What ``examples.quickstart`` shows, one step after another."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx

import tvmconv
from examples.networks import NETWORKS
from tvmconv.cli.output import emit, progress
from tvmconv.lab.bench.layers import profile_report
from tvmconv.measuring.running import make_inputs, run_report
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table

ROUNDS = 20
_TOTALS = (
    Column("library", "library"),
    Column("seconds_min", "ms, best", ".2f", 1e3),
    Column("seconds_median", "ms, median", ".2f", 1e3),
    Column("gflops", "GFLOP/s", ".1f"),
    Column("peak_share", "% of peak", ".1f", 100),
)


def show(options: argparse.Namespace) -> None:
    """Build, compare, save, load and profile the network that the options name."""
    options.folder.mkdir(parents=True, exist_ok=True)
    source = options.folder / f"{options.network}.onnx"
    library = source.with_suffix(".so")

    _heading(f"1. Write {source}: {options.network} with random weights")
    sizes = {"image": options.image} if options.image else {}
    onnx.save(NETWORKS[options.network](**sizes), source)

    _heading("2. Build it for this machine")
    start = time.perf_counter()
    with _watched() as callback:
        model = tvmconv.build(source, threads=options.threads, progress=callback)
    print(f"   {time.perf_counter() - start:.1f} s; {model}")

    _heading("3. Run it beside onnxruntime: values and speed, in alternating calls")
    values = make_inputs(model.inputs, {}, seed=0)
    comparison = run_report(model, values, ROUNDS, None, source)
    emit(comparison, as_json=False)

    _heading(f"4. Save {library}, load it in a new process and run it there")
    model.save(library)
    _run_in_new_process(library, values, dict(model.run(values).items()))

    _heading("5. Where the time goes")
    profile = profile_report(model, values, ROUNDS)
    emit(profile, as_json=False)
    emit(_totals(comparison, profile), as_json=False)


def _totals(comparison: Report, profile: Report) -> Report:
    """Both libraries' whole calls from the alternating run, against the peak of the profile."""
    facts, gflop = comparison.facts, profile.facts["gflop"]
    rows = []
    for library, prefix in (("tvmconv", "call"), ("onnxruntime", "onnxruntime")):
        seconds = facts[f"{prefix}_seconds_min"]
        rows.append(
            {
                "library": library,
                "seconds_min": seconds,
                "seconds_median": facts[f"{prefix}_seconds_median"],
                "gflops": gflop / seconds,
                "peak_share": gflop / seconds / profile.facts["peak_gflops"],
            }
        )
    return Report(
        "quickstart",
        "Totals",
        tables=(Table("totals", "", _TOTALS, rows),),
        notes=(f"Largest difference: {facts['worst_relative_error']:.1e} of the output's range.",),
    )


def _run_in_new_process(
    library: Path, values: dict[str, np.ndarray], expected: dict[str, np.ndarray]
) -> None:
    given, result = library.with_suffix(".input.npz"), library.with_suffix(".output.npz")
    np.savez(given, **values)
    command = [sys.executable, "-m", "tvmconv", "run", library, "--input", given, "-o", result]
    print("   $ tvmconv", *command[3:])
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with np.load(result) as file:
        for name, value in expected.items():
            np.testing.assert_array_equal(value, file[name])
    print("   The outputs are the same to the last bit.")


@contextmanager
def _watched() -> Iterator[Callable[[str, int, int], None]]:
    """The command line's progress bars, or a line for each stage where there is no terminal."""
    stages: list[str] = []

    def line(stage: str, done: int = 0, total: int = 0) -> None:
        if stage not in stages:
            stages.append(stage)
            print(f"   {stage}", flush=True)

    with progress() as bars:
        yield bars or line


def _heading(text: str) -> None:
    print(f"\n{text}", flush=True)
