"""The backend tests of the installed onnx as data."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from onnx.backend.test import loader

KINDS = ("node", "pytorch-converted", "pytorch-operator", "simple", "real")
_LIGHT = "onnx/backend/test/data/light/"
_TRAINING, _ML = "ai.onnx.preview.training", "ai.onnx.ml"
Array = npt.NDArray[Any]
# inputs and outputs of one call
DataSet = tuple[list[Array], list[Array]]


@dataclass(frozen=True)
class Case:
    """One test: a serialized model with its inputs and outputs, and the tolerances of onnx.

    ``left_out`` says why the test is not run; it is empty for a test to run.
    """

    kind: str
    name: str
    model: bytes
    data: tuple[DataSet, ...]
    rtol: float
    atol: float
    left_out: str = ""


def load_cases(kinds: tuple[str, ...] = KINDS, pattern: str = "") -> Iterator[Case]:
    """The tests whose name contains a match of the pattern, by kind and name."""
    for kind in kinds:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = loader.load_model_tests(kind=kind)
        for test in sorted(found, key=lambda test: str(test.name)):
            if re.search(pattern, test.name):
                yield _read(kind, test)


def _read(kind: str, test: Any) -> Case:
    def case(model: bytes, data: tuple[DataSet, ...], left_out: str = "") -> Case:
        return Case(kind, str(test.name), model, data, test.rtol, test.atol, left_out)

    if test.model is not None:
        proto: onnx.ModelProto = test.model
        if reason := _left_out(proto):
            return case(b"", (), reason)
        data = tuple(([*map(_array, a)], [*map(_array, b)]) for a, b in test.data_sets)
        return case(proto.SerializeToString(), data)
    if test.model_dir is None:
        if not str(test.url).startswith(_LIGHT):
            return case(b"", (), "download")
        path = Path(loader.DATA_DIR) / "light" / Path(test.url).name
        proto = onnx.load(path)
        return case(proto.SerializeToString(), (_light_data(proto, path),))
    folder = Path(test.model_dir)
    proto = onnx.load(folder / "model.onnx")
    if reason := _left_out(proto):
        return case(b"", (), reason)
    folders = sorted(folder.glob("test_data_set*"))
    data = tuple((_stored(each, "input"), _stored(each, "output")) for each in folders)
    return case(proto.SerializeToString(), data)


def _array(value: Any) -> Array:
    stored = isinstance(value, onnx.TensorProto)
    return np.asarray(numpy_helper.to_array(value) if stored else value)


def _stored(folder: Path, what: str) -> list[Array]:
    files = (folder / f"{what}_{i}.pb" for i in range(len([*folder.glob(f"{what}_*.pb")])))
    return [numpy_helper.to_array(onnx.load_tensor(file)) for file in files]


def _light_data(model: onnx.ModelProto, path: Path) -> DataSet:
    """The data that onnx's own test runner makes for networks without weights of their own."""
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = []
    for value in model.graph.input:
        if value.name not in stored:
            dims = value.type.tensor_type.shape.dim
            shape = [dim.dim_value if dim.HasField("dim_value") else 1 for dim in dims]
            count = int(np.prod(shape))
            inputs.append((np.arange(count).reshape(shape) / count).astype(np.float32))
    files = (path.with_name(f"{path.stem}_output_{i}.pb") for i in range(len(model.graph.output)))
    return inputs, [numpy_helper.to_array(onnx.load_tensor(file)) for file in files]


def _left_out(model: onnx.ModelProto) -> str:
    """Why a test is out of scope, or nothing."""
    nodes = [*_nodes(model.graph), *(node for f in model.functions for node in f.node)]
    domains = {node.domain for node in nodes}
    operators = {node.op_type for node in nodes}
    values = [*model.graph.input, *model.graph.output]
    kinds = {value.type.WhichOneof("value") for value in values}
    if _TRAINING in domains:
        return "training"
    if _ML in domains:
        return "ML domain"
    if "ImageDecoder" in operators:
        return "ImageDecoder"
    if "optional_type" in kinds or any(op.startswith("Optional") for op in operators):
        return "optional"
    if "sequence_type" in kinds or any("Sequence" in op for op in operators - {"ReverseSequence"}):
        return "sequences"
    if any(value.type.tensor_type.elem_type == onnx.TensorProto.STRING for value in values):
        return "strings"
    return ""


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)
