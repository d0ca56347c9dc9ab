"""GoogLeNet (Szegedy et al. 2015, table 1) with batch normalisation, without auxiliary heads.

As in torchvision, the branch that the paper gives 5x5 kernels has 3x3 ones.
"""

from __future__ import annotations

from onnx import ModelProto

from examples.networks.builder import NetworkBuilder
from examples.networks.features import Feature, Size, scaled

# channels: 1x1, 3x3 reduce, 3x3, second 3x3 reduce, second 3x3, pool projection
_INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
# max-pooling kernel (stride 2) in front of a module
_POOLS = {"4a": 3, "5a": 2}


def googlenet(
    *, image: Size = 224, width: float = 1.0, classes: int = 1000, batch: int = 1, seed: int = 0
) -> ModelProto:
    """GoogLeNet: 6,624,904 parameters at full size."""
    net = NetworkBuilder("googlenet", seed, batch)
    x = _basic(net, "conv1", net.input(3, image), scaled(64, width), 7, 2)
    x = net.pool("MaxPool", "maxpool1", x, 3, 2, ceil=True)
    x = _basic(net, "conv2", x, scaled(64, width), 1)
    x = _basic(net, "conv3", x, scaled(192, width), 3)
    x = net.pool("MaxPool", "maxpool2", x, 3, 2, ceil=True)
    for name, channels in _INCEPTIONS.items():
        if name in _POOLS:
            x = net.pool("MaxPool", f"maxpool{name}", x, _POOLS[name], 2, ceil=True)
        x = _inception(net, f"inception{name}", x, [scaled(c, width) for c in channels])
    x = net.flatten("flatten", net.global_average("avgpool", x))
    net.output(net.linear("fc", x, classes).name, (batch, classes))
    return net.finish()


def _basic(
    net: NetworkBuilder, name: str, x: Feature, channels: int, kernel: int, stride: int = 1
) -> Feature:
    x = net.conv(name, x, channels, kernel, stride=stride, pads=kernel // 2, bias=False)
    return net.relu(f"{name}.relu", net.batch_norm(f"{name}.bn", x))


def _inception(net: NetworkBuilder, name: str, x: Feature, channels: list[int]) -> Feature:
    one, reduce3, three, reduce5, five, project = channels
    branches = [
        _basic(net, f"{name}.branch1", x, one, 1),
        _basic(net, f"{name}.branch2.1", _basic(net, f"{name}.branch2.0", x, reduce3, 1), three, 3),
        _basic(net, f"{name}.branch3.1", _basic(net, f"{name}.branch3.0", x, reduce5, 1), five, 3),
    ]
    pooled = net.pool("MaxPool", f"{name}.branch4.0", x, 3, 1, 1, ceil=True)
    branches.append(_basic(net, f"{name}.branch4.1", pooled, project, 1))
    return net.concat(f"{name}.concat", branches)
