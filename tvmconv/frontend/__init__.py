"""Reads and checks ONNX models and converts them to Relax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvmconv.frontend.canonical import layer_name
from tvmconv.tvm_api.types import IRModule

if TYPE_CHECKING:
    from tvmconv.frontend.read import LoadedModel, ShapedModel, read_model

__all__ = ["LoadedModel", "ShapedModel", "layer_name", "read_model", "to_relax"]


def to_relax(loaded: LoadedModel) -> IRModule:
    """Convert a checked model to a Relax ``IRModule``.

    Raises ``ModelError`` if an operator, or an attribute of one, cannot be converted. The function
    ``main`` takes the graph inputs in order, and returns one tensor or a tuple. Every shape is
    static and weights are constants. The module :mod:`tvmconv.frontend.canonical` lists the
    operator forms.
    """
    from tvmconv.frontend.convert import convert_graph

    return convert_graph(loaded.graph, loaded.fold_budget)


def __getattr__(name: str) -> Any:
    # onnx and numpy are loaded on first use only, for the command line's start-up time
    if name in ("LoadedModel", "ShapedModel", "read_model"):
        from tvmconv.frontend import read

        return getattr(read, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
