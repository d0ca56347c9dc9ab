"""Reads, prepares and plans a network, up to the selection of its kernels.

Builds, the Relax pass, the tuner and predictions use these functions and see the same layers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvmconv.core.tensor import Shapes
from tvmconv.graph.ir import Graph
from tvmconv.graph.layout import LayoutPlan, decided_nodes, plan_layouts
from tvmconv.graph.match import fuse_layers
from tvmconv.graph.read import read_function
from tvmconv.graph.rewrite.columns import columns_as_rows
from tvmconv.graph.rewrite.interleaved import order_phases
from tvmconv.graph.rewrite.normalize import normalize
from tvmconv.graph.rewrite.run_time_weights import take_run_time_weights
from tvmconv.kernels.compiler_lock import compiler_lock
from tvmconv.machines.device import Device
from tvmconv.machines.record import Machine
from tvmconv.program.nesting import function_names
from tvmconv.selection.agreement import Agreement
from tvmconv.selection.overrides import check_used
from tvmconv.selection.policy import Policy
from tvmconv.tvm_api.types import IRModule

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class PlannedGraph:
    """A normalized graph with fused layers, its layouts and decisions; ``name`` of its function."""

    name: str
    graph: Graph
    plan: LayoutPlan


def prepare(graph: Graph, machine: Device, policy: Policy | None = None) -> None:
    """Normalize a graph and fuse its layers, in place."""
    normalize(graph, machine, policy.requantize if policy is not None else "float")
    fuse_layers(graph)
    if isinstance(machine, Machine):
        order_phases(graph, machine.channel_block)
        columns_as_rows(graph)


def plan_module(
    mod: IRModule,
    machine: Device,
    policy: Policy | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[PlannedGraph]:
    """Plan ``main`` of :func:`tvmconv.frontend.to_relax`, then the functions that it runs.

    Raises ``ConfigError`` if no allowed algorithm computes a layer, or an override names no layer.
    """
    graphs = _prepared(mod, machine, policy)
    if policy is not None:
        layers = [n.layer for graph in graphs.values() for n in decided_nodes(graph, machine)]
        check_used(policy.overrides, layers)
    return [
        PlannedGraph(name, graph, plan_layouts(graph, machine, policy=policy, progress=progress))
        for name, graph in graphs.items()
    ]


def agree(planned: Sequence[PlannedGraph], agreement: Agreement) -> None:
    """Change decisions in place so that they agree with programs for other shapes."""
    plans = [each.plan.decisions for each in planned]
    decisions = {(i, node): each for i, plan in enumerate(plans) for node, each in plan.items()}
    changed = agreement.improved(decisions)
    for (index, node), decision in changed.items():
        plans[index][node] = decision
    agreement.add(changed.values())


@compiler_lock()
def plan_model(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    machine: Device,
    policy: Policy | None = None,
    shapes: Shapes | None = None,
    fold_budget: int | None = None,
    outputs: Sequence[str] | None = None,
) -> list[PlannedGraph]:
    """Plan an ONNX model; further arguments are as in :func:`tvmconv.build`."""
    return plan_module(_imported(model, shapes, fold_budget, outputs), machine, policy)


@compiler_lock()
def prepared_model(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    machine: Device,
    policy: Policy | None = None,
    shapes: Shapes | None = None,
    fold_budget: int | None = None,
    outputs: Sequence[str] | None = None,
) -> list[Graph]:
    """The graphs of an ONNX model before kernels are chosen."""
    module = _imported(model, shapes, fold_budget, outputs)
    return list(_prepared(module, machine, policy).values())


def _imported(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    shapes: Shapes | None,
    fold_budget: int | None,
    outputs: Sequence[str] | None,
) -> IRModule:
    from tvmconv.frontend import read_model, to_relax

    return to_relax(read_model(model, shapes, fold_budget, outputs))


def _prepared(mod: IRModule, machine: Device, policy: Policy | None) -> dict[str, Graph]:
    from tvmconv.frontend.canonical import layer_name

    graphs = {}
    for name in function_names(mod):
        graph = graphs[name] = read_function(mod[name], layer_name)
        prepare(graph, machine, policy)
        if isinstance(machine, Machine):
            take_run_time_weights(graph, machine)
    return graphs
