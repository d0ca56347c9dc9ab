"""LeNet-5 (LeCun et al. 1998, section II), with plain averages and all connections of C3."""

from __future__ import annotations

from onnx import ModelProto

from examples.networks.builder import NetworkBuilder
from examples.networks.features import Size, scaled


def lenet(
    *, image: Size = 32, width: float = 1.0, classes: int = 10, batch: int = 1, seed: int = 0
) -> ModelProto:
    """LeNet-5: 61,706 parameters at full size."""
    net = NetworkBuilder("lenet", seed, batch)
    x = net.input(1, image)
    for index, channels in ((1, 6), (3, 16)):
        x = net.conv(f"c{index}", x, scaled(channels, width), 5)
        x = net.activation("Tanh", f"tanh{index}", x)
        x = net.pool("AveragePool", f"s{index + 1}", x, 2, 2)
    x = net.flatten("flatten", x)
    for name, features in (("c5", 120), ("f6", 84)):
        x = net.linear(name, x, scaled(features, width))
        x = net.activation("Tanh", f"{name}.tanh", x)
    net.output(net.linear("output", x, classes).name, (batch, classes))
    return net.finish()
