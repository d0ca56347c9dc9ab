"""If and Loop as calls that run other functions; :mod:`tvmconv.program.nesting` has their form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

from tvmconv.frontend.convert.writer import RelaxWriter, converts
from tvmconv.frontend.graph import OnnxGraph, OnnxNode
from tvmconv.operators.conditions import copy_if
from tvmconv.operators.vector_loops import LOOPS
from tvmconv.program.collect import CHECK
from tvmconv.program.nesting import BODY, ELSE, THEN, form_attribute
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.op_pattern import OPAQUE
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op


def nested_parts(node: OnnxNode) -> Mapping[str, tuple[OnnxGraph, Mapping[str, str]]]:
    """The nested graphs of a node by the ends of their functions' names, with attributes."""
    if node.op == "If" and "only" not in node.attrs:
        return {THEN: (node.attrs["then_branch"], {}), ELSE: (node.attrs["else_branch"], {})}
    if node.op == "Loop":
        return {BODY: (node.attrs["body"], form_attribute(node.attrs["form"]))}
    return {}


def nested_symbol(node: OnnxNode, numbers: Counter[str]) -> str:
    """A symbol for a node that has nested graphs."""
    kind = node.op.lower()
    numbers[kind] += 1
    return f"{kind}_{numbers[kind] - 1}"


@converts("If", attrs="then_branch else_branch only")
@converts("Loop", attrs="body form", inputs=0)
def _nested(writer: RelaxWriter, node: OnnxNode) -> list[RelaxExpr]:
    if "only" in node.attrs:
        return [_only_branch(writer, node)]
    operands = relax.Tuple([writer.value(name) for name in node.inputs if name])
    infos = [writer.graph.types[name] for name in node.outputs]
    types = [relax.TensorType(info.shape, info.dtype) for info in infos]
    result = relax.call_dps_packed(writer.symbols[node.name], operands, types)
    if len(types) == 1:
        return [result]
    bound = writer.emit(result)
    return [relax.TupleGetItem(bound, index) for index in range(len(types))]


def _only_branch(writer: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """The result of a branch; the call fails if the condition selects the other one."""
    condition, result = node.inputs
    expected = bool(node.attrs["only"])
    shape = writer.shape(result)
    flat = writer.emit(op.reshape(writer.value(result), (prod(shape),)), "result")
    flag = writer.emit(op.reshape(writer.value(condition), (1,)), "condition")
    text = (
        f"node {node.name!r} (If): its condition {condition!r} is {not expected}. Expected "
        f"{expected}, because the other branch cannot run with the model's shapes. Correct the "
        "data that it is computed from, or build the model for other shapes."
    )
    call = writer.builder.call_te(
        lambda data, given: copy_if(data, given, expected),
        flat,
        flag,
        primfunc_name_hint="check_condition",
        primfunc_attrs={CHECK: text, LOOPS: True, "op_pattern": OPAQUE},
    )
    copied = writer.emit(relax.TupleGetItem(writer.emit(call, "check"), 0), "result")
    return op.reshape(copied, shape)
