"""Which convolutions have vectors of pixels, not of channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvmconv.core.datatypes import FLOAT32, itemsize
from tvmconv.core.decision import Decision
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.pixel_conv import pixel_cycles
from tvmconv.graph.blockable import can_block
from tvmconv.graph.ir import Node
from tvmconv.graph.match import CONV
from tvmconv.kernels import registry
from tvmconv.machines.record import Machine
from tvmconv.selection.policy import Policy, check_algorithms

# products of a layer by those of its kernel on channel blocks, from where on blocks are a waste
_MOSTLY_ZEROS = 2.0
# share of the rate behind L2 at which a layout change is assumed to run when weighed against a
# kernel: it writes as much as it reads, and no arithmetic hides it
REORDER_SHARE = 0.2


def takes_pixels(
    decision: Decision,
    node: Node,
    machine: Machine,
    policy: Policy | None,
    *,
    is_blocked: bool,
    readers: Sequence[Node],
    is_result: bool,
) -> bool:
    """Whether a layer is faster by vectors of pixels, layout changes included.

    Only layers whose channel blocks would be mostly zeros are: groups that blocks do not divide,
    several outputs of each input channel, few channels. A layer whose algorithm the user restricts
    or names is left alone.

    Parameters
    ----------
    decision
        The algorithm on channel blocks.
    node, machine, policy
        The layer, where it runs, and what may be chosen.
    is_blocked
        Whether the input exists in channel blocks.
    readers, is_result
        What reads the output, and whether the model returns it.
    """
    w, chosen = decision.workload, decision.chosen
    if not _is_possible(w, machine) or not _is_free(node.layer, policy):
        return False
    algorithm = registry.algorithm(chosen.algorithm, machine.kind)
    if algorithm.multiplies(w, machine, chosen.config) < _MOSTLY_ZEROS * w.macs:
        return False
    blocks = chosen.cycles
    if w.data_layout == "NCHWc" and not is_blocked:
        blocks += _moved(w.data_shape, w.in_channels, machine)
    pixels = pixel_cycles(w, machine)
    if is_blocked:
        pixels += _moved(w.data_shape, w.in_channels, machine)
    wants_blocks = any(reader.op == CONV or can_block(reader) for reader in readers)
    wants_plain = is_result or any(not can_block(r) and r.op != CONV for r in readers)
    result = _moved(w.result_shape, w.out_channels, machine)
    blocks += result if wants_plain else 0.0
    pixels += result if wants_blocks else 0.0
    return pixels < blocks


def _is_possible(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Float32 images, on vectors whose length is known."""
    plain = workload.types == FLOAT32 and not workload.is_volume
    return plain and not machine.vector.scalable


def _is_free(layer: str, policy: Policy | None) -> bool:
    """Whether the user leaves the choice of a layer's algorithm open."""
    if policy is None:
        return True
    named = any(override.matches(layer) for override in policy.overrides)
    everything = set(policy.algorithms) >= set(check_algorithms(None))
    return everything and not named and policy.choose is None


def _moved(shape: tuple[int, ...], channels: int, machine: Machine) -> float:
    """Cycles of a layout change: the plain tensor, and the same padded to whole blocks."""
    size = itemsize("float32") * prod(shape)
    moved = size * (1 + machine.blocks(channels) * machine.channel_block / channels)
    return moved / (REORDER_SHARE * machine.rates.behind_l2)
