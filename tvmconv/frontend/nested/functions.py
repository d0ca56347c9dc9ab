"""Puts the nodes of model-local functions in place of their calls."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tvmconv.core.errors import ModelError
from tvmconv.frontend.limits import MAX_NODES
from tvmconv.frontend.structure import all_nodes, describe

if TYPE_CHECKING:
    import onnx

_Key = tuple[str, str, str]


def without_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the nodes of its local functions in place of their calls.

    A model without functions is returned as it is; others are copied. Raises ``ModelError`` if a
    function calls itself, makes too many nodes, or has another operator set than the model.
    """
    if not model.functions:
        return model
    from onnx import inliner

    _check_size(model)
    bare = _bare(model)
    try:
        inlined = inliner.inline_local_functions(bare)
    except Exception as error:
        text = re.sub(r"\s+", " ", str(error)).strip(" .")
        raise ModelError(
            f"the model's local functions cannot be inlined: {text}. Export it again."
        ) from None
    called = {(node.domain, node.op_type) for node in all_nodes(inlined.graph)}
    left = [f for f in inlined.functions if (f.domain, f.name) in called]
    if left:
        function = left[0]
        versions = ", ".join(f"{s.domain or 'ai.onnx'} {s.version}" for s in function.opset_import)
        raise ModelError(
            f"the local function {function.name!r} cannot be inlined: it imports {versions}. "
            "Expected the operator sets of the model. Convert the model with "
            "onnx.version_converter, or export it again."
        )
    # the inliner has not seen the data of the initializers
    del inlined.graph.initializer[:], inlined.functions[:]
    inlined.graph.initializer.extend(model.graph.initializer)
    return inlined


def _bare(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy without the data of the initializers."""
    import onnx

    graph = model.graph
    bare = onnx.ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions
    )
    bare.graph.name = graph.name or "graph"
    for name in ("node", "input", "output", "value_info"):
        getattr(bare.graph, name).extend(getattr(graph, name))
    versions = {entry.domain: entry.version for entry in model.opset_import}
    for function in bare.functions:
        _unify_versions(function, versions.get("", versions.get("ai.onnx", 0)))
    for tensor in graph.initializer:
        bare.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    return bare


def _unify_versions(function: onnx.FunctionProto, version: int) -> None:
    """Give a function the model's operator set if its operators are the same in both sets."""
    import onnx

    for entry in function.opset_import:
        if entry.domain in ("", "ai.onnx") and entry.version != version:
            nodes = all_nodes(onnx.GraphProto(node=function.node))
            own = [node.op_type for node in nodes if node.domain in ("", "ai.onnx")]
            if all(_since(op, version) == _since(op, entry.version) for op in own):
                entry.version = version


def _since(op: str, version: int) -> int:
    """The operator set in which an operator got the form that it has in a version; 0 for none."""
    import onnx

    try:
        return int(onnx.defs.get_schema(op, version, "").since_version)
    except (onnx.defs.SchemaError, OverflowError, TypeError):
        return 0


def _check_size(model: onnx.ModelProto) -> None:
    """Refuse functions that call themselves, make too many nodes, or have too few parameters."""
    import onnx

    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    counts: dict[_Key, int] = {}
    calling: set[_Key] = set()

    def calls(nodes: object) -> tuple[int, list[_Key]]:
        found = list(all_nodes(onnx.GraphProto(node=nodes)))
        keys = [(node.domain, node.op_type, node.overload) for node in found]
        called = [key for key in keys if key in functions]
        for node, key in zip(found, keys, strict=True):
            function = functions.get(key)
            if function and (
                len(node.input) > len(function.input) or len(node.output) > len(function.output)
            ):
                raise ModelError(
                    f"{describe(node)}: it has {len(node.input)} inputs and {len(node.output)} "
                    f"outputs. Expected at most the {len(function.input)} and "
                    f"{len(function.output)} of its function. Export the model again."
                )
        return len(found) - len(called), called

    pending = list(functions)
    waiting: dict[_Key, tuple[int, list[_Key]]] = {}
    while pending:
        key = pending[-1]
        if key in counts:
            pending.pop()
            continue
        if key not in waiting:
            waiting[key] = calls(functions[key].node)
        own, called = waiting[key]
        missing = [other for other in dict.fromkeys(called) if other not in counts]
        if missing and key in calling:
            raise ModelError(
                f"the local function {key[1]!r} calls itself. Expected functions without "
                "recursion. Export the model again."
            )
        if missing:
            calling.add(key)
            pending += missing
            continue
        calling.discard(key)
        counts[key] = own + sum(counts[other] for other in called)
        pending.pop()
    own, called = calls(model.graph.node)
    total = own + sum(counts[key] for key in called)
    if total > MAX_NODES:
        raise ModelError(
            f"the model has too many nodes with its local functions: {total}. Expected at most "
            f"{MAX_NODES}. Split the model"
        )
