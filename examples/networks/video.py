"""Networks on clips of video, whose convolutions run over time as well.

R3D-18 and R(2+1)D-18 (Tran et al. 2018, "A Closer Look at Spatiotemporal Convolutions for Action
Recognition", table 1, as torchvision has them), and X3D-S (Feichtenhofer 2020, "X3D: Expanding
Architectures for Efficient Video Recognition", table 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from onnx import ModelProto, TensorProto, helper

from examples.networks.builder import NetworkBuilder
from examples.networks.features import Feature, Size, pair, scaled

Triple = tuple[int, int, int]
_STAGE_CHANNELS = (64, 128, 256, 512)
_RESIDUAL_GAIN = 0.3


@dataclass(frozen=True)
class Clip(Feature):
    """An activation in NCDHW; ``frames`` is D."""

    frames: int = 1


class ClipBuilder(NetworkBuilder):
    """A :class:`NetworkBuilder` with convolutions in three dimensions."""

    def clip(self, channels: int, frames: int, image: Size, name: str = "input") -> Clip:
        """A graph input of shape (batch, channels, frames, height, width)."""
        height, width = pair(image)
        shape = [self.batch, channels, frames, height, width]
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return Clip(name, channels, height, width, frames=frames)

    def conv3d(
        self,
        name: str,
        x: Clip,
        channels: int,
        kernel: Triple,
        stride: Triple = (1, 1, 1),
        groups: int = 1,
        bias: bool = False,
    ) -> Clip:
        """A convolution padded by half its kernel."""
        shape = (channels, x.channels // groups, *kernel)
        inputs = [x.name, self._weight(name, shape, shape[1] * _product(kernel), x.rectified)]
        if bias:
            inputs.append(self._bias(name, channels))
        half = [size // 2 for size in kernel]
        attrs: dict[str, Any] = {
            "kernel_shape": list(kernel),
            "strides": list(stride),
            "pads": half * 2,
            "group": groups,
        }
        self.node("Conv", name, inputs, **attrs)
        before = (x.frames, x.height, x.width)
        steps = zip(before, half, kernel, stride, strict=True)
        frames, height, width = ((n + 2 * p - k) // s + 1 for n, p, k, s in steps)
        return Clip(name, channels, height, width, frames=frames)


def r3d_18(**options: Any) -> ModelProto:
    """R3D-18, every convolution 3x3x3: 33,371,472 parameters; options as of :func:`_resnet`."""

    def stem(net: ClipBuilder, x: Clip, width: float) -> Clip:
        x = net.conv3d("stem.0", x, scaled(64, width), (3, 7, 7), (1, 2, 2))
        return net.relu("stem.2", net.batch_norm("stem.1", x))

    return _resnet("r3d_18", stem, factorised=False, **options)


def r2plus1d_18(**options: Any) -> ModelProto:
    """R(2+1)D-18, 1x3x3 and then 3x1x1 convolutions: 31,505,325 parameters; options as above."""

    def stem(net: ClipBuilder, x: Clip, width: float) -> Clip:
        x = net.conv3d("stem.0", x, scaled(45, width), (1, 7, 7), (1, 2, 2))
        x = net.relu("stem.2", net.batch_norm("stem.1", x))
        x = net.conv3d("stem.3", x, scaled(64, width), (3, 1, 1))
        return net.relu("stem.5", net.batch_norm("stem.4", x))

    return _resnet("r2plus1d_18", stem, factorised=True, **options)


def x3d_s(
    *,
    image: Size = 160,
    frames: int = 13,
    width: float = 1.0,
    classes: int = 400,
    batch: int = 1,
    seed: int = 0,
) -> ModelProto:
    """X3D-S: depthwise 3x3x3 convolutions in inverted bottlenecks, squeeze-and-excitation."""
    net = ClipBuilder("x3d_s", seed, batch)
    x = net.clip(3, frames, image)
    x = net.conv3d("conv1_s", x, scaled(24, width), (1, 3, 3), (1, 2, 2))
    x = net.conv3d("conv1_t", x, x.channels, (5, 1, 1), groups=x.channels)
    x = net.relu("relu", net.batch_norm("bn1", x))
    for stage, (channels, count) in enumerate(((24, 3), (48, 5), (96, 11), (192, 7)), start=2):
        for index in range(count):
            stride = (1, 2, 2) if index == 0 else (1, 1, 1)
            name, squeezed = f"res{stage}.{index}", index % 2 == 0
            x = _x3d_block(net, name, x, scaled(channels, width), stride, squeezed)
    x = net.conv3d("conv5", x, scaled(432, width), (1, 1, 1))
    x = net.relu("relu5", net.batch_norm("bn5", x))
    y = net.flatten("flatten", net.global_average("avgpool", x))
    y = net.relu("fc1.relu", net.linear("fc1", y, scaled(2048, width)))
    net.output(net.linear("fc2", y, classes).name, (net.batch, classes))
    return net.finish()


def _x3d_block(
    net: ClipBuilder, name: str, x: Clip, channels: int, stride: Triple, squeezed: bool
) -> Clip:
    inner = round(2.25 * channels)
    y = net.conv3d(f"{name}.a", x, inner, (1, 1, 1))
    y = net.relu(f"{name}.a.relu", net.batch_norm(f"{name}.a.bn", y))
    y = net.conv3d(f"{name}.b", y, inner, (3, 3, 3), stride, groups=inner)
    y = net.batch_norm(f"{name}.b.bn", y)
    if squeezed:
        gate = net.global_average(f"{name}.se.pool", y)
        gate = net.conv3d(f"{name}.se.fc1", gate, max(8, inner // 16), (1, 1, 1), bias=True)
        gate = net.relu(f"{name}.se.relu", gate)
        gate = net.conv3d(f"{name}.se.fc2", gate, inner, (1, 1, 1), bias=True)
        gate = net.activation("Sigmoid", f"{name}.se.sigmoid", gate)
        net.node("Mul", f"{name}.se", [y.name, gate.name])
        y = Clip(f"{name}.se", inner, y.height, y.width, frames=y.frames)
    y = net.silu(f"{name}.b.silu", y)
    y = net.conv3d(f"{name}.c", y, channels, (1, 1, 1))
    y = net.batch_norm(f"{name}.c.bn", y, gain=_RESIDUAL_GAIN)
    if x.channels != channels or stride != (1, 1, 1):
        x = net.batch_norm(
            f"{name}.skip.bn", net.conv3d(f"{name}.skip", x, channels, (1, 1, 1), stride)
        )
    return net.relu(f"{name}.relu", net.add(f"{name}.add", y, x))


def _resnet(
    name: str,
    stem: Callable[[ClipBuilder, Clip, float], Clip],
    *,
    factorised: bool,
    image: Size = 112,
    frames: int = 16,
    width: float = 1.0,
    classes: int = 400,
    batch: int = 1,
    seed: int = 0,
) -> ModelProto:
    """A residual network of 18 layers; ``width`` scales the channels of the paper's."""
    net = ClipBuilder(name, seed, batch)
    x = stem(net, net.clip(3, frames, image), width)
    for stage, channels in enumerate(_STAGE_CHANNELS, start=1):
        for index in range(2):
            stride = 2 if stage > 1 and index == 0 else 1
            x = _block(net, f"layer{stage}.{index}", x, scaled(channels, width), stride, factorised)
    y = net.flatten("flatten", net.global_average("avgpool", x))
    net.output(net.linear("fc", y, classes).name, (net.batch, classes))
    return net.finish()


def _block(
    net: ClipBuilder, name: str, x: Clip, channels: int, stride: int, factorised: bool
) -> Clip:
    # so many that both forms have as many parameters
    middle = x.channels * channels * 27 // (x.channels * 9 + 3 * channels)
    shortcut, y = x, x
    for index, step in enumerate((stride, 1), start=1):
        conv = f"{name}.conv{index}"
        if factorised:
            y = net.conv3d(f"{conv}.0.0", y, middle, (1, 3, 3), (1, step, step))
            y = net.relu(f"{conv}.0.2", net.batch_norm(f"{conv}.0.1", y))
            y = net.conv3d(f"{conv}.0.3", y, channels, (3, 1, 1), (step, 1, 1))
        else:
            y = net.conv3d(f"{conv}.0", y, channels, (3, 3, 3), (step,) * 3)
        y = net.batch_norm(f"{conv}.1", y, gain=_RESIDUAL_GAIN if index == 2 else 1.0)
        if index == 1:
            y = net.relu(f"{conv}.2", y)
    if stride != 1 or x.channels != channels:
        shortcut = net.conv3d(f"{name}.downsample.0", x, channels, (1, 1, 1), (stride,) * 3)
        shortcut = net.batch_norm(f"{name}.downsample.1", shortcut)
    return net.relu(f"{name}.relu", net.add(f"{name}.add", y, shortcut))


def _product(kernel: Triple) -> int:
    return kernel[0] * kernel[1] * kernel[2]
