"""Inception-v3 (Szegedy et al. 2016, table 1) as in torchvision, without the auxiliary head."""

from __future__ import annotations

from onnx import ModelProto

from examples.networks.builder import NetworkBuilder
from examples.networks.features import Feature, Size, scaled

# one convolution of a branch: output channels, kernel, and the stride if it is not 1
_Step = tuple[int, Size] | tuple[int, Size, int]
_Branches = dict[str, tuple[_Step, ...]]

# channels of the pooled branch in the three modules of 35x35 pixels
_PROJECTIONS = {"5b": 32, "5c": 64, "5d": 64}
# channels inside the factorized 7x7 branches of the modules of 17x17 pixels
_FACTORIZED = {"6b": 128, "6c": 160, "6d": 160, "6e": 192}


def inception_v3(
    *, image: Size = 299, width: float = 1.0, classes: int = 1000, batch: int = 1, seed: int = 0
) -> ModelProto:
    """Inception-v3: 23,834,568 parameters at full size."""
    net = _Inception(NetworkBuilder("inception_v3", seed, batch), width)
    x = net.steps("stem1", net.net.input(3, image), ((32, 3, 2), (32, 3)), padded=False)
    x = net.steps("stem2", x, ((64, 3),))
    x = net.net.pool("MaxPool", "maxpool1", x, 3, 2)
    x = net.steps("stem3", x, ((80, 1), (192, 3)), padded=False)
    x = net.net.pool("MaxPool", "maxpool2", x, 3, 2)
    for name, projection in _PROJECTIONS.items():
        x = net.module(name, x, _window_of_five(projection))
    x = net.reduction("6a", x, {"3x3": ((384, 3, 2),), "double": ((64, 1), (96, 3), (96, 3, 2))})
    for name, channels in _FACTORIZED.items():
        x = net.module(name, x, _factorized(channels))
    last = ((192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2))
    x = net.reduction("7a", x, {"3x3": ((192, 1), (320, 3, 2)), "7x7": last})
    for name in ("7b", "7c"):
        x = net.expanded(name, x)
    x = net.net.flatten("flatten", net.net.global_average("avgpool", x))
    net.net.output(net.net.linear("fc", x, classes).name, (batch, classes))
    return net.net.finish()


def _window_of_five(projection: int) -> _Branches:
    return {
        "1x1": ((64, 1),),
        "5x5": ((48, 1), (64, 5)),
        "double": ((64, 1), (96, 3), (96, 3)),
        "pool": ((projection, 1),),
    }


def _factorized(channels: int) -> _Branches:
    wide, tall = (channels, (1, 7)), (channels, (7, 1))
    return {
        "1x1": ((192, 1),),
        "7x7": ((channels, 1), wide, (192, (7, 1))),
        "double": ((channels, 1), tall, wide, tall, (192, (1, 7))),
        "pool": ((192, 1),),
    }


class _Inception:
    """Writes convolutions with batch normalization and ReLU, and modules of them."""

    def __init__(self, net: NetworkBuilder, width: float) -> None:
        self.net, self.width = net, width

    def steps(
        self, name: str, x: Feature, steps: tuple[_Step, ...], *, padded: bool = True
    ) -> Feature:
        """Convolutions in a row; steps with a stride have no padding."""
        for index, (channels, kernel, *strides) in enumerate(steps, start=1):
            kh, kw = (kernel, kernel) if isinstance(kernel, int) else kernel
            pads = (kh // 2, kw // 2) if padded and not strides else 0
            stem, stride = f"{name}.{index}", strides[0] if strides else 1
            count = scaled(channels, self.width)
            x = self.net.conv(stem, x, count, kernel, stride=stride, pads=pads, bias=False)
            x = self.net.relu(f"{stem}.relu", self.net.batch_norm(f"{stem}.bn", x))
        return x

    def module(self, name: str, x: Feature, branches: _Branches) -> Feature:
        """Branches that keep the size; the branch ``pool`` reads averages of 3x3 pixels."""
        parts = []
        for branch, steps in branches.items():
            read = self._averaged(name, x) if branch == "pool" else x
            parts.append(self.steps(f"{name}.{branch}", read, steps))
        return self.net.concat(f"{name}.concat", parts)

    def reduction(self, name: str, x: Feature, branches: _Branches) -> Feature:
        """Branches whose last step has stride 2, and max-pooling of the input."""
        parts = [self.steps(f"{name}.{branch}", x, steps) for branch, steps in branches.items()]
        parts.append(self.net.pool("MaxPool", f"{name}.pool", x, 3, 2))
        return self.net.concat(f"{name}.concat", parts)

    def expanded(self, name: str, x: Feature) -> Feature:
        """A module of 8x8 pixels: two branches end in a 1x3 and a 3x1 kernel next to each other."""
        parts = [self.steps(f"{name}.1x1", x, ((320, 1),))]
        for branch, steps in (("3x3", ((384, 1),)), ("double", ((448, 1), (384, 3)))):
            inner = self.steps(f"{name}.{branch}", x, steps)
            parts += [
                self.steps(f"{name}.{branch}.{side}", inner, ((384, kernel),))
                for side, kernel in (("wide", (1, 3)), ("tall", (3, 1)))
            ]
        parts.append(self.steps(f"{name}.pool", self._averaged(name, x), ((192, 1),)))
        return self.net.concat(f"{name}.concat", parts)

    def _averaged(self, name: str, x: Feature) -> Feature:
        return self.net.pool("AveragePool", f"{name}.average", x, 3, 1, 1, count_include_pad=1)
