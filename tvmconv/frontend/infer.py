"""One walk in execution order: check each node, fold it, or infer its output shapes.

Node by node, the shapes of all operands are known. Windows are checked before onnx's inference
runs. Shapes that the graph computes are known as soon as their operands are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import onnx

from tvmconv.core.errors import ModelError
from tvmconv.core.stored_types import numpy_type
from tvmconv.core.tensor import TensorInfo
from tvmconv.core.unexpected import reported
from tvmconv.frontend.activations import check_activations
from tvmconv.frontend.attributes import (
    check_attributes,
    check_list_operands,
    counted_from_start,
    in_ascending_order,
)
from tvmconv.frontend.composed import Composer
from tvmconv.frontend.cut import cut_before
from tvmconv.frontend.expand import in_standard_form
from tvmconv.frontend.external import ExternalData
from tvmconv.frontend.eye import eye, eye_bytes
from tvmconv.frontend.fold import DYNAMIC, Folder, keeps_everything
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.frontend.inference import inferred_outputs
from tvmconv.frontend.limits import MAX_CONSTANT_BYTES
from tvmconv.frontend.nested.control import read_control
from tvmconv.frontend.nested.inline import OuterValues, Shared
from tvmconv.frontend.nested.subgraphs import all_names
from tvmconv.frontend.operators import CONTROL, own_domain
from tvmconv.frontend.quantize_linear import LINEAR, infer_linear, report_wide
from tvmconv.frontend.quantized_lstm import QUANTIZED_LSTM
from tvmconv.frontend.recurrent import RECURRENT
from tvmconv.frontend.refusals import Refusals
from tvmconv.frontend.shapes import RESIZING, known_outputs, with_resized_shape
from tvmconv.frontend.sizes.maker import Maker
from tvmconv.frontend.sizes.propagation import follow, set_outputs
from tvmconv.frontend.sizes.results import read_shape, sized
from tvmconv.frontend.sizes.shapes import unknown_shape, with_lengths
from tvmconv.frontend.structure import check_operator, describe, in_execution_order
from tvmconv.frontend.tensors import (
    constant_value,
    decode_attributes,
    proto_of,
)
from tvmconv.frontend.types import (
    check_input_types,
    check_output_types,
    report_declared_shapes,
)

# operators whose first output may be absent
_ANY_OUTPUT = (*RECURRENT, QUANTIZED_LSTM)


def infer_graph(
    proto: onnx.ModelProto,
    nodes: list[onnx.NodeProto],
    opset: int,
    inputs: tuple[TensorInfo, ...],
    constants: dict[str, Array],
    budgets: tuple[int, int],
    external: ExternalData | None,
    refusals: Refusals,
) -> OnnxGraph:
    """Build the graph of a model whose structure was checked.

    ``nodes`` are in execution order, ``constants`` are the initializers. ``budgets`` are for
    :class:`~tvmconv.frontend.fold.Folder`. ``external`` reads external data of sub-graphs. Raises
    ``ModelError`` if a node is malformed, unknown to ONNX, or has an output whose shape depends on
    data. If ``refusals`` collects such errors, the outputs are the values before these nodes.
    """
    graph = OnnxGraph(proto.graph.name, opset, proto.ir_version, inputs, ())
    for info in inputs:
        graph.types[info.name] = info
        if 0 in info.shape:
            # values that depend on it alone are known
            graph.constants[info.name] = np.zeros(info.shape, numpy_type(info.dtype))
    for name, value in constants.items():
        _set_constant(graph, name, value)
    shared = Shared(_fresh_names(proto.graph), set(), external)
    _Walk(graph, Folder(graph, proto.graph, *budgets), shared, refusals).read(nodes)
    refusals.values.update(name for node in nodes for name in node.output)
    if refusals.found:
        names = cut_before(proto.graph, nodes, refusals.unknown)
        graph.outputs = tuple(graph.types[name] for name in names if name in graph.types)
        return graph
    set_outputs(graph, [output.name for output in proto.graph.output])
    check_output_types(proto.graph, graph.outputs)
    report_declared_shapes(proto.graph, graph)
    check_activations(graph)
    report_wide(graph)
    total = sum(a.nbytes for a in graph.constants.values())
    if total > MAX_CONSTANT_BYTES:
        raise ModelError(
            f"the model's constants take {total} bytes. Expected at most {MAX_CONSTANT_BYTES}, a "
            "safety limit. Split the model."
        )
    return graph


class _Walk:
    """Reads nodes into a graph; sub-graphs have walks of their own."""

    def __init__(
        self, graph: OnnxGraph, folder: Folder, shared: Shared, refusals: Refusals | None = None
    ) -> None:
        self.graph = graph
        self.shared = shared
        self._folder = folder
        self._refusals = refusals or Refusals()

    def read(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Read nodes in execution order."""
        for proto in nodes:
            if self._refusals.hides(proto):
                continue
            try:
                with reported(f"reading {describe(proto)}"):
                    self._read(proto)
            except ModelError as error:
                self._refusals.add_node(proto, error)

    def _read(self, proto: onnx.NodeProto) -> None:
        self.shared.count(proto)
        check_operator(proto)
        proto = _with_every_part(proto, self.shared.fresh)
        if proto.op_type in CONTROL:
            read_control(self, proto)
            return
        self._read_node(_decoded(proto, self.shared.own_name(proto), self.graph.opset), proto)

    def _read_node(self, node: OnnxNode, proto: onnx.NodeProto) -> None:
        domain = own_domain(proto.domain, node.op, node.opset)
        if Composer.knows(domain, node.op):
            _check_inputs(self.graph, node)
            composer = Composer(self.graph, self._folder, self._read_node, node, proto)
            composer.write(domain, self.shared.fresh)
            return
        for part in _in_standard_form(self.graph, node, domain, self.shared.fresh):
            form = proto_of(part, node, proto)
            _visit(self.graph, self._folder, part, form, self.shared.fresh)

    def expect(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Count the reads of nodes that are read in place of another one."""
        self._folder.expect(nodes)

    def keep(self, names: Iterable[str]) -> None:
        """Keep constants of these names, which no node reads."""
        self._folder.keep(names)

    def nested(
        self,
        body: onnx.GraphProto,
        inputs: tuple[TensorInfo, ...],
        constants: Mapping[str, Array],
        outer: OuterValues,
    ) -> OnnxGraph:
        """The graph of a sub-graph that runs as a program of its own."""
        inputs = (*inputs, *outer.inputs)
        graph = OnnxGraph(
            body.name, self.graph.opset, self.graph.ir_version, inputs, (), is_nested=True
        )
        graph.types.update((info.name, info) for info in inputs)
        graph.extents.update(outer.extents)
        for name, value in {**outer.constants, **constants}.items():
            _set_constant(graph, name, value)
        _Walk(graph, self._folder.inner(graph, body), self.shared).read(in_execution_order(body))
        graph.outputs = tuple(graph.types[output.name] for output in body.output)
        check_activations(graph)
        report_wide(graph)
        return graph


def _fresh_names(graph: onnx.GraphProto) -> Callable[[str], str]:
    """A function that makes names that no value of the model has."""
    taken = all_names(graph)
    numbers: dict[str, int] = {}

    def fresh(name: str) -> str:
        unique = name
        while unique in taken:
            # continue after the last number, so that many equal names stay cheap
            count = numbers[name] = numbers.get(name, 0) + 1
            unique = f"{name}_{count}"
        taken.add(unique)
        return unique

    return fresh


def _with_every_part(proto: onnx.NodeProto, fresh: Callable[[str], str]) -> onnx.NodeProto:
    """A Split whose omitted parts have names too: the others' places follow from them."""
    if proto.op_type != "Split" or all(proto.output) or not any(proto.output):
        return proto
    first = next(filter(None, proto.output))
    named = onnx.NodeProto()
    named.CopyFrom(proto)
    named.output[:] = [name or fresh(f"{first}_omitted") for name in proto.output]
    return named


def _decoded(proto: onnx.NodeProto, name: str, opset: int) -> OnnxNode:
    outputs = tuple(proto.output)
    while outputs and not outputs[-1]:
        outputs = outputs[:-1]
    node = OnnxNode(
        name,
        proto.op_type,
        tuple(proto.input),
        outputs,
        decode_attributes(proto, describe(proto)),
        opset,
    )
    named = bool(node.outputs) and (node.op in _ANY_OUTPUT or bool(node.outputs[0]))
    if not named or (node.op != "Constant" and not node.input(0)):
        raise node.error("its first input and output must be named")
    return node


def _in_standard_form(
    graph: OnnxGraph, node: OnnxNode, domain: str, fresh: Callable[[str], str]
) -> list[OnnxNode]:
    if node.op == "Constant":
        return [node]
    _check_inputs(graph, node)
    node = counted_from_start(node, len(graph.shape(node.inputs[0])))
    return in_standard_form(graph, in_ascending_order(node), domain, fresh)


def _visit(
    graph: OnnxGraph,
    folder: Folder,
    node: OnnxNode,
    proto: onnx.NodeProto,
    fresh: Callable[[str], str],
) -> None:
    if node.op == "Constant":
        _set_constant(graph, node.outputs[0], constant_value(node))
        return
    check_input_types(graph, node)
    make = Maker(graph, node, fresh)
    if node.op in ("Shape", "Size") and node.inputs[0] in graph.extents:
        read_shape(make, node)
        return
    if node.op in ("Shape", "Size"):
        shape = graph.shape(node.inputs[0])
        start, end = int(node.attrs.get("start", 0)), node.attrs.get("end", len(shape))
        part = shape[start : int(end)] if node.op == "Shape" else int(np.prod(shape))
        _set_constant(graph, node.outputs[0], np.asarray(part, np.int64))
        folder.release(node)
        return
    check_attributes(node, len(graph.shape(node.inputs[0])))
    if node.op == "EyeLike":
        folder.check_memory(node, eye_bytes(graph, node))
        folder.store(node, node.outputs[0], eye(graph, node))
        folder.release(node)
        return
    # onnx's inference takes no operands of shape (1,)
    if node.op in DYNAMIC and folder.fold(node, proto, None):
        return
    known_shape = with_lengths(make, node)
    if known_shape is None:
        return
    node, proto = known_shape, proto_of(known_shape, node, proto)
    if (own := sized(make, node)) is not None:
        node, made = own
        if all(0 in info.shape for info in made):
            folder.store_nothing(node, made)
        else:
            graph.add_node(node, made)
        return
    operands = {name: graph.constants[name] for name in node.inputs if name in graph.constants}
    is_linear = node.op in LINEAR
    known = infer_linear(graph, node) if is_linear else known_outputs(graph, node, operands)
    check_list_operands(node, len(graph.shape(node.inputs[0])), operands)
    found = inferred_outputs(graph, node, proto, operands) if known is None else known
    if found and node.op in RESIZING:
        found = [with_resized_shape(node, found[0], graph.types[node.inputs[0]], operands)]
    if folder.fold(node, proto, found):
        return
    if found is None:
        raise unknown_shape(make)
    node = follow(make, node, found)
    graph.add_node(node, found)
    if node.op == "Dropout" and len(node.outputs) > 1 and keeps_everything(node, graph.constants):
        _store_mask(graph, folder, node)


def _store_mask(graph: OnnxGraph, folder: Folder, node: OnnxNode) -> None:
    """The mask of a Dropout that drops nothing."""
    mask = graph.types[node.outputs[1]]
    if folder.is_read(mask.name):
        folder.check_memory(node, mask.bytes)
        folder.store(node, mask.name, np.ones(mask.shape, mask.dtype))


def _check_inputs(graph: OnnxGraph, node: OnnxNode) -> None:
    for name in filter(None, node.inputs):
        if name not in graph.types:
            raise node.error(
                f"input {name!r} has no shape that can be inferred",
                "remove the operator that makes it, because shapes must be static",
            )


def _set_constant(graph: OnnxGraph, name: str, value: Array) -> None:
    graph.constants[name] = value
    graph.types[name] = TensorInfo(name, tuple(value.shape), str(value.dtype))
