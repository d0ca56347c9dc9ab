"""Other runtimes' results of a model, of its nodes one by one, and for nudged inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.fuzz.disputed import deviates, inlined, reference
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.nested.subgraphs import reads
from tvmconv.frontend.tensors import DTYPES

Arrays = Mapping[str, np.ndarray]
# results of a model
Runtime = Callable[[bytes, Arrays], list[Any]]

_NUDGES = 8
# operators whose inputs say where values are rounded, or which elements are read: there a nudge
# would hide an error
_EXACT_PARAMETERS = ("Quantize", "QLinear", "Resize", "Upsample")
# onnx.reference has other windows at the end, and onnxruntime no type but float32
_SINGLE = ("AveragePool",)


@contextmanager
def silence() -> Iterator[None]:
    """Warnings of other runtimes' arithmetic say nothing of a model."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


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


def nudges(data: bytes, feeds: Arrays) -> Iterator[tuple[bytes, Arrays]]:
    """Models and inputs that differ by rounding: changes that they cause are not errors.

    The first one has the constants of the model.
    """
    yield data, nudged_feeds(feeds)
    for seed in range(2, _NUDGES):
        yield _nudged_constants(data, seed), nudged_feeds(feeds, seed)


def nudged_feeds(feeds: Arrays, seed: int = 1) -> dict[str, np.ndarray]:
    """Inputs that differ by rounding."""
    generator = np.random.default_rng(seed)
    return {name: _nudged(value, generator) for name, value in feeds.items()}


def _nudged(value: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    if value.dtype.kind != "f":
        return value
    # less than half a step of float16 would not change it
    relative = max(1e-6, float(np.finfo(value.dtype).eps) / 2)
    noise = generator.standard_normal(value.shape) * relative * np.abs(value)
    return np.asarray(value + noise).astype(value.dtype)


def _nudged_constants(data: bytes, seed: int) -> bytes:
    model, generator = onnx.ModelProto.FromString(data), np.random.default_rng(seed)
    nodes = [node for node in model.graph.node if node.op_type.startswith(_EXACT_PARAMETERS)]
    exact = {name for node in nodes for name in node.input}
    tensors = [tensor for tensor in model.graph.initializer if tensor.name not in exact]
    for node in model.graph.node:
        if node.op_type == "Constant" and node.output[0] not in exact:
            tensors += [a.t for a in node.attribute if a.name == "value"]
    for tensor in tensors:
        nudged = _nudged(numpy_helper.to_array(tensor), generator)
        tensor.CopyFrom(numpy_helper.from_array(nudged, tensor.name))
    return model.SerializeToString()


def by_onnxruntime(data: bytes, feeds: Arrays) -> list[Any]:
    """Results of onnxruntime."""
    return list(_session(data).run(None, dict(feeds)))


def _session(data: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def by_node(data: bytes, feeds: Arrays) -> list[Any]:
    """Each node by onnxruntime; by onnx's reference where that has no kernel for it."""
    model = inlined(onnx.ModelProto.FromString(data))
    values = dict(_walk(model, feeds))
    return [values[info.name] for info in model.graph.output]


def by_reference(data: bytes, feeds: Arrays) -> list[Any]:
    """Results of onnx's evaluator."""
    return list(reference(onnx.ModelProto.FromString(data)).run(None, dict(feeds)))


def known_values(model: onnx.ModelProto, feeds: Arrays) -> dict[str, Any]:
    """The values of a model before the first node that neither runtime has."""
    values: dict[str, Any] = {}
    with suppress(Exception), silence():
        values.update(_walk(inlined(model), feeds))
    return values


def _walk(model: onnx.ModelProto, feeds: Arrays) -> Iterator[tuple[str, Any]]:
    """All values, one after the other."""
    graph = model.graph
    values = {t.name: numpy_helper.to_array(t) for t in graph.initializer} | dict(feeds)
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
    if not deviates(node, given):
        with suppress(Exception):  # any error about kernels that it does not have
            made = _session(part.SerializeToString()).run(None, dict(given))
    dtype = given[node.input[0]].dtype if node.op_type in _SINGLE else np.dtype(np.float32)
    if made is None and dtype != np.float32:
        single = {name: value.astype(np.float32) for name, value in given.items()}
        return {name: y.astype(dtype) for name, y in results_of(node, single, model).items()}
    if made is None:
        made = reference(part).run(None, dict(given))
    return dict(zip(filter(None, node.output), made, strict=True))


RUNTIMES: tuple[Runtime, ...] = (by_onnxruntime, by_node, by_reference)


def runs_elsewhere(data: bytes) -> bool:
    """Whether onnxruntime or onnx's reference runs a model on random inputs."""
    model = onnx.ModelProto.FromString(data)
    infos = []
    for value in model.graph.input:
        declared = value.type.tensor_type
        shape = tuple(d.dim_value for d in declared.shape.dim)
        infos.append(TensorInfo(value.name, shape, DTYPES[declared.elem_type]))
    constants = {tensor.name for tensor in model.graph.initializer}
    feeds = random_feeds([info for info in infos if info.name not in constants], 0)
    for runtime in RUNTIMES:
        try:
            with silence():
                runtime(data, feeds)
        except Exception:  # any error of another runtime
            continue
        return True
    return False
