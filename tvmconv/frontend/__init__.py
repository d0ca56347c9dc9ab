"""Reads and checks ONNX models and converts them to Relax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvmconv.frontend.canonical import layer_name
from tvmconv.tvm_api.types import IRModule

if TYPE_CHECKING:
    from tvmconv.frontend.read import LoadedModel, read_model

__all__ = ["LoadedModel", "layer_name", "read_model", "to_relax"]


def to_relax(loaded: LoadedModel) -> IRModule:
    """Convert a checked model to a Relax ``IRModule``.

    Parameters
    ----------
    loaded
        Result of :func:`read_model`.

    Returns
    -------
    tvm.IRModule
        Function ``main``: parameters are the graph inputs in order, the result is one tensor or
        a tuple in output order, every shape is static and weights are constants. The operator
        forms are listed in :mod:`tvmconv.frontend.canonical`.

    Raises
    ------
    ModelError
        An operator, or an attribute of one, cannot be converted.
    """
    from tvmconv.frontend.convert import convert_graph

    return convert_graph(loaded.graph, loaded.fold_budget)


def __getattr__(name: str) -> Any:
    # onnx and numpy are loaded on first use only, for the command line's start-up time
    if name in ("LoadedModel", "read_model"):
        from tvmconv.frontend import read

        return getattr(read, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
