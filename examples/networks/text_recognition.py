"""A text recogniser's convolutional part, after CRNN (Shi et al. 2015, table 1).

What OCR networks have and classifiers lack: wide, low images; poolings and strides that shrink
height only; asymmetric padding; squeeze-and-excitation gates with HardSigmoid; HardSwish; PRelu;
a 1-D convolution along the text line; LogSoftmax.
"""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from examples.networks.builder import NetworkBuilder
from examples.networks.features import Feature, Size, scaled


def text_recognition(
    *,
    image: Size = (32, 100),
    width: float = 1.0,
    classes: int = 37,
    batch: int = 1,
    seed: int = 0,
) -> ModelProto:
    """A CRNN-like network: grey image of height 32 in, (columns, batch, classes) scores out."""
    net = NetworkBuilder("text_recognition", seed, batch)
    x = net.input(1, image)
    # even kernel widths and one-sided padding, as "same" padding of other frameworks gives
    x = net.conv("conv0", x, scaled(64, width), (3, 4), pads=(1, 1, 1, 2))
    x = net.pool("MaxPool", "pool0", net.relu("relu0", x), 2, 2)
    x = net.conv("conv1", x, scaled(128, width), 3, stride=(2, 1), auto_pad="SAME_UPPER")
    x = _prelu(net, "prelu1", x)
    x = _hard_swish(net, "conv2", x, scaled(256, width))
    x = _gate(net, "gate2", x)
    x = net.relu("relu3", net.conv("conv3", x, scaled(256, width), 3, pads=1))
    x = net.pool("MaxPool", "pool3", x, 2, (2, 1), (0, 1))
    x = _hard_swish(net, "conv4", x, scaled(512, width))
    x = net.activation("LeakyRelu", "relu5", net.conv("conv5", x, scaled(512, width), 3, pads=1))
    x = net.pool("AveragePool", "pool5", x, 2, (2, 1), (0, 1), count_include_pad=0)
    x = net.conv("conv6", x, scaled(512, width), (x.height, 2), bias=False)
    x = net.relu("relu6", net.batch_norm("bn6", x))
    return _sequence_head(net, x, classes)


def _sequence_head(net: NetworkBuilder, x: Feature, classes: int) -> ModelProto:
    channels = x.channels
    line = net.node("Squeeze", "line", [x.name, net.constant("line.axes", np.array([2]))])
    weight = net.random_weight("context", (channels, channels, 3), 3 * channels)
    bias = net.constant("context.bias", np.zeros(channels, np.float32))
    net.node("Conv", "context", [line, weight, bias], kernel_shape=[3], pads=[2, 0])
    net.node("Relu", "context.relu", ["context"])
    net.node("Transpose", "steps", ["context.relu"], perm=[2, 0, 1])
    matrix = net.random_weight("embedding", (channels, classes), channels)
    net.node("MatMul", "embedding", ["steps", matrix])
    bias = net.constant("embedding.bias", np.linspace(-1, 1, classes, dtype=np.float32))
    net.node("Add", "logits", ["embedding", bias])
    scores = net.node("LogSoftmax", "scores", ["logits"], axis=2)
    net.output(scores, (x.width, net.batch, classes))
    return net.finish()


def _hard_swish(net: NetworkBuilder, name: str, x: Feature, channels: int) -> Feature:
    x = net.batch_norm(f"{name}.bn", net.conv(name, x, channels, 3, pads=1, bias=False))
    return net.activation("HardSwish", f"{name}.hardswish", x)


def _prelu(net: NetworkBuilder, name: str, x: Feature) -> Feature:
    slope = np.linspace(0.05, 0.4, x.channels, dtype=np.float32).reshape(-1, 1, 1)
    net.node("PRelu", name, [x.name, net.constant(f"{name}.slope", slope)])
    return Feature(name, x.channels, x.height, x.width, rectified=True)


def _gate(net: NetworkBuilder, name: str, x: Feature) -> Feature:
    """Squeeze-and-excitation (Hu et al. 2018) with the gate of MobileNetV3."""
    y = net.global_average(f"{name}.squeeze", x)
    y = net.relu(f"{name}.relu", net.conv(f"{name}.reduce", y, max(1, x.channels // 4), 1))
    y = net.conv(f"{name}.expand", y, x.channels, 1)
    y = net.activation("HardSigmoid", f"{name}.excite", y, alpha=1 / 6, beta=0.5)
    net.node("Mul", name, [x.name, y.name])
    return Feature(name, x.channels, x.height, x.width, rectified=True)
