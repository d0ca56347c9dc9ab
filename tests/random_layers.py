"""Random layers of any size and kind, the same ones for a seed in every run."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.strategies import CHANNELS, image_layer
from tvmconv.core.datatypes import DataTypes
from tvmconv.core.epilogue_op import parse_step
from tvmconv.core.workload import Conv2dWorkload

EPILOGUES = (
    "",
    "bias",
    "bias+relu",
    "bias+add+relu",
    "relu+add",
    "bias+clip(-0.5,6)",
    "bias+sigmoid",
    "add+hardswish",
    "leakyrelu(0.25)",
    "bias+tanh",
)
# epilogues of INT8 layers by the use of their sums. None has an approximated function, and slopes
# are powers of two, so that a product before a sum is exact
_INTEGER_EPILOGUES = {
    "s32": ("", "bias"),
    "f32": ("", "bias", "bias+relu", "bias+add", "bias+add+relu", "bias+leakyrelu(0.25)+add"),
    "fixed": ("", "bias", "bias", "bias+add", "bias+quantise+add", "bias+quantise+add+quantise"),
    "u8": (
        "",
        "bias",
        "bias",
        "bias+relu",
        "bias+clip(-0.5,6)",
        "bias+add",
        "bias+quantise",
        "bias+quantise+add",
        "bias+quantise+add+relu",
        "bias+relu+quantise+add",
        "quantise+leakyrelu(0.25)",
        "bias+hardsigmoid(0.25,0.5)",
    ),
}


def random_layers(count: int) -> list[Conv2dWorkload]:
    """Dense, grouped, depthwise and first layers in float32."""
    generator = random.Random(1)
    return [_random_layer(generator) for _ in range(count)]


def random_integer_layer(
    generator: random.Random, multiply_adds: int, data_layout: str = "NCHWc"
) -> Conv2dWorkload:
    """A layer of INT8 data and any weights and output, of at most so many MACs.

    Images, rows and volumes; windows strided, dilated, in uneven padding or wholly in it.
    """
    while True:
        layer = _random_layer(generator)
        if generator.random() < 0.15:
            layer = _as_row(layer)
        elif generator.random() < 0.15:
            layer = _as_volume(layer, generator)
        if layer.macs <= multiply_adds:
            break
    output = generator.choice(("s32", "f32", "u8", "u8", "u8", "u8"))
    weight = generator.choice(("s8", "s8", "s8", "s16"))
    marks = ["fixed"] if output == "u8" and generator.random() < 0.3 else []
    padded = layer.reads_padding and generator.random() < 0.7
    steps = generator.choice(_INTEGER_EPILOGUES["fixed" if marks else output])
    marks += ["zpdata"] * padded
    marks += ["whole"] * (output == "u8" and generator.random() < 0.3)
    return replace(
        layer,
        data_layout=data_layout,
        types=DataTypes.parse([f"u8{weight}s32{output}", *marks]),
        # a zero point is part of the bias
        epilogue=tuple(parse_step(step) for step in (steps or "bias" * padded).split("+") if step),
    )


def _as_row(layer: Conv2dWorkload) -> Conv2dWorkload:
    """Its first row: a 1-D convolution."""
    return replace(
        layer, in_height=1, kernel_h=1, stride_h=1, dilation_h=1, pad_top=0, pad_bottom=0
    )


def _as_volume(layer: Conv2dWorkload, generator: random.Random) -> Conv2dWorkload:
    """Planes of a depth with any window; a whole window may be in the padding."""
    kernel, dilation = generator.randint(1, 3), generator.choice((1, 1, 2))
    span = (kernel - 1) * dilation + 1
    front, back = generator.randint(0, span), generator.randint(0, span)
    return replace(
        layer,
        in_depth=generator.randint(max(1, span - front - back), 5),
        kernel_d=kernel,
        stride_d=generator.choice((1, 1, 2)),
        pad_front=front,
        pad_back=back,
        dilation_d=dilation,
    )


def _random_layer(generator: random.Random) -> Conv2dWorkload:
    pick = generator.choice
    kind = pick(("3x3", "dense", "dense", "grouped", "depthwise", "first"))
    groups = {"grouped": pick((2, 3, 4)), "depthwise": pick(CHANNELS)}.get(kind, 1)
    channels = 1 if kind == "depthwise" else pick((1, 3, 4)) if kind == "first" else pick(CHANNELS)
    outputs = 1 if kind == "depthwise" else pick(CHANNELS)
    small = kind == "3x3"
    kernel = [3 if small else pick((1, 1, 2, 3, 3, 4, 5, 7)) for _ in "hw"]
    dilation = [1 if small else pick((1, 1, 2)) for _ in "hw"]
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = [generator.randrange(s) for s in (*span, *span)]
    least = [max(1, s - pads[i] - pads[i + 2]) for i, s in enumerate(span)]
    size = [generator.randint(low, low + 24) for low in least]
    batch = pick((1, 1, 2))
    stride = [1 if small else pick((1, 1, 2, 3)) for _ in "hw"]
    return image_layer(
        (groups * channels, groups * outputs),
        size,
        kernel,
        stride,
        pads,
        dilation,
        batch=batch,
        groups=groups,
        data_layout="NCHW" if kind == "first" else "NCHWc",
        epilogue=tuple(parse_step(step) for step in pick(EPILOGUES).split("+") if step),
    )
