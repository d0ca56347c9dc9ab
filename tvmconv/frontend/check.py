"""Tells what a model needs before it is built."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import Shapes, TensorInfo
from tvmconv.frontend.cut import cut_model
from tvmconv.frontend.graph import OnnxGraph
from tvmconv.frontend.images.inputs import BatchError, check_batch
from tvmconv.frontend.inputs import OpenShapeError
from tvmconv.frontend.nested.functions import without_functions
from tvmconv.frontend.read import ShapedModel, read_model
from tvmconv.frontend.refusals import Refusal, Refusals
from tvmconv.frontend.source import open_source
from tvmconv.frontend.structure import all_nodes, check_operator
from tvmconv.kernels.compiler_lock import compiler_lock

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class ModelCheck:
    """The nodes of a model, and the reasons that prevent its build.

    Attributes
    ----------
    name
        The model's name in reports.
    inputs, outputs
        Tensors of the model with their shapes; empty while shapes are missing.
    operators
        The operators that are computed at run time, with the number of their nodes.
    refused
        Nodes that cannot be built, each with the error of a build.
    unread
        Number of nodes that could not be checked, because they depend on refused nodes.
    missing
        The dimensions that must be given, with an example; empty if there are none.
    cut
        Names of values for ``outputs=`` that make a model without refused nodes. Empty if nothing
        is refused, or nothing would be left.
    batch
        Why the model cannot serve any batch size, if a node is not the reason; otherwise empty.
    """

    name: str
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()
    operators: Mapping[str, int] = field(default_factory=dict)
    refused: tuple[Refusal, ...] = ()
    unread: int = 0
    missing: str = ""
    cut: tuple[str, ...] = ()
    batch: str = ""

    @property
    def ok(self) -> bool:
        """Whether ``build`` takes the model."""
        return not (self.refused or self.missing or self.batch)


def check(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    shapes: Shapes | None = None,
    outputs: Sequence[str] | None = None,
    fold_budget: int | None = None,
    batch: str | None = None,
) -> ModelCheck:
    """Check whether a model can be built, without building it.

    All refused nodes and missing dimensions are found at once. The arguments have the meaning
    that :func:`tvmconv.build` gives them; ``shapes`` has one shape of each input. Raises
    ``ModelError`` if the file is damaged or is not an ONNX model.

    Examples
    --------
    >>> import tvmconv
    >>> tvmconv.check("yolo.onnx").refused  # doctest: +SKIP
    """
    refusals = Refusals(collects=True)
    batched, problem = None, ""
    if check_batch(batch):
        try:
            batched = ShapedModel(model, shapes, fold_budget, outputs, batch)
            # lists of shapes are refused below
            shapes = batched.shapes[0] if len(batched.shapes) == 1 else shapes
        except BatchError as error:
            problem = str(error)
    try:
        loaded = read_model(model, shapes, fold_budget, outputs, refusals)
    except OpenShapeError as error:
        return _without_shapes(model, outputs, str(error))
    with compiler_lock():
        from tvmconv.frontend.convert import convert_graph

        if loaded.graph.nodes:
            convert_graph(loaded.graph, loaded.fold_budget, refusals)
    if batched is not None and not refusals.found:
        try:
            loaded = batched.read(0, refusals)
        except BatchError as error:
            problem = str(error)
    refused = {refusal.node for refusal in refusals.found}
    taken = Counter(node.op for node in loaded.graph.nodes if node.name not in refused)
    found = bool(refusals.found)
    return ModelCheck(
        loaded.name,
        loaded.inputs,
        () if found else loaded.outputs,
        dict(taken.most_common()),
        tuple(refusals.found),
        refusals.unread,
        cut=_cut(loaded.graph, refused, refusals.values) if found else (),
        batch=problem,
    )


def _without_shapes(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    outputs: Sequence[str] | None,
    missing: str,
) -> ModelCheck:
    """The operators that are refused by their names, where shapes are missing."""
    source = open_source(model)
    proto = without_functions(source.proto)
    if outputs is not None:
        proto = cut_model(proto, outputs)
    refusals = Refusals(collects=True)
    nodes = list(all_nodes(proto.graph))
    for node in nodes:
        try:
            check_operator(node)
        except ModelError as error:
            refusals.add_node(node, error)
    unread = len(nodes) - len(refusals.found)
    return ModelCheck(source.name, refused=tuple(refusals.found), unread=unread, missing=missing)


def _cut(graph: OnnxGraph, refused: Set[str], values: Set[str]) -> tuple[str, ...]:
    """The values of a model, among ``values``, before the refused nodes and what follows them."""
    varying = {info.name for info in graph.inputs}
    bad: set[str] = set()
    wanted: list[str] = []
    for node in graph.nodes:
        if node.name in refused or not bad.isdisjoint(node.inputs):
            bad.update(node.outputs)
            wanted += node.inputs
    wanted += [info.name for info in graph.outputs]
    named = (name for name in dict.fromkeys(wanted) if name in values)
    return tuple(name for name in named if name not in bad | varying | graph.constants.keys())
