"""Moves nodes of a model into functions, which may call each other; correct ones and others."""

from __future__ import annotations

import random
from typing import Any

import onnx
from onnx import AttributeProto, helper

from tvmconv.frontend.nested.subgraphs import reads, subgraphs

_DOMAINS = ("local", "pkg.local", "com.microsoft.local")
_REFERABLE = (AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.INTS)


def move_into_functions(model: onnx.ModelProto, generator: random.Random) -> None:
    """Replace runs of nodes by calls, up to three times; the later functions call earlier ones."""
    for index in range(generator.choice((1, 1, 2, 3))):
        nodes = list(model.graph.node)
        start = generator.randrange(len(nodes))
        end = generator.randint(start + 1, len(nodes))
        _move(model, start, end, f"f{index}", generator)


def _move(
    model: onnx.ModelProto, start: int, end: int, name: str, generator: random.Random
) -> None:
    nodes = list(model.graph.node)
    moved = nodes[start:end]
    made = {n for node in moved for n in node.output if n}
    wanted = {n for node in (*nodes[:start], *nodes[end:]) for n in reads(node)}
    wanted |= {info.name for info in model.graph.output}
    given = [n for n in dict.fromkeys(n for node in moved for n in reads(node)) if n not in made]
    results = [n for n in made if n in wanted]
    if not results:
        return
    results.sort()
    domain = generator.choice(_DOMAINS)
    names = {n: n for n in (*given, *made)}
    # a name in a sub-graph may be one of these, or another
    if not any(subgraphs(node) for node in moved) and generator.random() < 0.7:
        names = {n: f"p{i}" for i, n in enumerate(names)}
    body = []
    for node in moved:
        copy = body_node(node, names)
        body.append(copy)
    attributes = _refer(body, generator)
    imports = [*model.opset_import, *(helper.make_opsetid(d, 1) for d in _DOMAINS)]
    function = helper.make_function(
        domain, name, [names[n] for n in given], [names[n] for n in results], body, imports,
        [attribute.name for attribute in attributes],
    )  # fmt: skip
    model.functions.append(function)
    if domain not in {entry.domain for entry in model.opset_import}:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    call = helper.make_node(name, given, results, f"call {name}", domain=domain)
    call.attribute.extend(attributes)
    # where all its operands exist, and before all nodes that read its results
    copies = [body_node(n, {}) for n in (*nodes[:start], call, *nodes[end:])]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def body_node(node: onnx.NodeProto, names: dict[str, str]) -> onnx.NodeProto:
    """A copy with other names of its operands and results."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(n, n) for n in node.input]
    copy.output[:] = [names.get(n, n) for n in node.output]
    return copy


def _refer(body: list[onnx.NodeProto], generator: random.Random) -> list[onnx.AttributeProto]:
    """Make an attribute of a node one of the function; returns the attribute of the call."""
    places = [
        (node, i)
        for node in body
        if not node.domain.endswith("local")
        for i, attribute in enumerate(node.attribute)
        if attribute.type in _REFERABLE
    ]
    if not places or generator.random() < 0.5:
        return []
    node, index = generator.choice(places)
    attribute = onnx.AttributeProto()
    attribute.CopyFrom(node.attribute[index])
    own, attribute.name = attribute.name, "given"
    reference = onnx.AttributeProto(name=own, type=attribute.type, ref_attr_name="given")
    node.attribute[index].CopyFrom(reference)
    return [attribute]


def damage_functions(model: Any, generator: random.Random) -> None:
    """A function that calls itself or a later one, or has other operands, results or versions."""
    function = generator.choice(model.functions)
    other = generator.choice(model.functions)
    kind = generator.randrange(7)
    if kind < 2:
        node = generator.choice(function.node)
        node.op_type, node.domain = other.name, other.domain
    elif kind == 2:
        # a function of constants has no inputs
        names = generator.choice([n for n in (function.input, function.output) if n])
        del names[generator.randrange(len(names))]
    elif kind == 3:
        generator.choice((function.input, function.output)).append(
            generator.choice(("", "more", function.output[0]))
        )
    elif kind == 4:
        generator.choice(function.opset_import).version = generator.choice((0, 1, 7, 28, 99))
    elif kind == 5:
        del function.opset_import[generator.randrange(len(function.opset_import))]
    else:
        model.functions.append(function)
        model.functions[-1].name = generator.choice((function.name, other.name, "Relu", ""))
