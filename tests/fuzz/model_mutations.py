"""Changes to a model's structure, and to its bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from tvmconv.frontend.nested.subgraphs import subgraphs
from tvmconv.frontend.operators import IMPORTED
from tvmconv.frontend.structure import all_nodes

_OPERATORS = sorted(IMPORTED)
_EXTENTS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 64, -1, -2, 1000, 2**31 - 1, 2**31, 2**40, 2**62)
_INTEGERS = (-(2**63), -(2**31), -3, -2, -1, 0, 1, 2, 3, 4, 7, 100, 2**24, 2**31, 2**63 - 1)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-9, 1e-38, 1e30, 3e38, float("inf"), float("nan"))
_TEXTS = (b"", b"SAME_UPPER", b"VALID", b"linear", b"cubic", b"constant", b"\xff\xfe", b"x" * 300)
_NAMES = ("", "x", "y", "a b", "é", "0", "%s{}", "a/b:0", "main", "n" * 2000, "\n", "\x00", "if")
_TYPES = (1, 1, 1, 6, 7, 9, 10, 11, 2, 3, 8, 16, 0, 99)

Mutation = Callable[[onnx.ModelProto, random.Random], None]


def mutate(
    models: Sequence[onnx.ModelProto],
    generator: random.Random,
    flips: Sequence[int] = (0, 0, 1, 2, 3, 8),
) -> bytes:
    """A changed model of the corpus, as bytes; ``flips`` are choices of how many bytes change."""
    model = onnx.ModelProto()
    model.CopyFrom(generator.choice(models))
    if generator.random() < 0.15:
        _splice(model, generator.choice(models), generator)
    changed = generator.choice(flips)
    for _ in range(generator.choice((1, 1, 2, 3)) if not changed else generator.choice((0, 0, 1))):
        try:
            generator.choice(_MUTATIONS)(model, generator)
        except (ValueError, TypeError, IndexError, KeyError):
            # protobuf takes no such value, or there is nothing to change
            continue
    return _damage(model.SerializeToString(), changed, generator)


def _damage(data: bytes, flips: int, generator: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(flips):
        if not damaged:
            break
        at = generator.randrange(len(damaged))
        kind = generator.random()
        if kind < 0.5:
            damaged[at] ^= 1 << generator.randrange(8)
        elif kind < 0.8:
            damaged[at] = generator.randrange(256)
        elif kind < 0.87:
            del damaged[at : at + generator.choice((1, 1, 2, 8))]
        elif kind < 0.94:
            damaged[at:at] = damaged[at : at + generator.choice((1, 4, 30))]
        elif kind < 0.96:
            del damaged[at:]
    return bytes(damaged)


def _node(model: onnx.ModelProto, generator: random.Random) -> onnx.NodeProto:
    """A node, of a sub-graph perhaps."""
    node = generator.choice(model.graph.node)
    while (graphs := subgraphs(node)) and generator.random() < 0.7:
        nodes = generator.choice(graphs).node
        if not nodes:
            break
        node = generator.choice(nodes)
    return node


def _subgraph(model: onnx.ModelProto, generator: random.Random) -> None:
    """Change the inputs, outputs or nodes of a sub-graph."""
    graphs = [graph for node in all_nodes(model.graph) for graph in subgraphs(node)]
    graph = generator.choice(graphs)
    chosen: Any = generator.choice((graph.input, graph.output, graph.output, graph.node))
    at = generator.randrange(len(chosen))
    kind = generator.random()
    if kind < 0.3:
        del chosen[at]
    elif kind < 0.6:
        chosen.add().CopyFrom(generator.choice(chosen))
    elif chosen is graph.node or kind < 0.7:
        names = [*_values(model), *(name for node in graph.node for name in node.output)]
        graph.output[0].name = generator.choice((*names, *_NAMES))
    else:
        kind_of = chosen[at].type.tensor_type
        kind_of.elem_type = generator.choice(_TYPES)
        for dim in kind_of.shape.dim:
            dim.dim_value = generator.choice(_EXTENTS)


def _values(model: onnx.ModelProto) -> list[str]:
    graph = model.graph
    names = [v.name for v in (*graph.input, *graph.initializer)]
    return names + [name for node in graph.node for name in node.output]


def _attribute(model: onnx.ModelProto, generator: random.Random) -> None:
    node = _node(model, generator)
    if not node.attribute or generator.random() < 0.1:
        names = (
            "axis",
            "axes",
            "pads",
            "strides",
            "group",
            "ceil_mode",
            "alpha",
            "zzz",
            "keepdims",
        )
        value: Any = generator.choice((1, [1, 1], 0.5, "x", generator.choice(_INTEGERS)))
        node.attribute.append(helper.make_attribute(generator.choice(names), value))
        return
    index = generator.randrange(len(node.attribute))
    attribute = node.attribute[index]
    kind = generator.random()
    if kind < 0.12:
        del node.attribute[index]
    elif kind < 0.15:
        attribute.type = generator.choice((1, 2, 3, 4, 5, 6, 7, 8, 0))
    elif attribute.type == AttributeProto.INT:
        attribute.i = _integer(attribute.i, generator)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = generator.choice((*_FLOATS, attribute.f * 2))
    elif attribute.type == AttributeProto.STRING:
        attribute.s = generator.choice(_TEXTS)
    elif attribute.type == AttributeProto.INTS:
        _list(attribute.ints, generator, lambda old: _integer(old, generator))
    elif attribute.type == AttributeProto.FLOATS:
        _list(attribute.floats, generator, lambda old: generator.choice((*_FLOATS, old * 2)))
    elif attribute.type == AttributeProto.TENSOR:
        _tensor_value(attribute.t, generator)


def _integer(old: int, generator: random.Random) -> int:
    if generator.random() < 0.6:
        return max(min(old + generator.choice((-2, -1, 1, 1, 2)), 2**63 - 1), -(2**63))
    return generator.choice(_INTEGERS)


def _list(values: Any, generator: random.Random, change: Callable[[Any], Any]) -> None:
    kind = generator.random()
    if kind < 0.1 or not values:
        values.append(generator.choice((0, 1, 2)))
    elif kind < 0.2:
        del values[generator.randrange(len(values))]
    else:
        at = generator.randrange(len(values))
        values[at] = change(values[at])


def _operator(model: onnx.ModelProto, generator: random.Random) -> None:
    _node(model, generator).op_type = generator.choice((*_OPERATORS, "", "If", "Loop", "Zzz"))


def _delete(model: onnx.ModelProto, generator: random.Random) -> None:
    lists = (model.graph.node, model.graph.initializer, model.graph.input, model.graph.output)
    chosen: Any = generator.choice(lists)
    del chosen[generator.randrange(len(chosen))]


def _duplicate(model: onnx.ModelProto, generator: random.Random) -> None:
    copy = onnx.NodeProto()
    copy.CopyFrom(_node(model, generator))
    if generator.random() < 0.8:
        old = copy.output[0]
        copy.output[0] = f"{old}.again"
        if generator.random() < 0.5:
            copy.input[0] = old
        model.graph.output.append(helper.make_tensor_value_info(copy.output[0], 1, None))
    model.graph.node.append(copy)


def _swap(model: onnx.ModelProto, generator: random.Random) -> None:
    nodes = list(model.graph.node)
    first, second = generator.randrange(len(nodes)), generator.randrange(len(nodes))
    nodes[first], nodes[second] = nodes[second], nodes[first]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _edge(model: onnx.ModelProto, generator: random.Random) -> None:
    node = _node(model, generator)
    kind = generator.random()
    ends = node.output if kind < 0.1 else node.input
    if kind > 0.9:
        ends.append(generator.choice(_values(model)))
    elif kind > 0.8:
        del ends[generator.randrange(len(ends))]
    else:
        ends[generator.randrange(len(ends))] = generator.choice([*_values(model), "", "missing"])


def _initializer(model: onnx.ModelProto, generator: random.Random) -> None:
    _tensor_value(generator.choice(model.graph.initializer), generator)


def _tensor_value(tensor: onnx.TensorProto, generator: random.Random) -> None:
    kind = generator.random()
    if kind < 0.1:
        tensor.data_type = generator.choice(_TYPES)
    elif kind < 0.2:
        _list(tensor.dims, generator, lambda _: generator.choice(_EXTENTS))
    elif kind < 0.25:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", generator.choice(("../x", "w.bin", "/dev/zero", ""))
    elif tensor.data_location != onnx.TensorProto.EXTERNAL:
        try:
            array = numpy_helper.to_array(tensor).copy()
        except (KeyError, TypeError, ValueError):
            return  # an earlier mutation left a type or shape that its bytes do not have
        if kind < 0.4 and array.ndim:
            array = np.moveaxis(array, 0, -1) if kind < 0.3 else array[..., None]
        elif kind < 0.5:
            array = np.concatenate([array.reshape(-1)] * 2)
        elif array.size:
            at = generator.randrange(array.size)
            pool = _FLOATS if array.dtype.kind == "f" else _EXTENTS
            with np.errstate(all="ignore"):
                array.reshape(-1)[at] = np.array(generator.choice(pool)).astype(array.dtype)
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), tensor.name))


def _declared(model: onnx.ModelProto, generator: random.Random) -> None:
    """Shape or type of an input or output."""
    info = generator.choice((*model.graph.input, *model.graph.output))
    declared = info.type.tensor_type
    kind = generator.random()
    if kind < 0.15:
        declared.elem_type = generator.choice(_TYPES)
    elif kind < 0.25:
        declared.ClearField("shape")
    elif kind < 0.4 and declared.shape.dim:
        if generator.random() < 0.5:
            del declared.shape.dim[generator.randrange(len(declared.shape.dim))]
        else:
            declared.shape.dim.add().dim_value = generator.choice((1, 2, 3))
    elif declared.shape.dim:
        dim = generator.choice(declared.shape.dim)
        if generator.random() < 0.1:
            dim.dim_param = generator.choice(_NAMES)
        else:
            dim.dim_value = generator.choice(_EXTENTS)


def _output(model: onnx.ModelProto, generator: random.Random) -> None:
    """Any value as an output: an input, a weight, one that is an output already."""
    name = generator.choice(_values(model))
    code = generator.choice((1, 1, 1, 7))
    model.graph.output.append(helper.make_tensor_value_info(name, code, None))
    if generator.random() < 0.3:
        del model.graph.output[0]


def _version(model: onnx.ModelProto, generator: random.Random) -> None:
    if generator.random() < 0.2:
        model.ir_version = generator.choice((0, 3, 4, 7, 10, 14, 99))
    else:
        model.opset_import[0].version = generator.choice((1, 5, *range(6, 26), 99, -1))


def _name(model: onnx.ModelProto, generator: random.Random) -> None:
    """Rename one value everywhere, or only where it is made."""
    new = generator.choice(_NAMES)
    graph = model.graph
    if generator.random() < 0.3:
        _node(model, generator).name = new
        return
    old = generator.choice(_values(model))
    everywhere = generator.random() < 0.7
    for info in (*graph.input, *graph.initializer, *graph.output):
        if info.name == old and (everywhere or generator.random() < 0.5):
            info.name = new
    for node in graph.node:
        for ends in (node.input, node.output) if everywhere else (node.output,):
            for index, name in enumerate(ends):
                if name == old:
                    ends[index] = new


def _wrap(model: onnx.ModelProto, generator: random.Random) -> None:
    """An operator between a value and its readers."""
    node = _node(model, generator)
    index = generator.randrange(len(node.input))
    name, operator = node.input[index], generator.choice(("Identity", "Identity", *_OPERATORS))
    nodes = list(model.graph.node)
    nodes.insert(nodes.index(node), helper.make_node(operator, [name], [f"{name}.wrapped"]))
    node.input[index] = f"{name}.wrapped"
    nodes[[n.output[:] for n in nodes].index(node.output[:])] = node
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def _splice(model: onnx.ModelProto, other: onnx.ModelProto, generator: random.Random) -> None:
    """Another model's nodes after this one's, its first input replaced by one of our values."""
    ours = [name for node in model.graph.node for name in node.output]
    if not ours or not other.graph.input:
        return
    mapping = {other.graph.input[0].name: generator.choice(ours)}

    def rename(name: str) -> str:
        return mapping.get(name, f"other.{name}") if name else ""

    for source in other.graph.node:
        node = model.graph.node.add()
        node.CopyFrom(source)
        node.input[:] = [rename(name) for name in source.input]
        node.output[:] = [rename(name) for name in source.output]
    for theirs, mine in (
        (other.graph.input[1:], model.graph.input),
        (other.graph.initializer, model.graph.initializer),
        (other.graph.output, model.graph.output),
    ):
        for item in theirs:
            copy = mine.add()
            copy.CopyFrom(item)
            copy.name = rename(item.name)


_MUTATIONS: tuple[Mutation, ...] = (
    *(_attribute,) * 5, _operator, _operator, _delete, _duplicate, _swap, _edge, _edge,
    *(_initializer,) * 4, *(_declared,) * 3, _output, _version, _name, _wrap, _subgraph,
)  # fmt: skip
