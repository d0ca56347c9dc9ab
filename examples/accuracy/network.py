"""The trained network, batch normalisations folded, and its evaluation in any arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, numpy_helper

Floats = npt.NDArray[np.float32]
T = TypeVar("T")
_CHUNK = 100


@dataclass(frozen=True)
class Layer:
    """A convolution, or with a kernel of 1x1 the fully connected layer.

    Parameters
    ----------
    weight, bias
        Shapes (K, C, R, S) and (K,); padding keeps the size, as R // 2 on every side.
    stride
        Of both axes.
    """

    weight: Floats
    bias: Floats
    stride: int

    @property
    def winograd(self) -> bool:
        """Whether the source computes it by Winograd convolution: 3x3 of stride 1."""
        return self.weight.shape[2:] == (3, 3) and self.stride == 1


Layers = Mapping[str, Layer]


def read_layers(model: ModelProto) -> dict[str, Layer]:
    """Layers by the names of their nodes, in the model's order."""
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    norms = {n.input[0]: n for n in model.graph.node if n.op_type == "BatchNormalization"}
    layers = {}
    for node in model.graph.node:
        attributes = {a.name: a for a in node.attribute}
        if node.op_type == "Gemm":
            weight, bias = (values[name] for name in node.input[1:])
            layers[node.name] = Layer(weight[:, :, None, None], bias, 1)
        elif node.op_type == "Conv":
            norm = norms[node.output[0]]
            gain, shift, mean, variance = (values[name].astype(float) for name in norm.input[1:])
            gain = gain / np.sqrt(variance + norm.attribute[0].f)
            layers[node.name] = Layer(
                (values[node.input[1]] * gain[:, None, None, None]).astype(np.float32),
                (shift - gain * mean).astype(np.float32),
                attributes["strides"].ints[0],
            )
    return layers


class Arithmetic(Protocol[T]):
    """How activations, in a form of its own, are computed."""

    def images(self, x: Floats) -> T:
        """What the first layer takes."""

    def convolve(self, name: str, x: T, rectify: bool) -> T:
        """A layer's output."""

    def join(self, name: str, y: T, shortcut: T) -> T:
        """The rectified sum at the end of a block."""

    def logits(self, name: str, x: T) -> Floats:
        """Shape (N, classes): the fully connected layer of the averages over the plane."""


def evaluate(layers: Layers, images: Floats, arithmetic: Arithmetic[Any]) -> Floats:
    """Logits, shape (N, classes), of images of shape (N, 3, 32, 32)."""
    chunks = [images[i : i + _CHUNK] for i in range(0, len(images), _CHUNK)]
    return np.concatenate([_evaluate(layers, chunk, arithmetic) for chunk in chunks])


def _evaluate(layers: Layers, images: Floats, arithmetic: Arithmetic[T]) -> Floats:
    x = arithmetic.convolve("conv1", arithmetic.images(images), rectify=True)
    for block in (f"layer{stage}.{index}" for stage in (1, 2, 3, 4) for index in (0, 1)):
        y = arithmetic.convolve(f"{block}.conv1", x, rectify=True)
        y = arithmetic.convolve(f"{block}.conv2", y, rectify=False)
        downsample = f"{block}.downsample.0"
        shortcut = arithmetic.convolve(downsample, x, rectify=False) if downsample in layers else x
        x = arithmetic.join(f"{block}.add", y, shortcut)
    return arithmetic.logits("fc", x)
