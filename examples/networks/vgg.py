"""VGG (Simonyan and Zisserman 2015, table 1)."""

from __future__ import annotations

from onnx import ModelProto

from examples.networks.builder import NetworkBuilder
from examples.networks.features import Size, scaled

# configuration D: channels of each stage's 3x3 convolutions; a 2x2 max-pooling ends a stage
_VGG16 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def vgg16(
    *, image: Size = 224, width: float = 1.0, classes: int = 1000, batch: int = 1, seed: int = 0
) -> ModelProto:
    """VGG-16: 138,357,544 parameters at full size."""
    net = NetworkBuilder("vgg16", seed, batch)
    x = net.input(3, image)
    for stage, channels in enumerate(_VGG16, start=1):
        for index, count in enumerate(channels, start=1):
            x = net.conv(f"conv{stage}_{index}", x, scaled(count, width), 3, pads=1)
            x = net.relu(f"relu{stage}_{index}", x)
        x = net.pool("MaxPool", f"pool{stage}", x, 2, 2)
    x = net.flatten("flatten", x)
    for index in (6, 7):
        x = net.relu(f"relu{index}", net.linear(f"fc{index}", x, scaled(4096, width)))
    net.output(net.linear("fc8", x, classes).name, (batch, classes))
    return net.finish()
