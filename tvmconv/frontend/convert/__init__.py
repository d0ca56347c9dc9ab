"""Converts a checked graph to Relax, one operator at a time.

Each module holds the converters of one family and registers them when it is imported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib import import_module

from tvmconv.core.errors import ModelError
from tvmconv.core.interrupts import checkpoint
from tvmconv.core.stored_types import code_type
from tvmconv.core.unexpected import summary
from tvmconv.frontend.convert.nested import nested_parts, nested_symbol
from tvmconv.frontend.convert.writer import CONVERTERS, Converter, RelaxWriter
from tvmconv.frontend.graph import OnnxGraph, OnnxNode
from tvmconv.frontend.operators import FOLDED
from tvmconv.frontend.reasons import reason_of
from tvmconv.frontend.refusals import Refusals
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import BlockBuilder, IRModule, RelaxExpr

__all__ = ["CONVERTERS", "convert_graph"]

_FAMILIES = (
    "activation",
    "borrowed",
    "cache",
    "conv",
    "deformed",
    "division",
    "elementwise",
    "fourier",
    "gather",
    "integer",
    "linear",
    "nested",
    "norm",
    "one_hot",
    "pool",
    "quantize_linear",
    "recurrent",
    "reduction",
    "reorder",
    "resize",
    "roi",
    "scatter",
    "sized",
    "stored_types",
)


def convert_graph(graph: OnnxGraph, budget: int, refusals: Refusals | None = None) -> IRModule:
    """Build ``main`` from a graph; see :func:`tvmconv.frontend.to_relax`.

    ``budget`` is the most bytes of tables, such as indices along an axis, that converters make. If
    ``refusals`` collects the errors of nodes, results of such nodes are zeros.
    """
    builder = relax.BlockBuilder()
    _convert_function(builder, graph, "main", {}, budget, Counter(), refusals or Refusals())
    module = builder.get()
    module["main"] = module["main"].with_attr("num_input", len(graph.inputs))
    return module


def _convert_function(
    builder: BlockBuilder,
    graph: OnnxGraph,
    name: str,
    attributes: Mapping[str, str],
    budget: int,
    numbers: Counter[str],
    refusals: Refusals,
) -> None:
    """Add the function of a graph, after the functions of nested graphs."""
    emitter = RelaxWriter(graph, builder, budget)
    for node in graph.nodes:
        if parts := nested_parts(node):
            symbol = emitter.symbols[node.name] = nested_symbol(node, numbers)
            for part, (nested, own) in parts.items():
                _convert_function(
                    builder, nested, f"{symbol}_{part}", own, budget, numbers, refusals
                )
    params = []
    for info in graph.inputs:
        param = relax.Var(info.name, relax.TensorType(info.shape, code_type(info.dtype)))
        emitter.define(info.name, param)
        params.append(param)
    with builder.function(name, params, attributes):
        with relax.dataflow(builder):
            for node in graph.nodes:
                checkpoint()
                try:
                    _convert_node(emitter, node, _find(node))
                except ModelError as error:
                    refusals.add(node.name, node.op, error)
                    for name in filter(None, node.outputs):
                        info = graph.types[name]
                        emitter.define(
                            name, emitter.emit(relax.op.zeros(info.shape, code_type(info.dtype)))
                        )
            results = [emitter.value(name) for name in graph.results()]
            result = results[0] if len(results) == 1 else relax.Tuple(results)
            bound = builder.emit_output(result)
        builder.emit_func_output(bound)


def _find(node: OnnxNode) -> Converter:
    converter = CONVERTERS.get(node.op)
    if converter is None:
        if node.op == "Dropout":
            raise node.error(
                "it is in training mode, in which it draws random numbers",
                "export the model in inference mode",
            )
        if node.op in FOLDED:
            raise node.error(
                "its operands are computed at run time, and it is supported with constants only",
                "simplify the model, or cut it before this node",
            )
        reason = reason_of("", node.op)
        raise node.error(reason.text, f"{reason.remedy}, or cut the model before it")
    if unknown := sorted(set(node.attrs) - converter.attributes):
        raise node.error(
            f"attribute(s) {', '.join(f'{k}={node.attrs[k]!r}' for k in unknown)} are not "
            "supported for this operator",
            "export the model without them or with another operator set",
        )
    if not all(node.input(i) for i in range(converter.inputs)):
        raise node.error(
            f"it has inputs {list(node.inputs)}; the first {converter.inputs} must be present"
        )
    return converter


def _convert_node(emitter: RelaxWriter, node: OnnxNode, converter: Converter) -> None:
    emitter.begin(node)
    try:
        result = converter.function(emitter, node)
        results = list(result) if isinstance(result, list | tuple) else [result]
        bound = [r if isinstance(r, relax.Var) else emitter.emit(r) for r in results]
    except (ModelError, MemoryError):
        raise
    except Exception as error:
        shapes = [emitter.shape(name) for name in node.inputs if name]
        text = summary(error)
        raise node.error(
            f"TVM cannot express it for operands of shape {shapes} ({text})",
            "report this model, or replace the operator",
        ) from error
    for name, value in zip(node.outputs, bound, strict=False):
        if name:
            _check_type(emitter, node, name, value)
            emitter.define(name, value)


def _check_type(emitter: RelaxWriter, node: OnnxNode, name: str, value: RelaxExpr) -> None:
    """ONNX's and Relax's idea of the result must agree; a mismatch means a wrong conversion."""
    expected = emitter.graph.types.get(name)
    if expected is None:
        return
    shape = tuple(int(n) for n in value.ty.shape)
    if (shape, str(value.ty.dtype)) != (expected.shape, code_type(expected.dtype)):
        raise node.error(
            f"the converted operator makes {value.ty.dtype}{list(shape)}, but the model says "
            f"{expected.dtype}{list(expected.shape)}",
            "report this model; its operator cannot be converted faithfully",
        )


for _family in _FAMILIES:
    import_module(f"{__name__}.{_family}")
