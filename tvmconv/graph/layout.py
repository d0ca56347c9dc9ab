"""Chooses the layout of every value and the algorithm of every convolution.

Devices whose channel block is one channel use the plain layout between all operators. On others,
convolutions write the channel-blocked layout. Operators that support blocks use them if their
inputs are blocked: values stay blocked until an operator needs the plain layout or the graph ends.
A value may exist in both layouts. It is converted at most once, before its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tvmconv.core.datatypes import itemsize
from tvmconv.core.decision import Decision
from tvmconv.core.errors import ConfigError
from tvmconv.core.unexpected import reported
from tvmconv.core.workload import MATRIX, Conv2dWorkload
from tvmconv.costs.cpu.reorder import reorder_cycles
from tvmconv.graph.blockable import (
    can_block,
    is_channels_first,
    is_exact,
    is_resized_by_axes,
    moves_channels,
)
from tvmconv.graph.ir import Array, Graph, Node, Value, made_by
from tvmconv.graph.match import BY_FLOAT, CONV, DENSE, IN_FLOAT
from tvmconv.graph.pixels import Around, PixelLayer, by_pixels, interleaving
from tvmconv.graph.rewrite.fold import as_float32
from tvmconv.graph.rewrite.tokens import FIRST, axes_of
from tvmconv.graph.row_norms import STRASSEN, SUMMED, keeping_zeros, summed_nodes, with_reason
from tvmconv.kernels import registry
from tvmconv.kernels.weight_facts import WeightFacts
from tvmconv.machines.device import Device
from tvmconv.machines.record import Machine
from tvmconv.operators.dense import block_flattened_weight
from tvmconv.selection.policy import Policy, check_algorithms, make_policy
from tvmconv.selection.select import candidates, select

# GPU only: with at least so many rows, a fully connected layer runs as a convolution of images of
# one pixel. Its tiles read each weight once for many rows.
_ROWS_OF_TILES = 8
# why a layer has no other algorithm than dense, as a clause
_FLATTENED = "it would add surplus lanes of the image's channel blocks to other values"


@dataclass
class LayoutPlan:
    """Nodes that compute on blocks, and the decision of each convolution.

    Nodes in ``leaving`` read blocks and write the plain layout. Convolutions in ``pixels`` have
    vectors of pixels: they read and write the plain layout, and need no decision. Convolutions in
    ``channels_last`` read (N, H, W, C): ``absorbed`` are the transpositions that are left out.
    Fully connected layers in ``flattened`` read the blocks of an image that a reshape flattens.
    """

    blocked: set[Node] = field(default_factory=set)
    pixels: dict[Node, PixelLayer] = field(default_factory=dict)
    leaving: set[Node] = field(default_factory=set)
    decisions: dict[Node, Decision] = field(default_factory=dict)
    channels_last: set[Node] = field(default_factory=set)
    absorbed: set[Node] = field(default_factory=set)
    flattened: set[Node] = field(default_factory=set)

    def is_interleaved(self, node: Node) -> bool:
        """Whether the kernel of a layer in ``pixels`` also computes this depth-to-space."""
        kind = node.op == "depth_to_space"
        return kind and any(layer.interleave is node for layer in self.pixels.values())


def plan_layouts(
    graph: Graph,
    machine: Device,
    *,
    policy: Policy | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> LayoutPlan:
    """Select layouts and algorithms in one pass over a graph with fused layers.

    ``progress`` is called with the number of decided and of all convolutions. Raises
    ``ConfigError`` if no allowed algorithm computes a layer.
    """
    plan = LayoutPlan()
    in_blocks: set[Value] = set()
    users = graph.users()
    summed = summed_nodes(graph, users)
    decided, total = 0, len(decided_nodes(graph, machine))
    for node in graph.nodes:
        if plan.is_interleaved(node):
            continue
        readers = [user for value in node.outputs for user in users.get(value, ())]
        if node.op == CONV:
            source = node.args[0]
            decided += 1
            with reported(f"choosing an algorithm for {node}"):
                decision = _decide(node, source in in_blocks, machine, policy)
                if node in summed and decision.chosen.algorithm == STRASSEN:
                    decision = _decide(node, source in in_blocks, machine, keeping_zeros(policy))
                    decision = with_reason(decision, SUMMED)
            if progress:
                progress(decided, total)
            if isinstance(machine, Machine):
                join = interleaving(node, readers)
                result = node.output if join is None else join.output
                around = Around.of(
                    result, users, graph, machine.channel_block, is_blocked=source in in_blocks
                )
                if layer := by_pixels(decision, machine, policy, around, join):
                    plan.pixels[node] = layer
                    continue
            if last := _channels_last(node, decision, machine):
                decision = replace(decision, workload=last)
                plan.channels_last.add(node)
            plan.decisions[node] = _explained(decision, node, policy)
            if decision.workload.data_layout == "NCHWc":
                in_blocks.add(source)
            if machine.channel_block == 1:
                continue
        elif (workload := dense_workload(node, machine)) is not None:
            image = flattened_image(node)
            if workload.is_matrix and image is not None and image in in_blocks:
                plan.flattened.add(node)
                taps = prod(image.dims[2:]) * machine.channel_block
                workload = replace(workload, in_channels=machine.blocks(image.dims[1]) * taps)
            with reported(f"choosing an algorithm for {node}"):
                plain = _FLATTENED if node in plan.flattened else ""
                plain = plain or (SUMMED if node in summed else "")
                plan.decisions[node] = _decide_dense(node, workload, machine, policy, plain)
            decided += 1
            if progress:
                progress(decided, total)
            continue
        elif (
            _is_resized_plain(node, readers, machine.channel_block)
            or _is_interleaved_plain(node, users, machine)
            or not (_follows(node, in_blocks) or _becomes_blocks(node, users, machine))
        ):
            continue
        plan.blocked.add(node)
        if _leaves(node, users, machine.channel_block):
            plan.leaving.add(node)
        else:
            in_blocks.update(node.outputs)
    for node in plan.channels_last:
        made, value = node.args[0].producer, node.args[0]
        if plan.channels_last.issuperset(users[value]) and value not in graph.outputs:
            plan.absorbed.add(made)
    return plan


def _channels_last(node: Node, decision: Decision, machine: Device) -> Conv2dWorkload | None:
    """The workload of a first layer that reads (N, H, W, C), in place of a transposed copy.

    Its kernel reads single values of the input, in either order at the same cost.
    """
    source, workload = node.args[0], decision.workload
    made = made_by(source, "permute_dims")
    if workload.data_layout != "NCHW" or made is None or axes_of(made) != FIRST:
        return None
    if source.dims != workload.data_shape or made.args[0].is_const:
        return None
    last = replace(workload, data_layout="NHWC")
    expression = registry.algorithm(decision.chosen.algorithm, machine.kind)
    fits = expression.channels_last and expression.unsupported(last, machine) is None
    return last if fits else None


def decided_nodes(graph: Graph, machine: Device) -> list[Node]:
    """The nodes that get a decision: convolutions and fully connected layers."""
    return [n for n in graph.nodes if n.op == CONV or dense_workload(n, machine) is not None]


def dense_workload(node: Node, machine: Device) -> Conv2dWorkload | None:
    """A fully connected layer, whose rows are images of one pixel; None for other nodes.

    On GPUs it is a convolution, and None if it has few rows.
    """
    if node.op != DENSE:
        return None
    *batch, outputs = node.output.dims
    rows, inputs = prod(batch), node.args[1].dims[0]
    on_cpu = isinstance(machine, Machine)
    if not on_cpu and rows < _ROWS_OF_TILES:
        return None
    layout, epilogue = MATRIX if on_cpu else "NCHW", node.attrs["epilogue"]
    return Conv2dWorkload(rows, inputs, 1, 1, outputs, 1, 1, data_layout=layout, epilogue=epilogue)


def flattened_image(node: Node) -> Value | None:
    """The image whose flattened form a fully connected layer reads, one row for each image."""
    value = node.args[0]
    made = made_by(value, "reshape")
    if made is None or len(node.output.dims) != 2:
        return None
    source: Value = made.args[0]
    image = source.shape is not None and len(source.shape) == 4
    return source if image and source.dims[0] == value.dims[0] else None


def oihw_weight(node: Node, workload: Conv2dWorkload, lanes: int = 0) -> Array:
    """The FP32 weight of a decided node in the shape of its workload.

    Inputs of a layer that reads the blocks of a flattened image, of ``lanes`` channels each, are in
    the order of the blocks.
    """
    weight = as_float32(node.args[1].data)
    if lanes and (image := flattened_image(node)) is not None:
        _, channels, height, width = image.dims
        weight = block_flattened_weight(weight, channels, height, width, lanes)
    return (weight if node.op == CONV else weight.T).reshape(workload.weight_shape)


def _is_resized_plain(node: Node, readers: Sequence[Node], block: int) -> bool:
    """Whether it costs less to convert the operand of a resize than the result.

    Nobody reads the result in blocks, and the result is larger. Blocks that are full are resized
    faster than plain images. A fifth of unused lanes costs more than that.
    """
    if not is_resized_by_axes(node) or any(user.op == CONV or can_block(user) for user in readers):
        return False
    channels = node.output.dims[1]
    padded = -(-channels // block) * block
    return prod(node.output.dims) > prod(node.args[0].dims) and 5 * channels <= 4 * padded


def _is_interleaved_plain(node: Node, users: dict[Value, list[Node]], machine: Device) -> bool:
    """Whether a depth-to-space moves single channels, which costs less in the plain layout."""
    if not isinstance(machine, Machine) or not moves_channels(node, machine.channel_block):
        return False
    return not _leaves(node, users, machine.channel_block)


def _follows(node: Node, in_blocks: set[Value]) -> bool:
    """Whether a node other than a convolution computes on blocks."""
    maps = [value for value in node.inputs if not value.is_const]
    if not can_block(node):
        return False
    if node.op == "permute_dims" and maps and maps[0].dims[2:] == (1, 1):
        # vectors are blocks already, and a transposition moves whole blocks
        return True
    if not any(value in in_blocks for value in maps):
        return False
    # converting a large plain operand costs more than small blocked operands save
    blocked = sum(_bytes(value) for value in maps if value in in_blocks)
    return 2 * blocked >= sum(_bytes(value) for value in maps)


def _becomes_blocks(node: Node, users: dict[Value, list[Node]], machine: Device) -> bool:
    """Whether a transposition from (N, H, W, C) writes blocks, as whole vectors of channels."""
    if not is_channels_first(node, machine.channel_block):
        return False
    return any(user.op == CONV or can_block(user) for user in users.get(node.output, ()))


def _leaves(node: Node, users: dict[Value, list[Node]], block: int) -> bool:
    """Whether a pooled vector or an interleaved image should be written plain right away.

    A vector qualifies if it does not fill its blocks: a full vector is the same in both layouts. An
    image qualifies if it fills less than half of its blocks. Values that convolutions read
    (squeeze-and-excitation) stay blocked.
    """
    if node.op == "depth_to_space":
        if not is_exact(node) or 2 * node.output.dims[1] >= block:
            return False
    elif node.op not in ("mean", "max") or node.output.dims[1] % block == 0:
        return False
    return not any(user.op == CONV or can_block(user) for user in users.get(node.output, ()))


def _bytes(value: Value) -> int:
    return itemsize(value.dtype) * prod(value.dims)


def _explained(decision: Decision, node: Node, policy: Policy | None) -> Decision:
    """The decision with the reasons why a quantized layer uses FP32, or rescales in FP32."""
    reason = decision.reason
    if IN_FLOAT in node.attrs:
        reason += f"; in float32 although quantized: {node.attrs[IN_FLOAT]}"
    fixed = policy is not None and policy.requantize == "fixed"
    if fixed and decision.workload.types.is_integer:
        obstacle = node.attrs.get(BY_FLOAT)
        reason += f"; rescaled by {f'float32: {obstacle}' if obstacle else 'fixed point'}"
    return replace(decision, reason=reason)


def weight_facts(node: Node, workload: Conv2dWorkload, machine: Device) -> WeightFacts:
    """Properties of the constant weights of a decided node."""
    return WeightFacts.of(node.args[1].data, workload, machine)


def _decide_dense(
    node: Node,
    workload: Conv2dWorkload,
    machine: Device,
    policy: Policy | None,
    plain: str,
) -> Decision:
    """Any algorithm within the budgets; name patterns are for convolutions.

    ``algorithms=`` and ``memory_budget`` cannot exclude the plain product. ``plain`` is the reason
    why a layer has no other, or empty.
    """
    if policy is not None or plain:
        policy = policy or make_policy()
        named = tuple(o for o in policy.overrides if o.pattern == node.layer)
        names, memory = check_algorithms(None), policy.memory_budget
        if workload.is_matrix:
            names = ("dense",) if plain else ("dense", *policy.algorithms)
            if memory is not None:
                offers = candidates(workload, machine, "dense")
                memory = max(memory, *(offer.workspace_bytes for offer in offers))
        policy = replace(
            policy, algorithms=names, overrides=named, choose=None, memory_budget=memory
        )
    facts = weight_facts(node, workload, machine)
    decision = select(workload, machine, layer=node.layer, policy=policy, facts=facts)
    if plain:
        decision = with_reason(decision, plain)
    return _explained(decision, node, policy)


def _decide(node: Node, is_blocked: bool, machine: Device, policy: Policy | None) -> Decision:
    """Blocked input, or plain input for a stem if that costs less."""
    workload: Conv2dWorkload = node.attrs["workload"]
    facts = weight_facts(node, workload, machine)
    if not isinstance(machine, Machine):
        plain = replace(workload, data_layout="NCHW")
        return select(plain, machine, layer=node.layer, policy=policy, facts=facts)
    options = [workload]
    if not is_blocked and workload.in_channels < machine.channel_block:
        options.append(replace(workload, data_layout="NCHW"))
    offers: list[tuple[float, Decision]] = []
    problem: ConfigError | None = None
    for option in options:
        try:
            decision = select(option, machine, layer=node.layer, policy=policy, facts=facts)
        except ConfigError as error:
            problem = problem or error
            continue
        source, converted = node.args[0], option is workload and not is_blocked
        extra = reorder_cycles(source.dims, machine, source.dtype) if converted else 0.0
        offers.append((decision.chosen.cycles + extra, decision))
    if not offers:
        assert problem is not None
        raise problem
    return min(offers, key=lambda offer: offer[0])[1]
