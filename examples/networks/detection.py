"""A one-stage detector: SiLU backbone, spatial pyramid pooling, top-down feature pyramid, heads.

The structure is that of the YOLO family (split-and-concat stages, SPPF, nearest-neighbour
upsampling joined by Concat); the outputs are decoded boxes and class scores.
"""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from examples.networks.builder import NetworkBuilder
from examples.networks.features import Feature, Size, scaled


def detection(
    *, image: Size = 320, width: float = 1.0, classes: int = 20, batch: int = 1, seed: int = 0
) -> ModelProto:
    """A detector with strides 8, 16 and 32; ``image`` must be a multiple of 32.

    Outputs: ``boxes`` (batch, anchors, 4) as left, top, right, bottom in pixels, and ``scores``
    (batch, anchors, classes).
    """
    net = NetworkBuilder("detection", seed, batch)
    c8, c16, c32 = (scaled(c, width) for c in (64, 128, 256))
    x = _conv(net, "stem", net.input(3, image), scaled(32, width), 3, 2)
    x = _conv(net, "down4", x, scaled(32, width), 3, 2)
    p8 = _stage(net, "stage8", _conv(net, "down8", x, c8, 3, 2))
    p16 = _stage(net, "stage16", _conv(net, "down16", p8, c16, 3, 2))
    p32 = _stage(net, "stage32", _conv(net, "down32", p16, c32, 3, 2))
    p32 = _pyramid_pooling(net, "sppf", p32)
    n16 = _conv(net, "top16", _join(net, "join16", _conv(net, "lat32", p32, c16, 1), p16), c16, 3)
    n8 = _conv(net, "top8", _join(net, "join8", _conv(net, "lat16", n16, c8, 1), p8), c8, 3)
    boxes, scores = [], []
    levels = ((8, n8), (16, n16), (32, p32))
    for stride, level in levels:
        box, score = _head(net, f"head{stride}", level, stride, classes)
        boxes.append(box)
        scores.append(score)
    anchors = sum(level.height * level.width for _, level in levels)
    net.output(net.node("Concat", "boxes", boxes, axis=1), (batch, anchors, 4))
    net.output(net.node("Concat", "scores", scores, axis=1), (batch, anchors, classes))
    return net.finish()


def _conv(
    net: NetworkBuilder, name: str, x: Feature, channels: int, kernel: int, stride: int = 1
) -> Feature:
    x = net.conv(name, x, channels, kernel, stride=stride, pads=kernel // 2, bias=False)
    return net.silu(f"{name}.silu", net.batch_norm(f"{name}.bn", x))


def _stage(net: NetworkBuilder, name: str, x: Feature) -> Feature:
    """Half of the channels go through a residual bottleneck, all halves are joined again."""
    half = max(1, x.channels // 2)
    y = _conv(net, f"{name}.in", x, 2 * half, 1)
    sizes = net.constant(f"{name}.split.sizes", np.array([half, half]))
    net.node("Split", f"{name}.split", [y.name, sizes], outputs=2, axis=1)
    left, right = (Feature(f"{name}.split:{i}", half, y.height, y.width, True) for i in (0, 1))
    inner = _conv(net, f"{name}.b", _conv(net, f"{name}.a", right, half, 3), half, 3)
    inner = net.add(f"{name}.add", inner, right)
    joined = net.concat(f"{name}.concat", [left, right, inner])
    return _conv(net, f"{name}.out", joined, x.channels, 1)


def _pyramid_pooling(net: NetworkBuilder, name: str, x: Feature) -> Feature:
    parts = [_conv(net, f"{name}.in", x, max(1, x.channels // 2), 1)]
    for index in range(3):
        parts.append(net.pool("MaxPool", f"{name}.pool{index}", parts[-1], 5, 1, 2))
    return _conv(net, f"{name}.out", net.concat(f"{name}.concat", parts), x.channels, 1)


def _join(net: NetworkBuilder, name: str, x: Feature, skip: Feature) -> Feature:
    scales = net.constant(f"{name}.scales", np.array([1, 1, 2, 2], np.float32))
    net.node(
        "Resize",
        f"{name}.up",
        [x.name, "", scales],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    up = Feature(f"{name}.up", x.channels, 2 * x.height, 2 * x.width, x.rectified)
    return net.concat(name, [up, skip])


def _head(net: NetworkBuilder, name: str, x: Feature, stride: int, classes: int) -> tuple[str, str]:
    """Anchor-free head: distances to the four sides, and sigmoid scores."""
    cells = x.height * x.width
    score = net.conv(f"{name}.cls", _conv(net, f"{name}.cls0", x, x.channels, 3), classes, 1)
    score = net.activation("Sigmoid", f"{name}.sigmoid", score)
    sides = net.relu(f"{name}.sides", net.conv(f"{name}.box", x, 4, 1))
    rows, columns = np.mgrid[: x.height, : x.width] + 0.5
    centres = np.stack([columns, rows]).reshape(1, 2, cells).astype(np.float32)
    centre = net.constant(f"{name}.centres", centres)
    net.node("Reshape", f"{name}.flat", [sides.name, _shape(net, f"{name}.flat", 4, cells)])
    near = _slice(net, f"{name}.near", f"{name}.flat", 0, 2)
    far = _slice(net, f"{name}.far", f"{name}.flat", 2, 4)
    net.node("Sub", f"{name}.low", [centre, near])
    net.node("Add", f"{name}.high", [centre, far])
    net.node("Concat", f"{name}.corners", [f"{name}.low", f"{name}.high"], axis=1)
    pixels = net.constant(f"{name}.stride", np.array(stride, np.float32))
    net.node("Mul", f"{name}.pixels", [f"{name}.corners", pixels])
    flat = net.node(
        "Reshape", f"{name}.cls.flat", [score.name, _shape(net, f"{name}.cls", classes, cells)]
    )
    return (
        net.node("Transpose", f"{name}.boxes", [f"{name}.pixels"], perm=[0, 2, 1]),
        net.node("Transpose", f"{name}.scores", [flat], perm=[0, 2, 1]),
    )


def _shape(net: NetworkBuilder, name: str, channels: int, cells: int) -> str:
    return net.constant(f"{name}.shape", np.array([net.batch, channels, cells]))


def _slice(net: NetworkBuilder, name: str, data: str, start: int, stop: int) -> str:
    bounds = [
        net.constant(f"{name}.{part}", np.array([value]))
        for part, value in (("starts", start), ("ends", stop), ("axes", 1))
    ]
    return net.node("Slice", name, [data, *bounds])
