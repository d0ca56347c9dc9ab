"""What reading a model gives: the checked graph, and what reports say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.export import to_proto
from tvmconv.frontend.graph import OnnxGraph

if TYPE_CHECKING:
    import onnx


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
        Of the model file (or its serialised form) followed by its external data files, hex.
    graph
        The simplified graph that :func:`tvmconv.frontend.to_relax` converts.
    fold_budget
        Most bytes of tables that the conversion may make.
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
