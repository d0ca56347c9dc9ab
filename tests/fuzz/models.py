"""Mutated models: built, run, and compared with onnxruntime or onnx's reference."""

from __future__ import annotations

import os
import random
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from tests.fuzz.corpus import corpus
from tests.fuzz.disputed import UNDEFINED, ranks_nan, reference, skips_input
from tests.fuzz.model_mutations import mutate
from tests.fuzz.runner import Note, Wrong
from tests.small_network import small_network
from tvmconv.core.errors import ArtifactError

# larger models are built but not run
_MOST_BYTES = 1 << 26
# of an output's largest value, and where anything on the way to it is rounded to half precision
_TOLERANCE, _HALF_TOLERANCE = 2e-4, 4e-3

Arrays = Mapping[str, np.ndarray]


class Models:
    """The corpus, mutated."""

    batch = 64

    def __init__(self) -> None:
        os.environ.setdefault("TVMCONV_TUNING_LOGS", "none")
        import onnxruntime  # noqa: F401 - loaded once, for all children
        from onnx.reference import ReferenceEvaluator  # noqa: F401

        self.models = corpus()
        # in a thread of its own: the pool that TVM makes for it goes with it, not into children
        warm = threading.Thread(target=_build, args=(small_network().SerializeToString(),))
        warm.start()
        warm.join()

    def make(self, generator: random.Random) -> bytes:
        return mutate(self.models, generator)

    def files(self, case: bytes) -> dict[str, bytes]:
        return {"model.onnx": case}

    def judge(self, case: bytes, note: Note) -> bool:
        return compare(case, note)


def compare(data: bytes, note: Note) -> bool:
    """Build and run a model, and compare; returns whether any runtime gave a reference.

    Raises
    ------
    Wrong
        If the outputs agree with those of no runtime, or there are none.
    """
    compiled = _build(data)
    infos = (*compiled.inputs, *compiled.outputs)
    size = sum(np.prod(info.shape, dtype=float) for info in infos)
    if 8 * size + compiled.memory.arena_bytes > _MOST_BYTES:
        return False
    feeds = _feeds(compiled.inputs)
    try:
        actual = [np.asarray(value) for value in compiled.run(feeds)]
    except ArtifactError as error:
        # it would count as a refusal of the model, and every other model's as well
        raise Wrong(f"it was built, but cannot be linked: {error}") from error
    compiled.explain()
    note("reference")
    model = onnx.ModelProto.FromString(data)
    tolerance = _HALF_TOLERANCE if rounds_to_half(model) else _TOLERANCE
    references = []
    runtimes = (_reference,) if skips_input(model) else (_onnxruntime, _reference)
    for runtime in runtimes:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                expected, margin = runtime(data, feeds)
        except Exception as error:  # whatever another runtime raises is not our concern
            if str(error) in UNDEFINED:
                return False
            references.append(f"{runtime.__name__} refuses: {str(error)[:200]}")
            continue
        problem = _difference(actual, expected, margin, tolerance)
        if not problem:
            return True
        references.append(f"{runtime.__name__}: {problem}")
    if all(" refuses: " in text for text in references) or ranks_nan(model, feeds):
        return False
    raise Wrong("; ".join(references))


def rounds_to_half(model: onnx.ModelProto) -> bool:
    """Whether any value is of half precision; runtimes differ in how much they round to it."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    return any(v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16 for v in values)


def _build(data: bytes) -> Any:
    import tvmconv

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tvmconv.build(data, threads=1)


def _feeds(inputs: Sequence[Any]) -> dict[str, np.ndarray]:
    from tvmconv.runtime.timing import random_inputs

    return random_inputs(inputs)


def _nudged(feeds: Arrays) -> dict[str, np.ndarray]:
    """Inputs that differ by rounding: what they change is no error of anybody."""
    generator = np.random.default_rng(1)
    nudged = {}
    for name, value in feeds.items():
        if value.dtype.kind == "f":
            # less than half a step of float16 would not change it
            relative = max(1e-6, float(np.finfo(value.dtype).eps) / 2)
            noise = generator.standard_normal(value.shape) * relative * np.abs(value)
            value = (value + noise).astype(value.dtype)
        nudged[name] = value
    return nudged


def _onnxruntime(data: bytes, feeds: Arrays) -> tuple[list[Any], list[Any]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    values = session.run(None, dict(feeds))
    return values, _margins(values, session.run(None, _nudged(feeds)))


def _reference(data: bytes, feeds: Arrays) -> tuple[list[Any], list[Any]]:
    evaluator = reference(onnx.ModelProto.FromString(data))
    values = evaluator.run(None, dict(feeds))
    return values, _margins(values, evaluator.run(None, _nudged(feeds)))


def _margins(values: Sequence[Any], nudged: Sequence[Any]) -> list[Any]:
    """How far rounding of the inputs moves each element."""
    return [
        np.abs(np.asarray(b, float) - np.asarray(a, float)) if np.shape(a) == np.shape(b) else 0.0
        for a, b in zip(values, nudged, strict=True)
    ]


def _difference(
    actual: Sequence[Any], expected: Sequence[Any], margins: Sequence[Any], tolerance: float
) -> str:
    for index, (mine, theirs, margin) in enumerate(zip(actual, expected, margins, strict=True)):
        theirs = np.asarray(theirs)
        if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
            return f"output {index} is {mine.dtype}{mine.shape}, not {theirs.dtype}{theirs.shape}"
        with np.errstate(all="ignore"):
            a, b = mine.astype(float), theirs.astype(float)
            # what overflows or is not defined is compared nowhere else either
            known = np.isfinite(b) & np.isfinite(np.asarray(margin) + b)
            largest = np.abs(np.where(known, b, 0)).max(initial=0)
            allowed = tolerance * np.maximum(np.abs(b), largest) + 1e-5 + 50 * margin
            bad = known & ~(np.abs(a - b) <= allowed)
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            return (
                f"output {index} is {a[at]} at {at}, not {b[at]} "
                f"({int(bad.sum())} of {a.size} elements)"
            )
    return ""
