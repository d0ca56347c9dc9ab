"""AlexNet in the two-tower form of Krizhevsky et al. 2012, with LRN and groups.

The image has 227 x 227 pixels: the 224 of the paper do not give its 55 x 55 outputs.
"""

from __future__ import annotations

from dataclasses import replace

from onnx import ModelProto

from examples.networks.builder import NetworkBuilder
from examples.networks.features import Feature, Size, scaled

# output channels, kernel, stride, padding, groups, normalized, max-pooled afterwards
_FEATURES = (
    (96, 11, 4, 0, 1, True, True),
    (256, 5, 1, 2, 2, True, True),
    (384, 3, 1, 1, 1, False, False),
    (384, 3, 1, 1, 2, False, False),
    (256, 3, 1, 1, 2, False, True),
)


def alexnet_2012(
    *, image: Size = 227, width: float = 1.0, classes: int = 1000, batch: int = 1, seed: int = 0
) -> ModelProto:
    """AlexNet of 2012: 60,965,224 parameters at full size."""
    net = NetworkBuilder("alexnet_2012", seed, batch)
    x = net.input(3, image)
    for index, layer in enumerate(_FEATURES, start=1):
        channels, kernel, stride, pad, groups, normalized, pooled = layer
        # two groups need an even number of channels
        count = 2 * scaled(channels // 2, width)
        x = net.conv(f"conv{index}", x, count, kernel, stride=stride, pads=pad, groups=groups)
        x = net.relu(f"relu{index}", x)
        if normalized:
            x = _normalized(net, f"norm{index}", x)
        if pooled:
            x = net.pool("MaxPool", f"pool{index}", x, 3, 2)
    x = net.flatten("flatten", x)
    for index in (6, 7):
        x = net.relu(f"relu{index}", net.linear(f"fc{index}", x, scaled(4096, width)))
    net.output(net.linear("fc8", x, classes).name, (batch, classes))
    return net.finish()


def _normalized(net: NetworkBuilder, name: str, x: Feature) -> Feature:
    """Local response normalization with the constants of section 3.3.

    ONNX divides alpha by the window of 5 channels, the paper does not.
    """
    net.node("LRN", name, [x.name], size=5, alpha=5e-4, beta=0.75, bias=2.0)
    return replace(x, name=name)
