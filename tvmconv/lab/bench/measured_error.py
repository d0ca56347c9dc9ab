"""The error of every layer's kernel with the model's own weights, against float64."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tvmconv.core.tensor import Shapes
from tvmconv.graph.layout import oihw_weight
from tvmconv.kernels.arguments import Constants
from tvmconv.kernels.kernel import Kernel
from tvmconv.lab.bench.kernel_run import KernelRun, relative_error
from tvmconv.measuring.integers import exact_output, random_integers
from tvmconv.measuring.operands import random_operands
from tvmconv.measuring.reference import convolution

if TYPE_CHECKING:
    import onnx

    from tvmconv.core.decision import Decision
    from tvmconv.graph.ir import Array, Node
    from tvmconv.model import CompiledModel


def measure_errors(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    model: CompiledModel,
    shapes: Shapes | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    fold_budget: int | None = None,
    outputs: Sequence[str] | None = None,
) -> tuple[float, ...]:
    """max|error| / max|reference| of every decision of a model, in their order.

    The kernel of each layer runs by itself, with its epilogue, on normally distributed input and
    residual. Weight and bias are the model's, with batch normalization folded. ``source`` and the
    options are those given to ``build``, because a module has no unpacked weights. ``progress`` is
    called with the stage's name, the finished layers and all layers.
    """
    nodes = _layers(source, model, shapes, fold_budget, outputs)
    errors = []
    for index, (node, decision) in enumerate(zip(nodes, model.decisions, strict=True)):
        if progress:
            progress("measure errors", index, len(nodes))
        errors.append(_layer_error(node, decision, model, index))
    if progress:
        progress("measure errors", len(nodes), len(nodes))
    return tuple(errors)


def _layers(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    model: CompiledModel,
    shapes: Shapes | None,
    fold_budget: int | None,
    outputs: Sequence[str] | None,
) -> list[Node]:
    """The layers with their weights, in the order of the decisions."""
    from tvmconv.graph.match import CONV, DENSE
    from tvmconv.graph.prelude import prepared_model
    from tvmconv.selection.policy import make_policy

    policy = make_policy(requantize=model.manifest.policy.get("requantise", "float"))
    graphs = prepared_model(source, model.machine, policy, shapes, fold_budget, outputs)
    found: list[Node] = []
    for node in (node for graph in graphs for node in graph.nodes):
        # layers by vectors of pixels have no decision
        left = model.decisions[len(found) :]
        if node.op in (CONV, DENSE) and left and node.layer == left[0].layer:
            found.append(node)
    return found


def _layer_error(node: Node, decision: Decision, model: CompiledModel, seed: int) -> float:
    workload, chosen = decision.workload, decision.chosen
    kernel = Kernel(workload, model.machine, chosen.algorithm, chosen.config)
    _, weight, *rest = node.args
    if workload.types.is_integer:
        return _integer_error(kernel, weight.data, rest[0].data, node, model.threads, seed)
    inputs, constants = random_operands(workload, seed)
    flattens = workload.is_matrix and workload.in_channels != weight.dims[0]
    lanes = model.machine.channel_block if flattens else 0
    constants["weight"] = oihw_weight(node, workload, lanes)
    if workload.has("bias"):
        constants["bias"] = rest[0].data.astype(np.float32).reshape(-1)
    run = KernelRun(kernel, inputs, constants, model.threads)
    run()
    return relative_error(run.output(), convolution(workload, inputs, constants))


def _integer_error(
    kernel: Kernel, weight: Array, bias: Array, node: Node, threads: int, seed: int
) -> float:
    """The error on uniformly distributed data, against 64-bit accumulators."""
    operands = random_integers(kernel.workload, seed)
    operands = replace(operands, constants=Constants(weight, bias, **node.attrs["numbers"]))
    inputs = {"data": operands.data}
    if operands.residual is not None:
        inputs["residual"] = operands.residual
    run = KernelRun(kernel, inputs, operands.constants, threads)
    run()
    return relative_error(run.output(), exact_output(kernel.workload, operands))
