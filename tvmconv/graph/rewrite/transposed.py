"""Transposed convolution as a stride-1 convolution followed by depth-to-space.

Output pixel ``y`` of a transposed convolution with stride ``s`` only meets the kernel elements
``t`` with ``t % s == y % s``. So each of the s*s phases of the output is a small ordinary
convolution of the input. All phases together are one convolution with s*s*K outputs, whose result
is interleaved by ``depth_to_space``. This sub-pixel form is from section 2 of "Is the deconvolution
layer the same as a convolutional layer?" (Shi et al. 2016). It does not multiply the zeros of the
zero-insertion form, except for missing kernel elements of the last phase. Volumes have phases along
the depth, too.

A kernel shorter than the stride leaves phases empty. The convolution does not compute them. The
interleaving fills them with zeros.

Padding that is not a multiple of the stride is a crop of the interleaved result. Layers with few
inputs of each output have more taps instead, which cost less than a copy of the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tvmconv.frontend.integers import QuantizedConstant
from tvmconv.frontend.limits import FOLD_BYTES_PER_BYTE, FREE_FOLD_BYTES
from tvmconv.graph.ir import (
    Array,
    Graph,
    Node,
    Value,
    constant,
    make_conv,
    make_node,
    make_volume_conv,
)
from tvmconv.graph.quantized.scales import dequantize_node, known_integers
from tvmconv.graph.rewrite.activations import epilogue_step
from tvmconv.graph.rewrite.affine import channel_affine
from tvmconv.operators.interleave import DepthPhases

# operators, and the layouts of their data and weights
_LAYOUTS = {
    "nn.conv2d_transpose": ("NCHW", "IOHW"),
    "nn.conv3d_transpose": ("NCDHW", "IODHW"),
}


@dataclass(frozen=True)
class _PhaseAxis:
    """One spatial axis: the convolution's taps and padding, and the crop of its result.

    ``places`` has for each phase that is not empty the (tap, kernel element) of its products.
    """

    places: tuple[tuple[tuple[int, int], ...], ...]
    taps: int
    pad_begin: int
    pad_end: int
    steps: int
    crop: int

    @classmethod
    def of(cls, size: int, out: int, kernel: int, stride: int, pad: int, crop: int) -> _PhaseAxis:
        """The axis whose result is cropped by so much, or by whole steps more."""
        # input position of each kernel element, relative to the step
        reads = [
            [((phase + pad - crop - t) // stride, t) for t in range(kernel)
             if (phase + pad - crop - t) % stride == 0]
            for phase in range(stride)
        ]  # fmt: skip
        low, high = (end(place for phase in reads for place, _ in phase) for end in (min, max))
        if low > 0:
            # padding that removes whole input rows becomes a crop
            return cls.of(size, out, kernel, stride, pad, crop + low * stride)
        taps = high - low + 1
        pad_end = max((out + crop - 1) // stride + high - (size - 1), 0)
        steps = size - low + pad_end - taps + 1
        places = tuple(tuple((place - low, t) for place, t in phase) for phase in reads)
        return cls(places, taps, -low, pad_end, steps, crop)


def lower_transposed(graph: Graph, lanes: int) -> None:
    """Rewrite transposed convolutions with a constant or dequantized weight, in place.

    ``nn.conv2d_transpose`` and ``nn.conv3d_transpose`` are rewritten.
    Per-channel arithmetic and activations that follow are moved before the interleaving, where
    they become the convolution's epilogue. The channels of each phase are padded to whole blocks of
    ``lanes`` if that adds less than half of the work. Interleaving then copies whole vectors.
    """
    rewritten: list[Node] = []
    for node in graph.nodes:
        if _is_supported(node) and _packed_bytes(node, lanes) <= _most_bytes(node):
            rewritten += _rewrite(graph, node, lanes)
        else:
            rewritten.append(node)
    graph.nodes = rewritten
    graph.remove_dead()


def _is_supported(node: Node) -> bool:
    return (
        node.op in _LAYOUTS
        and all(value.dtype == "float32" for value in (node.output, node.args[0]))
        and all(value.shape is not None for value in (node.output, node.args[0]))
        and _weight(node) is not None
        and (node.attrs["data_layout"], node.attrs["kernel_layout"]) == _LAYOUTS[node.op]
    )


def _weight(node: Node) -> Array | None:
    """The constant weight, or its integers without their zero point, so that padding is zero."""
    known = known_integers(node.args[1])
    if known is None:
        return node.const(1)
    centered = known.centered()
    narrow = centered.astype(np.int8)
    by_outputs = known.axis == 1 or not known.scale.ndim
    return narrow if by_outputs and np.all(narrow == centered) else None


def _most_bytes(node: Node) -> int:
    """Memory limit of the phases of a weight, which dilation and large strides enlarge."""
    return FREE_FOLD_BYTES + FOLD_BYTES_PER_BYTE * np.asarray(_weight(node)).nbytes


def _packed_bytes(node: Node, lanes: int) -> int:
    """Memory of all phases, with the channels that pad a block."""
    strides, groups = _strides(node), int(node.attrs["groups"])
    spans = _spans(node.args[1].dims[2:], node.attrs["dilation"])
    # there may be one tap more instead of a crop
    taps = prod(-(-span // stride) + 1 for span, stride in zip(spans, strides, strict=True))
    inputs = -(-node.args[1].dims[0] // groups // lanes) * lanes
    outputs = -(-groups * prod(strides) * _phase_channels(node, lanes) // lanes) * lanes
    return 4 * int(taps * inputs * outputs)


def _phase_channels(node: Node, lanes: int) -> int:
    """Channels of a phase, in whole blocks if that adds less than half of the work."""
    groups = int(node.attrs["groups"])
    inner = int(node.output.dims[1]) // groups
    several = groups == 1 and prod(_strides(node)) > 1
    return whole_blocks(inner, lanes) if several else inner


def whole_blocks(channels: int, lanes: int) -> int:
    """Channels padded to whole blocks if that adds less than half of the work."""
    return -(-channels // lanes) * lanes if 2 * channels >= lanes else channels


def _rewrite(graph: Graph, node: Node, lanes: int) -> list[Node]:
    data, weight = node.args[0], np.asarray(_weight(node))
    groups, strides = node.attrs["groups"], _strides(node)
    weight = _dilate(weight, node.attrs["dilation"])
    n, out_channels, *out = node.output.dims
    stride, inner = _phase_channels(node, lanes), out_channels // groups
    axes = _axes(node, weight, stride % lanes > 0, lanes)
    filled = tuple(len(axis.places) for axis in axes)
    phases = prod(filled)
    packed = _phase_weight(weight, groups, stride, axes)
    before: list[Node] = []
    kernel = constant(packed, f"{node.layer}_weight")
    if (known := known_integers(node.args[1])) is not None:
        scale = np.broadcast_to(known.scale, inner)
        scale = _spread(np.tile(scale, groups), phases, stride, inner, 4).reshape(-1)
        # channels that pad a block have no scale
        scale = np.where(scale > 0, scale, 1).astype(np.float32)
        zeros = np.zeros(len(scale), np.int64)
        before = [dequantize_node(QuantizedConstant(packed, scale, zeros, 0))]
        kernel = before[0].output
    steps = [axis.steps for axis in axes]
    shape = (n, packed.shape[0], *steps)
    pads = (*(axis.pad_begin for axis in axes), *(axis.pad_end for axis in axes))
    make = make_conv if len(axes) == 2 else make_volume_conv
    conv = make(data, kernel, shape, node.layer, padding=pads, groups=groups)
    conv.output.name = node.layer
    moved, last = list[Node](), node.output
    if filled == strides:
        moved, last = _hoist(graph, node, conv.output, phases, stride, inner)
    crop = tuple(axis.crop for axis in axes)
    if prod(strides) == 1 and (*crop, *steps) == (*[0] * len(axes), *out):
        graph.replace_value(last, (moved or [conv])[-1].output)
        return [*before, conv, *moved]
    attrs = {"block": strides[-2:], "inner": inner, "stride": stride, "crop": crop[-2:]}
    if filled != strides:
        attrs["filled"] = filled[-2:]
    if len(axes) == 3:
        attrs["depth"] = DepthPhases(steps[0], out[0], strides[0], crop[0], filled[0])
    interleave = make_node(
        "depth_to_space",
        [(moved or [conv])[-1].output],
        node.output.dims,
        layer=f"{node.layer}_interleave",
        attrs=attrs,
    )
    graph.replace_value(last, interleave.output)
    return [*before, conv, *moved, interleave]


def _axes(node: Node, weight: Array, by_elements: bool, lanes: int) -> tuple[_PhaseAxis, ...]:
    """The spatial axes, with more taps instead of a crop where that costs less.

    ``by_elements`` is whether interleaving does not move whole blocks.
    """
    sizes = (node.args[0].dims[2:], node.output.dims[2:], weight.shape[2:], _strides(node))
    # paddings before the end
    axes = list(zip(*sizes, node.attrs["padding"], strict=False))
    cropped = tuple(_PhaseAxis.of(*axis, axis[-1] % axis[-2]) for axis in axes)
    longer = tuple(_PhaseAxis.of(*axis, 0) for axis in axes)
    more = prod(axis.taps for axis in longer) - prod(axis.taps for axis in cropped)
    # a copy that does not move whole blocks takes a cycle for each output, or two FMAs of vectors
    cheap = weight.shape[0] // node.attrs["groups"] * more <= 2 * lanes
    spans = list(zip(weight.shape[2:], _strides(node), strict=True))
    # phases of parts of blocks are interleaved inside of the convolution, which zeros are not
    groups, inner = node.attrs["groups"], weight.shape[1]
    is_filled = all(span >= stride for span, stride in spans)
    if is_filled or (groups > 1 and inner % lanes):
        return longer if by_elements and cheap else cropped
    # each element of a kernel that is shorter than the stride is the phase of its number
    return tuple(
        replace(axis, places=axis.places[:span])
        for axis, (span, _) in zip(cropped, spans, strict=True)
    )


def _dilate(weight: Array, dilation: tuple[int, ...]) -> Array:
    """A dilated kernel with the zeros between its elements."""
    if max(dilation) == 1:
        return weight
    spread = np.zeros((*weight.shape[:2], *_spans(weight.shape[2:], dilation)), weight.dtype)
    every: tuple[Any, ...] = tuple(slice(None, None, step) for step in dilation)
    spread[(..., *every)] = weight
    return spread


def _strides(node: Node) -> tuple[int, ...]:
    """The strides; along an axis of one pixel, the kernel's span replaces the stride."""
    spans = _spans(node.args[1].dims[2:], node.attrs["dilation"])
    sizes = zip(node.args[0].dims[2:], node.attrs["strides"], spans, strict=True)
    return tuple(span if size == 1 else stride for size, stride, span in sizes)


def _spans(kernel: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[int, ...]:
    return tuple((size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True))


def _phase_weight(weight: Array, groups: int, stride: int, axes: tuple[_PhaseAxis, ...]) -> Array:
    """Weight (I, O, ...) -> (O, I, ...) of the stride-1 convolution, outputs (g, phase, o)."""
    in_channels, inner, *kernel = weight.shape
    per_group = in_channels // groups
    grouped = weight.reshape(groups, per_group, inner, *kernel).swapaxes(1, 2)
    phases, taps = ([len(axis.places) for axis in axes], [axis.taps for axis in axes])
    result = np.zeros((groups, *phases, stride, per_group, *taps), weight.dtype)
    every: Any = slice(None)
    for phase in np.ndindex(*phases):
        chosen = (axis.places[part] for axis, part in zip(axes, phase, strict=True))
        for places in product(*chosen):
            tap: tuple[Any, ...] = tuple(place for place, _ in places)
            element: list[Any] = [kernel for _, kernel in places]
            part = grouped[(..., *element)]
            result[(every, *phase, slice(inner), every, *tap)] = part
    return result.reshape(-1, per_group, *taps)


def _hoist(
    graph: Graph, node: Node, value: Value, phases: int, stride: int, inner: int
) -> tuple[list[Node], Value]:
    """Copies of the per-channel steps after a node, applied to the phase channels of ``value``.

    Returns the copies and the value of the original graph that they replace.
    """
    counts, users = graph.use_counts(), graph.users()
    moved: list[Node] = []
    last = node.output
    while counts[last] == 1 and last in users:
        follower = users[last][0]
        affine = channel_affine(follower, last) if len(follower.outputs) == 1 else None
        if affine is not None:
            for op, vector, nothing in (("multiply", affine[0], 1), ("add", affine[1], 0)):
                if np.all(vector == nothing):
                    continue
                rank = len(value.dims)
                spread = constant(_spread(vector, phases, stride, inner, rank), dtype="float32")
                moved.append(make_node(op, [value, spread], value.dims, layer=follower.layer))
                value = moved[-1].output
        elif epilogue_step(follower) is not None and follower.args[0] is last:
            attrs = dict(follower.attrs)
            step = make_node(follower.op, [value], value.dims, layer=follower.layer, attrs=attrs)
            moved.append(step)
            value = step.output
        else:
            break
        last = follower.output
    return moved, last


def _spread(vector: Array, phases: int, stride: int, inner: int, rank: int) -> Array:
    """A vector over K channels -> (1, channels, 1, ...) over the convolution's channels."""
    grouped = np.zeros((len(vector) // inner, phases, stride))
    grouped[:, :, :inner] = vector.reshape(-1, 1, inner)
    return grouped.reshape(1, -1, *[1] * (rank - 2))
