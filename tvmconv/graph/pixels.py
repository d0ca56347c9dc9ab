"""Selects the convolutions that have vectors of pixels, not of channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

from tvmconv.core.datatypes import FLOAT32
from tvmconv.core.decision import Decision
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.pixel_conv import (
    interleaved_product_cycles,
    outdoes,
    pixel_cycles,
    scattered_cycles,
    tap_product_cycles,
)
from tvmconv.costs.cpu.reorder import reorder_cycles
from tvmconv.graph.blockable import can_block, is_exact, moves_blocks, moves_channels
from tvmconv.graph.ir import Graph, Node, Value
from tvmconv.graph.match import CONV, DENSE
from tvmconv.kernels import registry
from tvmconv.machines.record import Machine
from tvmconv.selection.policy import Policy, check_algorithms
from tvmconv.selection.reasons import millions


@dataclass(frozen=True)
class PixelLayer:
    """A convolution with vectors of pixels, and the reason for reports.

    ``interleave`` is a depth-to-space that the kernel also computes, if any. With
    ``adds_taps``, it is a product of all taps with all pixels, whose sums are then added.
    """

    interleave: Node | None
    reason: str
    adds_taps: bool = False


@dataclass(frozen=True)
class Around:
    """The layouts around a layer: the layout of its input, and the layouts its readers need."""

    is_blocked: bool
    wants_blocks: bool
    wants_plain: bool

    @classmethod
    def of(
        cls,
        result: Value,
        users: Mapping[Value, list[Node]],
        graph: Graph,
        block: int,
        *,
        is_blocked: bool,
    ) -> Around:
        """The layouts around the result of a layer; ``block`` is the channels of a block."""
        readers = users.get(result, [])
        on_blocks = [_reads_blocks(reader, users, block) for reader in readers]
        wants_plain = result in graph.outputs or not all(on_blocks)
        return cls(is_blocked, any(on_blocks), wants_plain)


def _reads_blocks(reader: Node, users: Mapping[Value, list[Node]], block: int) -> bool:
    """Whether a node, or a fully connected layer after its reshape, reads blocks."""
    if reader.op == "reshape":
        return any(user.op == DENSE for user in users.get(reader.output, ()))
    return reader.op == CONV or (can_block(reader) and not moves_channels(reader, block))


def interleaving(node: Node, readers: Sequence[Node]) -> Node | None:
    """The only reader of a layer, if it is a depth-to-space that the kernel can compute."""
    reader = readers[0] if len(readers) == 1 else None
    if reader is None or reader.op != "depth_to_space" or reader.attrs["crop"] != (0, 0):
        return None
    w = node.attrs["workload"]
    if w.is_volume or "depth" in reader.attrs or "filled" in reader.attrs:
        return None
    groups = reader.output.dims[1] // reader.attrs["inner"]
    return reader if w.groups in (1, groups) and not w.has("add") else None


def by_pixels(
    decision: Decision,
    machine: Machine,
    policy: Policy | None,
    around: Around,
    interleave: Node | None,
) -> PixelLayer | None:
    """A layer that is faster with vectors of pixels, layout changes included; None for others.

    Candidates are layers whose channel blocks would hold zeros: groups that blocks do not divide,
    several outputs of each input channel, few channels. So are depthwise transposed convolutions,
    whose phases are neighbors in a block. If no value around a layer is
    blocked, layers with few input channels and transposed convolutions are candidates, too.
    Layers with few outputs are candidates for a product of all taps. Layers
    whose algorithm or memory the user restricts are not. ``decision`` is the algorithm on blocks.
    """
    w, chosen = decision.workload, decision.chosen
    if not _is_possible(w, machine) or not _is_free(decision.layer, policy):
        return None
    algorithm = registry.algorithm(chosen.algorithm, machine.kind)
    block = machine.channel_block
    # one group with more channels than a block leaves no block mostly empty
    zeros = min(w.in_channels, w.out_channels) < block
    zeros &= algorithm.multiplies(w, machine, chosen.config) > w.macs
    if w.groups > 1 and not w.is_depthwise:
        zeros |= any(n // w.groups % block for n in (w.in_channels, w.out_channels))
    alone = not around.is_blocked and not around.wants_blocks
    few = interleave is not None or w.in_channels < block
    scattered = interleave is not None and not moves_blocks(interleave, block)
    fits = not w.is_volume and (zeros or scattered or (alone and few))
    added = inf
    if interleave is None and w.out_channels // w.groups < block and not w.has("add"):
        added = tap_product_cycles(w, machine)
    if not fits and added == inf:
        return None
    interleaved, phases = w, (1, 1)
    shape: tuple[int, ...] = w.result_shape
    blocks = chosen.cycles
    if interleave is not None:
        phases, shape = interleave.attrs["block"], interleave.output.dims
        interleaved = replace(w, out_channels=shape[1] * prod(phases))
        interleaving_cycles = scattered_cycles if scattered else reorder_cycles
        blocks += interleaving_cycles(shape, machine)
    if w.data_layout == "NCHWc" and not around.is_blocked:
        blocks += reorder_cycles(w.data_shape, machine)
    pixels = added
    if fits:
        pixels = min(
            added,
            pixel_cycles(interleaved, machine, phases),
            interleaved_product_cycles(interleaved, machine, phases),
        )
    adds_taps = pixels == added
    if interleave is not None and not is_exact(interleave):
        pixels += reorder_cycles(shape, machine)
    if around.is_blocked:
        pixels += reorder_cycles(w.data_shape, machine)
    blocks += reorder_cycles(shape, machine) if around.wants_plain else 0.0
    pixels += reorder_cycles(shape, machine) if around.wants_blocks else 0.0
    if not outdoes(pixels, blocks, only_taps=not fits):
        return None
    cause = "its neighbors are plain tensors"
    if zeros or scattered:
        cause = "channel blocks would hold " + ("zeros" if zeros else "several phases")
    elif adds_taps:
        cause = "it has few outputs"
    reason = (
        f"vectors of positions, not of channels: {cause}; predicted {millions(pixels)}, "
        f"{chosen.algorithm} {millions(blocks)}, layout changes included"
    )
    return PixelLayer(interleave, reason, adds_taps)


def _is_possible(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether an FP32 image fills a vector of fixed length."""
    w = workload
    wide = w.out_height * w.out_width >= machine.lanes
    return wide and w.types == FLOAT32 and not machine.vector.scalable


def _is_free(layer: str, policy: Policy | None) -> bool:
    """Whether the user leaves the choice of a layer's algorithm open."""
    if policy is None:
        return True
    named = any(override.matches(layer) for override in policy.overrides)
    everything = set(policy.algorithms) >= set(check_algorithms(None))
    return everything and not named and policy.choose is None and policy.memory_budget is None
