"""AlexNet in the single-tower form of Krizhevsky 2014 ("One weird trick", section 5)."""

from __future__ import annotations

from onnx import ModelProto

from examples.networks.builder import NetworkBuilder
from examples.networks.features import Size, scaled

# output channels, kernel, stride, padding, max-pooled afterwards
_FEATURES = (
    (64, 11, 4, 2, True),
    (192, 5, 1, 2, True),
    (384, 3, 1, 1, False),
    (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
)


def alexnet(
    *, image: Size = 224, width: float = 1.0, classes: int = 1000, batch: int = 1, seed: int = 0
) -> ModelProto:
    """AlexNet: 61,100,840 parameters at full size."""
    net = NetworkBuilder("alexnet", seed, batch)
    x = net.input(3, image)
    for index, (channels, kernel, stride, pad, pooled) in enumerate(_FEATURES, start=1):
        x = net.conv(f"conv{index}", x, scaled(channels, width), kernel, stride=stride, pads=pad)
        x = net.relu(f"relu{index}", x)
        if pooled:
            x = net.pool("MaxPool", f"pool{index}", x, 3, 2)
    x = net.flatten("flatten", x)
    for index in (6, 7):
        x = net.relu(f"relu{index}", net.linear(f"fc{index}", x, scaled(4096, width)))
    net.output(net.linear("fc8", x, classes).name, (batch, classes))
    return net.finish()
