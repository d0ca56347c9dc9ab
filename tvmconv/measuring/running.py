"""``tvmconv run``: inputs from files or a seed, outputs described and compared with onnxruntime."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmconv.core.arguments import nearest
from tvmconv.core.errors import InputError, TvmconvError
from tvmconv.core.files import open_regular
from tvmconv.core.results import write_result
from tvmconv.core.tensor import Array
from tvmconv.core.unexpected import summary
from tvmconv.measuring.outputs import outputs_table
from tvmconv.measuring.quantized import is_quantized
from tvmconv.report.document import Report
from tvmconv.report.summary import compiled_for, model_facts
from tvmconv.report.table import Table, seconds_text
from tvmconv.runtime.executable import Executable
from tvmconv.runtime.timing import Timing

if TYPE_CHECKING:
    from tvmconv.artifact.facts import ModelFacts
    from tvmconv.core.tensor import TensorInfo
    from tvmconv.model import CompiledModel
    from tvmconv.remote import RemoteModel


MAX_FILE_BYTES = 1 << 36
_POOL_REST_SECONDS = 0.02
# keys of the table of outputs that a short view leaves out
_LEFT_OUT = ("dtype", "mean", "max_difference")
_SHOWN_OUTPUTS = 4


def read_inputs(items: Sequence[str]) -> dict[str, Array]:
    """Arrays of ``NAME=FILE.npy`` and ``FILE.npz``; a bare ``.npy`` gets the empty name.

    Raises :class:`InputError` if a file cannot be read.
    """
    values: dict[str, Array] = {}
    for item in items:
        name, _, path = item.rpartition("=")
        try:
            descriptor = open_regular(path, MAX_FILE_BYTES, InputError)
        except OSError as error:
            reason = error.strerror or "no name"
            raise InputError(
                f"cannot open --input {item!r}: {reason}. Expected NAME=FILE, a .npy or .npz file."
            ) from None
        with os.fdopen(descriptor, "rb") as file:
            try:
                loaded = np.load(file, allow_pickle=False)
                if isinstance(loaded, np.ndarray):
                    values[name] = loaded
                else:
                    values |= {key: loaded[key] for key in loaded.files}
            except Exception:  # numpy and zipfile raise errors of many types
                raise InputError(
                    f"--input {item!r} is not a complete .npy or .npz file of numbers. Write it "
                    "with numpy.save or numpy.savez."
                ) from None
    return values


def make_inputs(
    infos: Sequence[TensorInfo], given: Mapping[str, Array], seed: int = 0
) -> dict[str, Array]:
    """The given values completed with seeded random ones.

    Raises :class:`InputError` if a name is unknown, or a nameless array is given to a model with
    several inputs.
    """
    from tvmconv.runtime.timing import random_inputs

    values = dict(given)
    if "" in values:
        if len(infos) != 1:
            names = ", ".join(info.name for info in infos)
            raise InputError(f"name the input of --input FILE.npy: NAME=FILE with one of {names}")
        values[infos[0].name] = values.pop("")
    known = [info.name for info in infos]
    if unknown := set(values) - set(known):
        hints = "".join(nearest(name, known) for name in sorted(unknown))
        raise InputError(
            f"unknown input(s) {', '.join(sorted(unknown))}; {hints}the model has "
            f"{', '.join(known)}. Name one of these."
        )
    return {**random_inputs(infos, seed), **values}


def for_images(
    infos: Sequence[TensorInfo],
    given: Mapping[str, Array],
    shapes: Mapping[str, Any] | None = None,
) -> list[TensorInfo]:
    """The inputs for the number of images in given values, or in shapes; else for one image."""
    first = next((info for info in infos if info.batched), None)
    value = None if first is None else given.get(first.name, given.get(""))
    images = 1
    if value is not None and value.ndim:
        images = int(value.shape[0])
    elif first is not None and isinstance(shape := (shapes or {}).get(first.name), list | tuple):
        images = int(shape[0])
    return [info.for_images(images) for info in infos]


def given_program(model: ModelFacts, given: Mapping[str, Array]) -> ModelFacts:
    """The program for the shapes of given inputs; the first one if they fit none."""
    first = model.programs[0]
    names = {"": first.inputs[0].name} if first.inputs else {}
    shapes = {names.get(name, name): tuple(value.shape) for name, value in given.items()}
    return model.program_with(shapes) or first


def run_report(
    model: CompiledModel | RemoteModel,
    inputs: Mapping[str, Array],
    repeat: int = 1,
    output: Path | None = None,
    onnx: Path | None = None,
) -> Report:
    """Run a model, built or loaded here or on a device, and describe its outputs.

    ``inputs`` are all inputs by name, ``repeat`` counts the timed calls. ``output`` names an
    ``.npz`` file for the outputs. ``onnx`` is the ONNX model, to compare values and speed with
    onnxruntime.
    """
    results = model.run(dict(inputs))
    values = dict(zip((info.name for info in model.outputs), results, strict=True))
    facts = {**model_facts(model), **_written(values, output)}
    expected: dict[str, Array] = {}
    theirs: list[float] = []
    if onnx is None or not isinstance(model, Executable):
        ours = list(model.time(dict(inputs), repeat=repeat).samples)
    else:
        expected, ours, theirs = _with_onnxruntime(model, inputs, repeat, onnx)
        facts |= {
            "onnxruntime_seconds_min": min(theirs),
            "onnxruntime_seconds_median": float(np.median(theirs)),
            "speedup_over_onnxruntime": min(theirs) / min(ours),
        }
    timing = Timing(tuple(ours))
    facts |= {
        "call_seconds_min": timing.min,
        "call_seconds_median": timing.median,
        "call_seconds_mean": timing.mean,
        "call_seconds_p90": timing.percentile(90),
        "call_seconds_p99": timing.percentile(99),
        "calls_per_second": timing.rate,
    }
    title = f"{model.name}: {seconds_text(min(ours))} a call (best of {repeat})"
    found = _described(model, title, facts, values, expected)
    return replace(found, data={"samples": ours, "onnxruntime_samples": theirs})


def emulated_report(
    path: Path,
    given: Mapping[str, Array],
    seed: int = 0,
    output: Path | None = None,
    onnx: Path | None = None,
) -> Report:
    """Call a saved model once under qemu and describe its outputs; its time has no meaning.

    Takes the arguments of :func:`run_report` and :func:`make_inputs`; onnxruntime runs on this CPU.
    """
    from tvmconv.artifact.saving import open_artifact
    from tvmconv.compile.emulation import run_emulated
    from tvmconv.model import CompiledModel

    model = CompiledModel(*open_artifact(path, here=False))
    program = given_program(model, given)
    infos = for_images(program.inputs, given)
    inputs = make_inputs(infos, given, seed)
    images = next(
        (i.shape[0] for i, own in zip(infos, program.inputs, strict=True) if own.batched), 1
    )
    outputs = [info.for_images(images) for info in program.outputs]
    results = run_emulated(path, model.machine.triple, infos, outputs, inputs)
    values = dict(zip((info.name for info in model.outputs), results, strict=True))
    facts = {**model_facts(model), "emulated": True, **_written(values, output)}
    expected: dict[str, Array] = {}
    if onnx is not None:
        session = _onnxruntime(onnx, model.threads, exact=is_quantized(onnx))
        expected = _computed(session, list(values), dict(inputs), onnx)
    names = " or ".join(target.machine.name for target in model.targets)
    title = f"{model.name}: emulated {names}"
    return _described(model, title, facts, values, expected)


def _described(
    model: ModelFacts,
    title: str,
    facts: dict[str, Any],
    values: Mapping[str, Array],
    expected: Mapping[str, Array],
) -> Report:
    """A report on outputs, and on their differences from onnxruntime's."""
    table = outputs_table(values, expected)
    if expected:
        facts["worst_relative_error"] = max(row["relative_error"] for row in table.rows)
    brief = _brief(model, title, facts, table)
    return Report(kind="run", title=title, facts=facts, tables=(table,), brief=brief)


def _brief(model: ModelFacts, title: str, facts: Mapping[str, Any], outputs: Table) -> Report:
    """The short view: outputs, time, and the comparison with onnxruntime."""
    head: dict[str, str] = {}
    if "call_seconds_median" in facts:
        head["time"] = (
            f"median {seconds_text(facts['call_seconds_median'])}, 99 % within "
            f"{seconds_text(facts['call_seconds_p99'])}, {facts['calls_per_second']:.1f} calls/s"
        )
    if "onnxruntime_seconds_min" in facts:
        head["onnxruntime"] = (
            f"{seconds_text(facts['onnxruntime_seconds_min'])}; "
            f"tvmconv is {facts['speedup_over_onnxruntime']:.2f}x as fast"
        )
    if "worst_relative_error" in facts:
        head["difference"] = f"at most {facts['worst_relative_error']:.1e} of an output's range"
    if "written" in facts:
        head["wrote"] = str(facts["written"])
    left = len(outputs.rows) - _SHOWN_OUTPUTS
    columns = tuple(c for c in outputs.columns if c.key not in _LEFT_OUT)
    shown = Table("values", "", columns, outputs.rows[:_SHOWN_OUTPUTS], one_line=True)
    return Report(
        kind="run",
        title=f"{title}, {compiled_for(model)}",
        facts=head,
        tables=(shown,),
        notes=(f"-v shows {left} more outputs.",) if left > 0 else (),
    )


def _written(values: Mapping[str, Array], output: Path | None) -> dict[str, str]:
    """Write the outputs to a file, if one is named, and return it as a fact."""
    if output is None:
        return {}
    packed = io.BytesIO()
    np.savez(packed, **values)  # type: ignore[arg-type]
    write_result(output, packed.getvalue())
    return {"written": str(output)}


def _with_onnxruntime(
    model: CompiledModel, inputs: Mapping[str, Array], repeat: int, onnx: Path
) -> tuple[dict[str, Array], list[float], list[float]]:
    """onnxruntime's outputs, and the seconds of interleaved calls of both.

    Outputs of a quantized model are compared with onnxruntime without optimizations, because its
    own INT8 kernels may saturate. Those kernels are timed.
    """
    from time import perf_counter, sleep

    session = _onnxruntime(onnx, model.threads)
    feed = dict(inputs)
    names = [info.name for info in model.outputs]
    exact = _onnxruntime(onnx, model.threads, exact=True) if is_quantized(onnx) else session
    expected = _computed(exact, names, feed, onnx)
    bound = model.bind(feed)
    bound()
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(repeat):
        for call, samples in ((bound, ours), (lambda: session.run(names, feed), theirs)):
            if model.threads > 1:
                # let the other's thread pool stop spinning, then wake this one's
                sleep(_POOL_REST_SECONDS)
                call()
            start = perf_counter()
            call()
            samples.append(perf_counter() - start)
    return expected, ours, theirs


def _onnxruntime(onnx: Path, threads: int, exact: bool = False) -> Any:
    """A session of onnxruntime for an ONNX model; an exact one optimizes nothing."""
    try:
        import onnxruntime as ort
    except ImportError:
        raise TvmconvError(
            "the comparison requires onnxruntime. Install it by: pip install onnxruntime."
        ) from None
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if exact:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return ort.InferenceSession(str(onnx), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # each status has a class of its own, without a common base
        raise TvmconvError(
            f"onnxruntime cannot open {onnx} for the comparison: {summary(error)}"
        ) from None


def _computed(
    session: Any, names: list[str], feed: dict[str, Array], onnx: Path
) -> dict[str, Array]:
    """onnxruntime's outputs by name."""
    try:
        return dict(zip(names, session.run(names, feed), strict=True))
    except Exception as error:
        raise TvmconvError(
            f"onnxruntime cannot run {onnx} on these inputs: {summary(error)}. "
            "Name the ONNX model that was built."
        ) from None
