"""If and Loop as calls that run other functions; :mod:`tvmconv.program.nesting` has their form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tvmconv.frontend.convert.writer import RelaxWriter, converts
from tvmconv.frontend.graph import OnnxGraph, OnnxNode
from tvmconv.program.nesting import BODY, ELSE, THEN, form_attribute
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr


def nested_parts(node: OnnxNode) -> Mapping[str, tuple[OnnxGraph, Mapping[str, str]]]:
    """The nested graphs of a node by the ends of their functions' names, with attributes."""
    if node.op == "If":
        return {THEN: (node.attrs["then_branch"], {}), ELSE: (node.attrs["else_branch"], {})}
    if node.op == "Loop":
        return {BODY: (node.attrs["body"], form_attribute(node.attrs["form"]))}
    return {}


def nested_symbol(node: OnnxNode, numbers: Counter[str]) -> str:
    """A symbol for a node that has nested graphs."""
    kind = node.op.lower()
    numbers[kind] += 1
    return f"{kind}_{numbers[kind] - 1}"


@converts("If", attrs="then_branch else_branch")
@converts("Loop", attrs="body form", inputs=0)
def _nested(writer: RelaxWriter, node: OnnxNode) -> list[RelaxExpr]:
    operands = relax.Tuple([writer.value(name) for name in node.inputs if name])
    infos = [writer.graph.types[name] for name in node.outputs]
    types = [relax.TensorType(info.shape, info.dtype) for info in infos]
    result = relax.call_dps_packed(writer.symbols[node.name], operands, types)
    if len(types) == 1:
        return [result]
    bound = writer.emit(result)
    return [relax.TupleGetItem(bound, index) for index in range(len(types))]
