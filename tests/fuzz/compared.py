"""A model: built, run, and compared with onnxruntime or onnx's reference."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.fuzz.disputed import (
    ROUNDS,
    UNDEFINED,
    cuts_fractions,
    disputes,
    reference,
    skips_input,
)
from tests.fuzz.runner import Note, Wrong
from tvmconv.core.errors import ArtifactError, DataError
from tvmconv.frontend.nested.subgraphs import reads
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

Arrays = Mapping[str, np.ndarray]
# results of a model, and of inputs that differ by rounding
Runtime = Callable[[bytes, Arrays], tuple[list[Any], list[Any]]]


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
    model = onnx.ModelProto.FromString(data)
    measure = Measure.of(model)
    references = []
    runtimes = (_reference,) if skips_input(model) else (_onnxruntime, _by_node, _reference)
    for runtime in runtimes:
        try:
            with _silence():
                expected, nudged = runtime(data, feeds)
                actual = results(runtime)
        except Exception as error:  # errors of another runtime are not our concern
            if str(error) in UNDEFINED:
                return False
            references.append(f"{runtime.__name__} refuses: {str(error)[:200]}")
            continue
        problem = _difference(actual, expected, nudged, measure)
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
        with _silence():
            _onnxruntime(data, feeds)
    except Exception:  # any error of another runtime
        return
    raise Wrong(f"onnxruntime takes the inputs: {error}")


def runs_elsewhere(data: bytes) -> bool:
    """Whether onnxruntime or onnx's reference runs a model on random inputs."""
    from tvmconv.core.tensor import TensorInfo
    from tvmconv.frontend.tensors import DTYPES

    model = onnx.ModelProto.FromString(data)
    infos = []
    for value in model.graph.input:
        declared = value.type.tensor_type
        shape = tuple(d.dim_value for d in declared.shape.dim)
        infos.append(TensorInfo(value.name, shape, DTYPES[declared.elem_type]))
    constants = {tensor.name for tensor in model.graph.initializer}
    feeds = random_feeds([info for info in infos if info.name not in constants], 0)
    for runtime in (_onnxruntime, _by_node, _reference):
        try:
            with _silence():
                runtime(data, feeds)
        except Exception:  # any error of another runtime
            continue
        return True
    return False


@contextmanager
def _silence() -> Iterator[None]:
    """Warnings of other runtimes' arithmetic say nothing of a model."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def build(data: bytes, target: str = "native", threads: int = 1) -> Any:
    """The compiled model."""
    import tvmconv

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tvmconv.build(data, target, threads=threads)


def _run(compiled: Any, feeds: Arrays) -> list[np.ndarray]:
    return [np.array(value) for value in compiled.run(feeds)]


def random_feeds(inputs: Sequence[Any], seed: int) -> dict[str, np.ndarray]:
    """Normal numbers; integers from small ranges, which may be indices, or from whole ones."""
    generator = np.random.default_rng(seed)
    feeds: dict[str, np.ndarray] = {}
    for info in inputs:
        dtype = np.dtype(info.dtype)
        if dtype.kind == "f":
            feeds[info.name] = generator.standard_normal(info.shape).astype(dtype)
            continue
        low, high = 0, 1 if dtype.kind == "b" else 9
        if dtype.kind != "b" and generator.random() < 0.5:
            ends = np.iinfo(dtype)
            low, high = (ends.min, ends.max) if generator.random() < 0.5 else (max(ends.min, -9), 9)
        drawn = np.int64 if dtype.kind == "b" else dtype
        values = generator.integers(low, high, info.shape, dtype=drawn, endpoint=True)
        feeds[info.name] = np.asarray(values).astype(dtype)
    return feeds


def nudged_feeds(feeds: Arrays) -> dict[str, np.ndarray]:
    """Inputs that differ by rounding: changes that they cause are not errors."""
    generator = np.random.default_rng(1)
    nudged = {}
    for name, value in feeds.items():
        if value.dtype.kind == "f":
            # less than half a step of float16 would not change it
            relative = max(1e-6, float(np.finfo(value.dtype).eps) / 2)
            noise = generator.standard_normal(value.shape) * relative * np.abs(value)
            value = np.asarray(value + noise).astype(value.dtype)
        nudged[name] = value
    return nudged


def _onnxruntime(data: bytes, feeds: Arrays) -> tuple[list[Any], list[Any]]:
    session = _session(data)
    return session.run(None, dict(feeds)), session.run(None, nudged_feeds(feeds))


def _session(data: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _by_node(data: bytes, feeds: Arrays) -> tuple[list[Any], list[Any]]:
    """Each node by onnxruntime; by onnx's reference where that has no kernel for it."""
    model = onnx.ModelProto.FromString(data)
    names = [info.name for info in model.graph.output]
    plain, nudged = dict(_walk(model, feeds)), dict(_walk(model, nudged_feeds(feeds)))
    return [plain[name] for name in names], [nudged[name] for name in names]


def known_values(model: onnx.ModelProto, feeds: Arrays) -> dict[str, Any]:
    """The values of a model before the first node that neither runtime has."""
    values: dict[str, Any] = {}
    with suppress(Exception), _silence():
        values.update(_walk(model, feeds))
    return values


def _walk(model: onnx.ModelProto, feeds: Arrays) -> Iterator[tuple[str, Any]]:
    """All values, one after the other."""
    graph = model.graph
    values = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer} | dict(feeds)
    yield from list(values.items())
    for node in graph.node:
        # sub-graphs read names of their own as well
        given = {name: np.asarray(values[name]) for name in reads(node) if name in values}
        made = results_of(node, given, model)
        values.update(made)
        yield from made.items()


def results_of(node: onnx.NodeProto, given: Arrays, model: onnx.ModelProto) -> dict[str, Any]:
    """The results of a node of a model."""
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in given.items()
    ]
    results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    part = helper.make_model(
        helper.make_graph([node], "node", infos, results),
        opset_imports=model.opset_import, ir_version=model.ir_version, functions=model.functions,
    )  # fmt: skip
    made = None
    if not cuts_fractions(node, given):
        with suppress(Exception):  # any error about kernels that it does not have
            made = _session(part.SerializeToString()).run(None, dict(given))
    if made is None:
        made = reference(part).run(None, dict(given))
    return dict(zip(filter(None, node.output), made, strict=True))


def _reference(data: bytes, feeds: Arrays) -> tuple[list[Any], list[Any]]:
    evaluator = reference(onnx.ModelProto.FromString(data))
    return evaluator.run(None, dict(feeds)), evaluator.run(None, nudged_feeds(feeds))


def _difference(
    actual: Sequence[Any], expected: Sequence[Any], nudged: Sequence[Any], measure: Measure
) -> str:
    """The difference in prose; ``nudged`` has the outputs of inputs that differ by rounding."""
    for index, (mine, theirs, moved) in enumerate(zip(actual, expected, nudged, strict=True)):
        theirs, moved = np.asarray(theirs), np.asarray(moved)
        if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
            return f"output {index} is {mine.dtype}{mine.shape}, not {theirs.dtype}{theirs.shape}"
        if moved.shape != theirs.shape:
            continue
        bad = mine != theirs if measure.exact else _unlike(mine, theirs, moved, measure)
        most = max(_ROUNDED_LEAST, _ROUNDED_SHARE * mine.size) if measure.rounds else 0
        if np.count_nonzero(bad) > most:
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            return (
                f"output {index} is {mine[at]} at {at}, not {theirs[at]} "
                f"({int(bad.sum())} of {mine.size} elements)"
            )
    return ""


def _unlike(mine: Any, theirs: Any, moved: Any, measure: Measure) -> Any:
    """Which elements are neither near enough nor moved far by a nudge of the inputs."""
    with np.errstate(all="ignore"):
        a, b, c = (values.astype(float) for values in (mine, theirs, moved))
        known = np.isfinite(b) & np.isfinite(c)
        largest = np.abs(np.where(known, b, 0)).max(initial=0)
        allowed = measure.tolerance * np.abs(b) + measure.of_largest * largest + 1e-6
        bad = known & ~(np.abs(a - b) <= allowed + 50 * np.abs(c - b))
        # infinities and NaN that rounding does not change
        steady = ~known & ((b == c) | (np.isnan(b) & np.isnan(c)))
        return bad | (steady & ~((a == b) | (np.isnan(a) & np.isnan(b))))
