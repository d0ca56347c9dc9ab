"""A planned graph -> Relax bindings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvmconv.core.unexpected import reported
from tvmconv.graph.emit.emitter import Emitter
from tvmconv.graph.emit.layers import emit_conv, emit_dense
from tvmconv.graph.emit.operators import emit_blocked
from tvmconv.graph.emit.pixels import emit_pixel_conv, emit_run_time_conv
from tvmconv.graph.emit.plain import emit_plain
from tvmconv.graph.emit.plain_layers import emit_plain_conv, emit_plain_dense
from tvmconv.graph.ir import Graph, Node
from tvmconv.graph.match import CONV, DENSE
from tvmconv.graph.rewrite.run_time_weights import RUN_TIME_CONV
from tvmconv.tvm_api.types import RelaxExpr


def emit_graph(
    emitter: Emitter,
    graph: Graph,
    inputs: Sequence[RelaxExpr],
    progress: Callable[[int, int], None] | None = None,
) -> list[RelaxExpr]:
    """Emit every node and return the outputs as plain tensors.

    ``progress`` is called with the number of emitted and of all nodes.
    """
    emitter.plain.update(zip(graph.inputs, inputs, strict=True))
    for index, node in enumerate(graph.nodes):
        with reported(f"lowering {node}"):
            _emit(emitter, node)
        if progress:
            progress(index + 1, len(graph.nodes))
    return [emitter.as_plain(value) for value in graph.outputs]


def _emit(emitter: Emitter, node: Node) -> None:
    plain = emitter.lanes == 1
    pixels = emitter.plan.pixels
    if node in pixels:
        emit_pixel_conv(emitter, node, pixels[node])
    elif node.op == RUN_TIME_CONV:
        emit_run_time_conv(emitter, node)
    elif emitter.plan.is_interleaved(node) or node in emitter.plan.absorbed:
        pass  # the layer before or after it includes it
    elif node.op == CONV:
        emit_plain_conv(emitter, node) if plain else emit_conv(emitter, node)
    elif node.op == DENSE:
        emit_plain_dense(emitter, node) if plain else emit_dense(emitter, node)
    elif node in emitter.plan.blocked:
        emit_blocked(emitter, node)
    else:
        emit_plain(emitter, node)
