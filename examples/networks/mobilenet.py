"""MobileNetV1 (Howard et al. 2017, table 1) and MobileNetV2 (Sandler et al. 2018, table 2)."""

from __future__ import annotations

from onnx import ModelProto

from examples.networks.builder import NetworkBuilder
from examples.networks.features import Feature, Size, scaled

# output channels and stride of each depthwise-separable pair
_V1 = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1),) * 5,
    *((1024, 2), (1024, 1)),
)
# expansion factor, output channels, repeats, first stride
_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_RESIDUAL_GAIN = 0.3


def mobilenet_v1(
    *, image: Size = 224, width: float = 1.0, classes: int = 1000, batch: int = 1, seed: int = 0
) -> ModelProto:
    """MobileNetV1: 4,231,976 parameters at full size."""
    net = NetworkBuilder("mobilenet_v1", seed, batch)
    x = _conv_bn_relu(net, "conv1", net.input(3, image), scaled(32, width), 3, 2, six=False)
    for index, (channels, stride) in enumerate(_V1, start=2):
        x = _conv_bn_relu(
            net, f"conv{index}.dw", x, x.channels, 3, stride, six=False, depthwise=True
        )
        x = _conv_bn_relu(net, f"conv{index}.pw", x, scaled(channels, width), 1, 1, six=False)
    x = net.flatten("flatten", net.global_average("avgpool", x))
    net.output(net.linear("fc", x, classes).name, (batch, classes))
    return net.finish()


def mobilenet_v2(
    *, image: Size = 224, width: float = 1.0, classes: int = 1000, batch: int = 1, seed: int = 0
) -> ModelProto:
    """MobileNetV2: 3,504,872 parameters at full size."""
    net = NetworkBuilder("mobilenet_v2", seed, batch)
    x = _conv_bn_relu(net, "features.0", net.input(3, image), _divisible(32 * width), 3, 2)
    index = 1
    for expansion, channels, repeats, first_stride in _V2:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            name = f"features.{index}"
            x = _inverted_residual(net, name, x, _divisible(channels * width), stride, expansion)
            index += 1
    x = _conv_bn_relu(net, f"features.{index}", x, _divisible(1280 * max(1.0, width)), 1, 1)
    x = net.flatten("flatten", net.global_average("avgpool", x))
    net.output(net.linear("classifier", x, classes).name, (batch, classes))
    return net.finish()


def _conv_bn_relu(
    net: NetworkBuilder,
    name: str,
    x: Feature,
    channels: int,
    kernel: int,
    stride: int,
    *,
    six: bool = True,
    depthwise: bool = False,
) -> Feature:
    groups = x.channels if depthwise else 1
    x = net.conv(
        name, x, channels, kernel, stride=stride, pads=kernel // 2, groups=groups, bias=False
    )
    x = net.batch_norm(f"{name}.bn", x)
    return (net.relu6 if six else net.relu)(f"{name}.relu", x)


def _inverted_residual(
    net: NetworkBuilder, name: str, x: Feature, channels: int, stride: int, expansion: int
) -> Feature:
    residual = stride == 1 and x.channels == channels
    y = x
    if expansion != 1:
        y = _conv_bn_relu(net, f"{name}.expand", y, expansion * x.channels, 1, 1)
    y = _conv_bn_relu(net, f"{name}.depthwise", y, y.channels, 3, stride, depthwise=True)
    y = net.conv(f"{name}.project", y, channels, 1, bias=False)
    y = net.batch_norm(f"{name}.project.bn", y, gain=_RESIDUAL_GAIN if residual else 1.0)
    return net.add(f"{name}.add", y, x) if residual else y


def _divisible(channels: float, divisor: int = 8) -> int:
    """The nearest multiple of 8 that is not more than a tenth below, as the paper's authors do."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded
