"""VGG (Simonyan and Zisserman 2015, table 1)."""

from __future__ import annotations

from onnx import ModelProto

from examples.networks.builder import NetworkBuilder
from examples.networks.features import Size, scaled

# configurations D and E: channels of each stage, and its 3x3 convolutions; 2x2 max-pooling ends it
_VGG16 = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
_VGG19 = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))


def vgg16(
    *, image: Size = 224, width: float = 1.0, classes: int = 1000, batch: int = 1, seed: int = 0
) -> ModelProto:
    """VGG-16: 138,357,544 parameters at full size."""
    return _vgg("vgg16", _VGG16, image, width, classes, batch, seed)


def vgg19(
    *, image: Size = 224, width: float = 1.0, classes: int = 1000, batch: int = 1, seed: int = 0
) -> ModelProto:
    """VGG-19: 143,667,240 parameters at full size."""
    return _vgg("vgg19", _VGG19, image, width, classes, batch, seed)


def _vgg(
    name: str,
    stages: tuple[tuple[int, int], ...],
    image: Size,
    width: float,
    classes: int,
    batch: int,
    seed: int,
) -> ModelProto:
    net = NetworkBuilder(name, seed, batch)
    x = net.input(3, image)
    for stage, (channels, convolutions) in enumerate(stages, start=1):
        for index in range(1, convolutions + 1):
            x = net.conv(f"conv{stage}_{index}", x, scaled(channels, width), 3, pads=1)
            x = net.relu(f"relu{stage}_{index}", x)
        x = net.pool("MaxPool", f"pool{stage}", x, 2, 2)
    x = net.flatten("flatten", x)
    for index in (6, 7):
        x = net.relu(f"relu{index}", net.linear(f"fc{index}", x, scaled(4096, width)))
    net.output(net.linear("fc8", x, classes).name, (batch, classes))
    return net.finish()
