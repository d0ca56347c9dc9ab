"""ResNet (He et al. 2016, table 1).

The stride of a bottleneck is in its 3x3 convolution, as torchvision has it.
"""

from __future__ import annotations

from onnx import ModelProto

from examples.networks.builder import NetworkBuilder
from examples.networks.features import Feature, Size, scaled

_STAGE_CHANNELS = (64, 128, 256, 512)
_RESIDUAL_GAIN = 0.3


def resnet18(
    *, image: Size = 224, width: float = 1.0, classes: int = 1000, batch: int = 1, seed: int = 0
) -> ModelProto:
    """ResNet-18: 11,689,512 parameters at full size."""
    net = NetworkBuilder("resnet18", seed, batch)
    return _resnet(net, image, width, classes, blocks=(2, 2, 2, 2), bottleneck=False)


def resnet50(
    *, image: Size = 224, width: float = 1.0, classes: int = 1000, batch: int = 1, seed: int = 0
) -> ModelProto:
    """ResNet-50: 25,557,032 parameters at full size."""
    net = NetworkBuilder("resnet50", seed, batch)
    return _resnet(net, image, width, classes, blocks=(3, 4, 6, 3), bottleneck=True)


def resnet18_cifar(
    *, image: Size = 32, width: float = 1.0, classes: int = 10, batch: int = 1, seed: int = 0
) -> ModelProto:
    """ResNet-18 for small images: a 3x3 convolution of stride 1 first, and no pooling there."""
    net = NetworkBuilder("resnet18_cifar", seed, batch)
    return _resnet(
        net, image, width, classes, blocks=(2, 2, 2, 2), bottleneck=False, large_images=False
    )


def _resnet(
    net: NetworkBuilder,
    image: Size,
    width: float,
    classes: int,
    blocks: tuple[int, ...],
    bottleneck: bool,
    large_images: bool = True,
) -> ModelProto:
    x = net.input(3, image)
    kernel, stride = (7, 2) if large_images else (3, 1)
    x = net.conv("conv1", x, scaled(64, width), kernel, stride=stride, pads=kernel // 2, bias=False)
    x = net.relu("relu", net.batch_norm("bn1", x))
    if large_images:
        x = net.pool("MaxPool", "maxpool", x, 3, 2, 1)
    for stage, (channels, count) in enumerate(zip(_STAGE_CHANNELS, blocks, strict=True), start=1):
        for index in range(count):
            stride = 2 if stage > 1 and index == 0 else 1
            name = f"layer{stage}.{index}"
            x = _block(net, name, x, scaled(channels, width), stride, bottleneck)
    x = net.flatten("flatten", net.global_average("avgpool", x))
    net.output(net.linear("fc", x, classes).name, (net.batch, classes))
    return net.finish()


def _block(
    net: NetworkBuilder, name: str, x: Feature, channels: int, stride: int, bottleneck: bool
) -> Feature:
    out_channels = 4 * channels if bottleneck else channels
    # channels, kernel, stride
    if bottleneck:
        convs = [(channels, 1, 1), (channels, 3, stride), (out_channels, 1, 1)]
    else:
        convs = [(channels, 3, stride), (channels, 3, 1)]
    shortcut, y = x, x
    for index, (count, kernel, step) in enumerate(convs, start=1):
        last = index == len(convs)
        y = net.conv(
            f"{name}.conv{index}", y, count, kernel, stride=step, pads=kernel // 2, bias=False
        )
        y = net.batch_norm(f"{name}.bn{index}", y, gain=_RESIDUAL_GAIN if last else 1.0)
        if not last:
            y = net.relu(f"{name}.relu{index}", y)
    if stride != 1 or x.channels != out_channels:
        shortcut = net.conv(f"{name}.downsample.0", x, out_channels, 1, stride=stride, bias=False)
        shortcut = net.batch_norm(f"{name}.downsample.1", shortcut)
    return net.relu(f"{name}.relu", net.add(f"{name}.add", y, shortcut))
