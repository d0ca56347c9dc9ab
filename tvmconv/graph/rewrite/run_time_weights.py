"""Convolutions whose weights are computed at run time: vectors of pixels, no packed weights."""

from __future__ import annotations

from tvmconv.graph.ir import Graph, Node, is_plain_conv
from tvmconv.graph.match import workload_of
from tvmconv.machines.record import Machine

# ``nn.conv2d`` with the attribute ``workload``, of a data tensor and an OIHW weight
RUN_TIME_CONV = "tvmconv.run_time_conv2d"


def take_run_time_weights(graph: Graph, machine: Machine) -> None:
    """Mark FP32 convolutions with weights that are computed at run time, in place.

    Machines with scalable vectors have no such kernels.
    """
    if machine.vector.scalable:
        return
    for node in graph.nodes:
        if _is_run_time(node):
            node.attrs = {"workload": workload_of(node, ())}
            node.op, node.call = RUN_TIME_CONV, None


def _is_run_time(node: Node) -> bool:
    if not is_plain_conv(node) or len(node.args) > 2 or node.attrs.get("depth"):
        return False
    maps = all(value.is_float_map for value in (*node.args, node.output))
    return maps and not node.args[1].is_const
