"""SqueezeNet 1.1 (Iandola et al. 2016 with the authors' later, cheaper layer list)."""

from __future__ import annotations

from onnx import ModelProto

from examples.networks.builder import NetworkBuilder
from examples.networks.features import Feature, Size, scaled

# squeeze channels, expand channels (of the 1x1 and of the 3x3), max-pooled beforehand
_FIRES = (
    (16, 64, True),
    (16, 64, False),
    (32, 128, True),
    (32, 128, False),
    (48, 192, True),
    (48, 192, False),
    (64, 256, False),
    (64, 256, False),
)


def squeezenet1_1(
    *, image: Size = 224, width: float = 1.0, classes: int = 1000, batch: int = 1, seed: int = 0
) -> ModelProto:
    """SqueezeNet 1.1: 1,235,496 parameters at full size."""
    net = NetworkBuilder("squeezenet1_1", seed, batch)
    x = net.conv("conv1", net.input(3, image), scaled(64, width), 3, stride=2)
    x = net.relu("relu1", x)
    for index, (squeeze, expand, pooled) in enumerate(_FIRES, start=2):
        if pooled:
            x = net.pool("MaxPool", f"pool{index - 1}", x, 3, 2, ceil=True)
        x = _fire(net, f"fire{index}", x, scaled(squeeze, width), scaled(expand, width))
    x = net.relu("relu10", net.conv("conv10", x, classes, 1))
    x = net.flatten("flatten", net.global_average("avgpool", x))
    net.output(x.name, (batch, classes))
    return net.finish()


def _fire(net: NetworkBuilder, name: str, x: Feature, squeeze: int, expand: int) -> Feature:
    x = net.relu(f"{name}.squeeze.relu", net.conv(f"{name}.squeeze", x, squeeze, 1))
    one = net.relu(f"{name}.expand1x1.relu", net.conv(f"{name}.expand1x1", x, expand, 1))
    three = net.conv(f"{name}.expand3x3", x, expand, 3, pads=1)
    return net.concat(f"{name}.concat", [one, net.relu(f"{name}.expand3x3.relu", three)])
