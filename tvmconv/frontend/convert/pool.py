"""Pooling over windows and over whole planes."""

from __future__ import annotations

from typing import Any

from tvm import relax

from tvmconv.frontend.convert.emitter import Emitter
from tvmconv.frontend.convert.registry import converts
from tvmconv.frontend.graph import Node
from tvmconv.frontend.windows import pool_window

_WINDOW = "auto_pad ceil_mode dilations kernel_shape pads strides"


@converts("MaxPool", attrs=f"{_WINDOW} storage_order")
def max_pool(e: Emitter, node: Node) -> Any:
    """MaxPool with ``ceil_mode`` written out as padding; padded elements never win."""
    if len(node.outputs) > 1 and node.outputs[1] in e.uses:
        raise node.error("its Indices output is read, which is not supported", "remove that use")
    return _pool(e, node, "max", count_padding=False)


@converts("AveragePool", attrs=f"{_WINDOW} count_include_pad")
def average_pool(e: Emitter, node: Node) -> Any:
    """AveragePool; each window divides by the elements it covers inside input and padding.

    ``count_include_pad`` counts the model's padding but not what ``ceil_mode`` adds at the end.
    """
    return _pool(e, node, "avg", count_padding=bool(node.attrs.get("count_include_pad", 0)))


def _pool(e: Emitter, node: Node, kind: str, *, count_padding: bool) -> Any:
    name = node.inputs[0]
    window = pool_window(node, e.shape(name))
    rank = len(window.kernel)
    x = e.value(name)
    kernel, strides, dilations = window.kernel, window.strides, window.dilations
    begin, end, extra = window.begin, window.end, window.extra
    if rank == 1:
        x = e.emit(relax.op.expand_dims(x, 2), "row")
        kernel, strides, dilations = (1, *kernel), (1, *strides), (1, *dilations)
        begin, end, extra = (0, *begin), (0, *end), (0, *extra)
    if count_padding and any(extra) and any(begin + end):
        # two kinds of padding, of which only the first counts: write that one out
        widths = [0, 0, 0, 0]
        for low, high in zip(begin, end, strict=True):
            widths += [low, high]
        x = e.emit(relax.op.nn.pad(x, widths), "pad")
        begin, end, count_padding = (0,) * len(begin), (0,) * len(end), False
    if count_padding and any(extra):
        count_padding = False
    reach = tuple(p + q for p, q in zip(end, extra, strict=True))
    table = {
        ("max", 2): relax.op.nn.max_pool2d,
        ("max", 3): relax.op.nn.max_pool3d,
        ("avg", 2): relax.op.nn.avg_pool2d,
        ("avg", 3): relax.op.nn.avg_pool3d,
    }
    y = e.emit(
        table[kind, len(kernel)](
            x, pool_size=kernel, strides=strides, padding=begin + reach, dilation=dilations,
            ceil_mode=False, count_include_pad=count_padding,
        )
    )  # fmt: skip
    return relax.op.squeeze(y, 2) if rank == 1 else y


@converts("GlobalAveragePool", "GlobalMaxPool")
def global_pool(e: Emitter, node: Node) -> Any:
    """Mean or maximum over all spatial dimensions."""
    axes = list(range(2, len(e.shape(node.inputs[0]))))
    if not axes:
        raise node.error("its input has no spatial dimensions", "correct the model")
    reduce = relax.op.mean if node.op == "GlobalAveragePool" else relax.op.max
    return reduce(e.value(node.inputs[0]), axis=axes, keepdims=True)
