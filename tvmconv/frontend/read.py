"""Reading a model: from a path, bytes or a ``ModelProto`` to a checked, simplified graph."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tvmconv.core.arguments import whole
from tvmconv.core.errors import ConfigError, ModelError, ShapeError
from tvmconv.core.tensor import ShapeLists, Shapes, TensorInfo
from tvmconv.frontend.cut import cut_model
from tvmconv.frontend.export import to_proto
from tvmconv.frontend.external import ExternalData, HeldData
from tvmconv.frontend.graph import Array, OnnxGraph
from tvmconv.frontend.images.analysis import check_images
from tvmconv.frontend.images.inputs import BatchError, BatchInputs, check_batch
from tvmconv.frontend.infer import infer_graph
from tvmconv.frontend.inputs import fitted, freeze_inputs
from tvmconv.frontend.limits import FOLD_BYTES_PER_BYTE, FREE_FOLD_BYTES, FREE_WEIGHT_BYTES
from tvmconv.frontend.nested.functions import without_functions
from tvmconv.frontend.open_shapes import OpenTensor, declared_inputs
from tvmconv.frontend.refusals import Refusals, refuse_operators
from tvmconv.frontend.shape_lists import each_of
from tvmconv.frontend.simplify import simplify
from tvmconv.frontend.source import HeldModel, Source, open_source
from tvmconv.frontend.structure import (
    check_structure,
    check_versions,
    in_execution_order,
    run_checker,
)
from tvmconv.frontend.tensors import read_initializers

if TYPE_CHECKING:
    import onnx

_MOST_BYTES = 1 << 62


@dataclass(frozen=True)
class LoadedModel:
    """A model that passed every check.

    Attributes
    ----------
    name
        Name for reports: the file's stem, else the graph's name.
    inputs, outputs
        Tensors in the model's order; all shapes are static.
    sha256
        Hexadecimal hash of the model file (or its serialized form) and its external data files.
    graph
        The simplified graph that :func:`tvmconv.frontend.to_relax` converts.
    fold_budget
        Maximum bytes of tables that the conversion makes.
    """

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    sha256: str
    graph: OnnxGraph
    fold_budget: int

    @property
    def proto(self) -> onnx.ModelProto:
        """The simplified graph as a new ``ModelProto`` (constants included, so built on demand)."""
        return to_proto(self.graph)


def read_model(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    shapes: Shapes | None = None,
    fold_budget: int | None = None,
    outputs: Sequence[str] | None = None,
    refusals: Refusals | None = None,
) -> LoadedModel:
    """Read an ONNX model, check it hard, fix its shapes and fold its constants.

    Raises ``ModelError`` if the model is damaged, beyond the limits, or cannot be given static
    shapes. The message names the node, operator and value at fault and what to do about it.

    Parameters
    ----------
    model
        Path, serialized bytes, or a ``ModelProto`` (which is not modified). External tensor data
        is read only for paths, and only from inside the model file's folder.
    shapes
        Full shape by input name, or size by the name of a symbolic dimension.
    fold_budget
        Maximum bytes of computed constants that are alive at a time. By default 4 times the
        model's size and 256 MiB, and 1 GiB for weights that are ConstantOfShape.
    outputs
        Names of values at which the model ends, in place of its own outputs.
    refusals
        Collects the errors of single nodes, if it is given. Then the outputs of the result are the
        values before these nodes.

    Returns
    -------
    LoadedModel
        Checked and simplified; every value in it has a static shape.
    """
    with _explained(shapes):
        return _read(open_source(model), shapes, fold_budget, outputs, refusals or Refusals())


class ShapedModel:
    """A model that is read once for each of its input shapes; see :func:`read_model`.

    ``shapes`` has the shapes of each program. With ``batch="any"``, they are for one image.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | onnx.ModelProto | HeldModel,
        shapes: ShapeLists | None,
        fold_budget: int | None = None,
        outputs: Sequence[str] | None = None,
        batch: str | None = None,
    ) -> None:
        self._fold_budget, self._outputs = fold_budget, outputs
        self._batch: BatchInputs | None = None
        any_batch = check_batch(batch)
        with _explained(None):
            self._source = open_source(model)
            graph = self._source.proto.graph
            names = [value.name for value in graph.input]
            self.shapes = each_of(shapes, names)
            if any_batch:
                constants = {tensor.name for tensor in graph.initializer}
                inputs = [value for value in graph.input if value.name not in constants]
                self._batch = batch_inputs = BatchInputs(inputs)
                self.shapes = [batch_inputs.sized(each, 1) for each in self.shapes]

    def read(self, index: int, refusals: Refusals | None = None) -> LoadedModel:
        """Read the model for the shapes of one program.

        With ``batch="any"``, raises ``ModelError`` if the network combines images. ``refusals`` may
        collect the nodes.
        """
        loaded = self._read(self.shapes[index])
        if self._batch is None:
            return loaded
        batched = [self._batch.batched(info.name) for info in loaded.inputs]
        double = None if self._batch.is_fixed else self._read_double(self.shapes[index])
        check_images(loaded.graph, double, batched, refusals or Refusals())
        pairs = zip(loaded.inputs, batched, strict=True)
        return replace(
            loaded,
            inputs=tuple(replace(info, batched=each) for info, each in pairs),
            outputs=tuple(replace(info, batched=True) for info in loaded.outputs),
        )

    def _read_double(self, shapes: Shapes | None) -> OnnxGraph:
        """The graph for two images."""
        assert self._batch is not None
        try:
            # the graph for one image has warned
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self._read(self._batch.sized(shapes, 2)).graph
        except ShapeError as error:
            raise BatchError(
                f"{error.problem}. The network takes one image, and not two. batch='any' requires "
                "a network for any batch size. Build a model for each batch size that you need."
            ) from None

    def _read(self, shapes: Shapes | None) -> LoadedModel:
        with _explained(shapes):
            return _read(self._source, shapes, self._fold_budget, self._outputs, Refusals())


@contextmanager
def _explained(shapes: Shapes | None) -> Iterator[None]:
    """Errors of reading a model name the shapes, and a remedy for names that are not text."""
    try:
        with fitted(shapes):
            yield
    except UnicodeDecodeError as error:
        raise ModelError(
            f"a name in the model is not UTF-8 text ({error}); the file may be damaged. "
            "Export or download it again."
        ) from None


def open_inputs(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto | HeldModel,
    outputs: Sequence[str] | None = None,
) -> tuple[OpenTensor, ...]:
    """The inputs as a model declares them.

    Raises ``ModelError`` for all faults that do not depend on the sizes of open dimensions.
    """
    with _explained(None), _checked(open_source(model), outputs, Refusals()) as checked:
        return declared_inputs(checked.proto.graph, checked.constants)


@dataclass(frozen=True)
class _Checked:
    """A model whose structure is sound, and its constants.

    ``files`` reads external data, None for a model without a folder.
    """

    proto: onnx.ModelProto
    opset: int
    nodes: list[onnx.NodeProto]
    constants: dict[str, Array]
    files: ExternalData | None
    size: int
    digest: Any


@contextmanager
def _checked(
    source: Source, outputs: Sequence[str] | None, refusals: Refusals
) -> Iterator[_Checked]:
    opset = check_versions(source.proto)
    proto = without_functions(source.proto)
    if outputs is not None:
        proto = cut_model(proto, outputs)
    check_structure(proto)
    digest = source.digest.copy()
    held = source.files
    made = ExternalData(source.folders, digest) if held is None else HeldData(held, digest)
    with closing(made) as external:
        files = None if held is None and not source.folders else external
        constants = read_initializers(proto.graph, files)
        nodes = in_execution_order(proto.graph)
        run_checker(proto, nodes)
        if not refusals.collects:
            refuse_operators(proto.graph, nodes)
        size = source.size + external.size
        yield _Checked(proto, opset, nodes, constants, files, size, digest)


def _read(
    source: Source,
    shapes: Shapes | None,
    fold_budget: int | None,
    outputs: Sequence[str] | None,
    refusals: Refusals,
) -> LoadedModel:
    if fold_budget is not None:
        fold_budget = whole(fold_budget, "fold_budget", 0, _MOST_BYTES, ConfigError)
    with _checked(source, outputs, refusals) as checked:
        inputs = freeze_inputs(checked.proto.graph, checked.constants, shapes)
        weight_budget = FREE_WEIGHT_BYTES if fold_budget is None else 0
        if fold_budget is None:
            fold_budget = FREE_FOLD_BYTES + FOLD_BYTES_PER_BYTE * checked.size
        graph = infer_graph(
            checked.proto,
            checked.nodes,
            checked.opset,
            inputs,
            checked.constants,
            (fold_budget, weight_budget),
            checked.files,
            refusals,
        )
    graph = simplify(graph)
    sha256 = checked.digest.hexdigest()
    return LoadedModel(source.name, graph.inputs, graph.outputs, sha256, graph, fold_budget)
