"""Convolutions and matrix products of onnxruntime's operator set, with scales and activations."""

from __future__ import annotations

from typing import Any

from tvmconv.frontend.composed.activation import ACTIVATIONS, activated
from tvmconv.frontend.composed.parts import Parts, composes
from tvmconv.frontend.operators import MICROSOFT

_CONV = "auto_pad dilations group kernel_shape pads strides"
_FUSED = f"{_CONV} activation activation_params"


@composes(MICROSOFT, "FusedConv", attrs=_FUSED, inputs=2)
def _fused_conv(p: Parts) -> str:
    """A convolution, plus a tensor, then an activation."""
    x, weight, bias, added = (p.node.input(index) for index in range(4))
    y = p.op("Conv", x, weight, bias, main=True, **_conv_attributes(p))
    if added:
        p.expect_shape(added, p.shape(y))
        y = p.op("Add", y, added)
    return _activated(p, y)


@composes(MICROSOFT, "NhwcConv", "NhwcFusedConv", attrs=_FUSED, inputs=2)
def _nhwc_conv(p: Parts) -> str:
    """A convolution of images whose channels are last; weights have ONNX's order."""
    x, weight, bias, added = (p.node.input(index) for index in range(4))
    y = p.op("Conv", channels_first(p, x), weight, bias, main=True, **_conv_attributes(p))
    if added:
        y = p.op("Add", y, channels_first(p, added))
    return channels_last(p, _activated(p, y))


def _conv_attributes(p: Parts) -> dict[str, Any]:
    return {name: p.node.attrs[name] for name in _CONV.split() if name in p.node.attrs}


def _activated(p: Parts, y: str) -> str:
    name = str(p.node.attrs.get("activation", ""))
    values = [float(value) for value in p.node.attrs.get("activation_params", ())]
    keys = ACTIVATIONS.get(name, ())
    if name and len(values) > len(keys):
        raise p.error(f"activation_params={values} are too many for {name}")
    return activated(p, y, name, dict(zip(keys, values, strict=False)))


def channels_first(p: Parts, x: str) -> str:
    """An image or volume with its channels, which are last, after the batch."""
    rank = len(p.expect_rank(x, 3, 4, 5))
    return p.transpose(x, 0, rank - 1, *range(1, rank - 1))


def channels_last(p: Parts, x: str) -> str:
    """The inverse of :func:`channels_first`."""
    rank = len(p.shape(x))
    return p.transpose(x, 0, *range(2, rank), 1)


@composes(
    MICROSOFT, "FusedGemm", inputs=2,
    attrs="alpha beta transA transB activation activation_alpha activation_beta activation_gamma "
    "activation_min activation_max",
)  # fmt: skip
def _fused_gemm(p: Parts) -> str:
    """Gemm, then an activation."""
    attrs = dict(p.node.attrs)
    name = str(attrs.pop("activation", ""))
    values = {
        key.removeprefix("activation_"): float(attrs.pop(key))
        for key in list(attrs)
        if key.startswith("activation_")
    }
    known = {key: value for key, value in values.items() if key in ACTIVATIONS.get(name, ())}
    return activated(p, p.op("Gemm", *p.node.inputs, main=True, **attrs), name, known)


@composes(
    MICROSOFT, "FusedMatMul", "TransposeMatMul", inputs=2,
    attrs="alpha transA transB transBatchA transBatchB",
)  # fmt: skip
def _fused_matmul(p: Parts) -> str:
    """alpha * A' B', where the first axis may follow the axes of the batch."""
    operands = []
    for name, side in zip(p.node.inputs[:2], "AB", strict=True):
        rank, x = len(p.shape(name)), name
        order = list(range(rank))
        if p.flag(f"transBatch{side}"):
            if rank < 3:
                raise p.error(f"transBatch{side}=1 requires 3 axes; {name!r} has {rank}")
            order = [*order[1:-1], 0, order[-1]]
        if p.flag(f"trans{side}"):
            if rank < 2:
                raise p.error(f"trans{side}=1 requires 2 axes; {name!r} has {rank}")
            order = [*order[:-2], order[-1], order[-2]]
        operands.append(p.transpose(x, *order))
    alpha = float(p.node.attrs.get("alpha", 1.0))
    return p.scaled(p.op("MatMul", *operands, main=True), alpha)
