"""A U-Net (Ronneberger et al. 2015, figure 1) with padded convolutions and a dilated bottom."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from examples.networks.builder import NetworkBuilder
from examples.networks.features import Feature, Size, scaled

_LEVELS = (32, 64, 128)


def unet(
    *, image: Size = 128, width: float = 1.0, classes: int = 4, batch: int = 1, seed: int = 0
) -> ModelProto:
    """A three-level U-Net; ``image`` must be a multiple of 8.

    The three upsamplings use the three common forms of ConvTranspose (kernel 2, 3 and 4) and
    the output is a softmax over classes, at full size after a bilinear Resize.
    """
    net = NetworkBuilder("unet", seed, batch)
    x = net.input(3, image)
    skips = []
    for level, channels in enumerate(_LEVELS):
        x = _double(net, f"down{level}", x, scaled(channels, width))
        skips.append(x)
        x = net.pool("AveragePool", f"pool{level}", x, 2, 2)
    x = _double(net, "bottom", x, scaled(256, width), dilation=2)
    # kernel, padding and output padding, each doubling the size
    ups = ((2, 0, 0), (3, 1, 1), (4, 1, 0))
    for level, (kernel, pads, extra) in zip(reversed(range(len(_LEVELS))), ups, strict=True):
        skip = skips[level]
        name = f"up{level}"
        x = net.conv_transpose(
            name, x, skip.channels, kernel, stride=2, pads=pads, output_padding=extra
        )
        x = _double(net, f"{name}.conv", net.concat(f"{name}.concat", [skip, x]), skip.channels)
    logits = net.conv("logits", x, classes, 1)
    sizes = np.array([net.batch, classes, 2 * logits.height, 2 * logits.width])
    net.node(
        "Resize",
        "upscaled",
        [logits.name, "", "", net.constant("upscaled.sizes", sizes)],
        mode="linear",
        coordinate_transformation_mode="half_pixel",
    )
    net.output(net.node("Softmax", "probabilities", ["upscaled"], axis=1), sizes.tolist())
    return net.finish()


def _double(
    net: NetworkBuilder, name: str, x: Feature, channels: int, dilation: int = 1
) -> Feature:
    for index in (1, 2):
        x = net.conv(f"{name}.{index}", x, channels, 3, pads=dilation, dilation=dilation)
        x = net.batch_norm(f"{name}.{index}.bn", x)
        x = net.activation("LeakyRelu", f"{name}.{index}.relu", x, alpha=0.1)
    return x
