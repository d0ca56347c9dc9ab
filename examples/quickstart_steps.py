"""The steps of ``examples.quickstart``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx

import tvmconv
from examples.networks import NETWORKS
from examples.quickstart_summary import summary
from tvmconv.cli.output import emit, progress
from tvmconv.lab.bench.layers import profile_report
from tvmconv.measuring.host import busy_seconds
from tvmconv.measuring.running import make_inputs, run_report
from tvmconv.model import CompiledModel
from tvmconv.report.document import Report

ROUNDS = 20


def show(options: argparse.Namespace) -> None:
    """Build, compare, save, load and profile the network that the options name."""
    options.folder.mkdir(parents=True, exist_ok=True)
    network = options.folder / f"{options.network}.onnx"
    library, tables = network.with_suffix(".so"), network.with_suffix(".txt")

    _step(1, f"write {network}, with random weights")
    sizes = {"image": options.image} if options.image else {}
    onnx.save(NETWORKS[options.network](**sizes), network)

    _step(2, "build it for this machine")
    start = time.perf_counter()
    with progress() as callback:
        model = tvmconv.build(network, threads=options.threads, progress=callback)
    seconds = time.perf_counter() - start

    _step(3, f"built in {seconds:.1f} s; run it next to onnxruntime, {ROUNDS} interleaved rounds")
    values = make_inputs(model.inputs, {}, seed=0)
    comparison, foreign = _compared(model, values, network)

    _step(4, f"save {library}, load it in a new process and run it there")
    model.save(library)
    _run_in_new_process(library, values, dict(model.run(values).items()))

    _step(5, "the outputs are the same to the last bit; time each layer")
    profile = profile_report(model, values, ROUNDS)
    tables.write_text("\n".join(report.full() for report in (comparison, profile)))

    print()
    emit(summary(comparison, profile, foreign, library, tables), as_json=False)


def _compared(
    model: CompiledModel, values: dict[str, np.ndarray], network: Path
) -> tuple[Report, float]:
    """The comparison with onnxruntime, and the CPUs that other programs used meanwhile."""
    began = time.perf_counter(), busy_seconds() - time.process_time()
    comparison = run_report(model, values, ROUNDS, None, network)
    ended = time.perf_counter(), busy_seconds() - time.process_time()
    return comparison, max(ended[1] - began[1], 0.0) / (ended[0] - began[0])


def _run_in_new_process(
    library: Path, values: dict[str, np.ndarray], expected: dict[str, np.ndarray]
) -> None:
    given, result = library.with_suffix(".input.npz"), library.with_suffix(".output.npz")
    np.savez(given, **values)
    command = [sys.executable, "-m", "tvmconv", "run", library, "--input", given, "-o", result]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with np.load(result) as file:
        for name, value in expected.items():
            np.testing.assert_array_equal(value, file[name])


def _step(number: int, text: str) -> None:
    print(f"{number}/5 {text}", flush=True)
