"""A model: built, run, and compared with onnxruntime or onnx's reference."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tests.fuzz.disputed import ROUNDS, UNDEFINED, disputes, inlined, skips_input
from tests.fuzz.runner import Note, Wrong
from tests.fuzz.runtimes import (
    RUNTIMES,
    Arrays,
    Runtime,
    by_onnxruntime,
    by_reference,
    known_values,
    nudges,
    random_feeds,
    silence,
)
from tvmconv.core.errors import ArtifactError, DataError
from tvmconv.frontend.operators import COMPOSED, COMPOSED_MICROSOFT

# larger models are built but not run
_MOST_BYTES = 1 << 26
# relative to an element, and for results with half precision anywhere on the way
_TOLERANCE, _HALF_TOLERANCE = 2e-4, 4e-3
# relative to an output's largest element without sums of many products
_SMALL_TOLERANCE = 1e-5
_SUMMING = {
    "Conv", "ConvTranspose", "DFT", "DeformConv", "DynamicQuantizeLSTM", "Einsum", "GRU", "Gemm",
    "LSTM", "MatMul", "RNN", "ReduceLogSum", "ReduceProd", "RoiAlign", "STFT",
    *COMPOSED, *COMPOSED_MICROSOFT,
}  # fmt: skip
# share of an output's elements that may differ, and their smallest allowed count, where integers
# were rounded
_ROUNDED_SHARE, _ROUNDED_LEAST = 0.05, 2
# onnxruntime masks by the smallest number of float32, and begins with it to look for the largest
# element; for ONNX it is minus infinity
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Measure:
    """How outputs of a model are compared.

    Parameters
    ----------
    tolerance
        Relative to each element.
    of_largest
        Relative to the output's largest element.
    rounds
        Whether integers were rounded on the way, of which some may be a step off.
    exact
        Whether there are integers alone.
    """

    tolerance: float
    of_largest: float
    rounds: bool
    exact: bool

    @classmethod
    def of(cls, model: onnx.ModelProto) -> Measure:
        """By what a model computes."""
        graph = onnx.shape_inference.infer_shapes(model).graph
        types = {v.type.tensor_type.elem_type for v in (*graph.input, *graph.value_info)}
        types |= {v.type.tensor_type.elem_type for v in graph.output}
        types |= {tensor.data_type for tensor in graph.initializer}
        tolerance = _HALF_TOLERANCE if onnx.TensorProto.FLOAT16 in types else _TOLERANCE
        lists = [graph.node, *(function.node for function in model.functions)]
        summing = any(node.op_type in _SUMMING for nodes in lists for node in nodes)
        rounds = model.graph.doc_string == ROUNDS
        unlike = {0, *(onnx.TensorProto.DataType.Value(n) for n in ("FLOAT", "FLOAT16", "DOUBLE"))}
        wide = summing or tolerance == _HALF_TOLERANCE
        return cls(tolerance, tolerance if wide else _SMALL_TOLERANCE, rounds, not types & unlike)


def compare(data: bytes, note: Note) -> bool:
    """Build and run a model, and compare; returns whether any runtime gave a reference.

    Raises
    ------
    Wrong
        If the outputs agree with no other runtime, or there are none, or a second call with the
        same inputs makes others.
    """
    # processors and threads, inputs too, are the same whenever the model is
    seed = zlib.crc32(data)
    compiled = build(data, ("native", "native", "x86-64-v3")[seed % 3], (1, 1, 1, 3)[seed % 4])
    infos = (*compiled.inputs, *compiled.outputs)
    size = sum(np.prod(info.shape, dtype=float) for info in infos)
    if 8 * size + compiled.memory.arena_bytes > _MOST_BYTES:
        return False
    feeds = random_feeds(compiled.inputs, seed)
    try:
        actual = _run(compiled, feeds)
    except ArtifactError as error:
        # it would count as a refusal of the model, and every other model's as well
        raise Wrong(f"it was built, but cannot be linked: {error}") from error
    except DataError as error:
        note("reference")
        if "node '" not in str(error):
            raise Wrong(f"an error does not name the node: {error}") from error
        expect_bad_data(data, feeds, error)
        raise
    with suppress(DataError):
        _run(compiled, random_feeds(compiled.inputs, seed + 1))
    for index, (first, second) in enumerate(zip(actual, _run(compiled, feeds), strict=True)):
        if first.tobytes() != second.tobytes():
            raise Wrong(f"output {index} is another one when the model is called again")
    compiled.explain()
    note("reference")
    return agrees(data, feeds, lambda _: actual)


def agrees(data: bytes, feeds: Arrays, results: Callable[[Runtime], Sequence[Any]]) -> bool:
    """Compare results with the results of a runtime; returns whether any runtime gave a reference.

    ``results`` may compute by the same runtime. Raises ``Wrong`` if they agree with no runtime.
    """
    model = inlined(onnx.ModelProto.FromString(data))
    measure = Measure.of(model)
    references = []
    for runtime in (by_reference,) if skips_input(model) else RUNTIMES:
        try:
            with silence():
                expected = runtime(data, feeds)
                actual = results(runtime)
        except Exception as error:  # errors of another runtime are not our concern
            if str(error) in UNDEFINED:
                return False
            references.append(f"{runtime.__name__} refuses: {str(error)[:200]}")
            continue
        moved: list[list[Any]] = []
        for nudged in nudges(data, feeds):
            with suppress(Exception), silence():
                moved.append(runtime(*nudged))
            problem = _difference(actual, expected, moved, measure)
            if not problem:
                return True
        references.append(f"{runtime.__name__}: {problem}")
    if all(" refuses: " in text for text in references):
        return False
    if disputes(model, known_values(model, feeds)):
        return False
    raise Wrong("; ".join(references))


def expect_bad_data(data: bytes, feeds: Arrays, error: Exception) -> None:
    """Inputs that a model does not take must be wrong for onnxruntime as well."""
    try:
        with silence():
            by_onnxruntime(data, feeds)
    except Exception:  # any error of another runtime
        return
    raise Wrong(f"onnxruntime takes the inputs: {error}")


def build(data: bytes, target: str = "native", threads: int = 1) -> Any:
    """The compiled model."""
    import tvmconv

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tvmconv.build(data, target, threads=threads)


def _run(compiled: Any, feeds: Arrays) -> list[np.ndarray]:
    return [np.array(value) for value in compiled.run(feeds)]


def _difference(
    actual: Sequence[Any], expected: Sequence[Any], moved: Sequence[Sequence[Any]], measure: Measure
) -> str:
    """The difference in prose; ``moved`` has the outputs of inputs that differ by rounding."""
    for index, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
        theirs = np.asarray(theirs)
        if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
            return f"output {index} is {mine.dtype}{mine.shape}, not {theirs.dtype}{theirs.shape}"
        others = [np.asarray(results[index]) for results in moved]
        if any(other.shape != theirs.shape for other in others[:1]):
            continue
        others = [other for other in others if other.shape == theirs.shape]
        bad = mine != theirs if measure.exact else _unlike(mine, theirs, others, measure)
        most = max(_ROUNDED_LEAST, _ROUNDED_SHARE * mine.size) if measure.rounds else 0
        if np.count_nonzero(bad) > most:
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            return (
                f"output {index} is {mine[at]} at {at}, not {theirs[at]} "
                f"({int(bad.sum())} of {mine.size} elements)"
            )
    return ""


def _unlike(mine: Any, theirs: Any, moved: Sequence[Any], measure: Measure) -> Any:
    """Which elements are neither near enough nor moved far by a nudge of the inputs."""
    with np.errstate(all="ignore"):
        a, b, *others = (_infinite(values.astype(float)) for values in (mine, theirs, *moved))
        known = np.isfinite(b)
        steady = np.ones(b.shape, bool)
        spread = np.zeros_like(b)
        for c in others:
            known = known & np.isfinite(c)
            steady = steady & ((b == c) | (np.isnan(b) & np.isnan(c)))
            spread = np.fmax(spread, np.abs(c - b))
        largest = np.abs(np.where(known, b, 0)).max(initial=0)
        allowed = measure.tolerance * np.abs(b) + measure.of_largest * largest + 1e-6
        bad = known & ~(np.abs(a - b) <= allowed + 50 * spread)
        # infinities and NaN that rounding does not change
        return bad | (~known & steady & ~((a == b) | (np.isnan(a) & np.isnan(b))))


def _infinite(values: Any) -> Any:
    return np.where(np.abs(values) >= _LARGEST, np.copysign(np.inf, values), values)
