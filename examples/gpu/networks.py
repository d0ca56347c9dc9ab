"""The networks of the comparison: made from a seed, with batch normalization folded.

Training frameworks fold it in exports. Convolutions with a bias are left, whose constants a machine
without TVM can make.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

from examples.networks import NETWORKS

_NAMES = ("resnet18", "resnet50", "vgg16", "mobilenet_v2")
_SMALL = {"resnet18": 0.25, "mobilenet_v2": 0.25, "vgg16": 0.125}
_SMALL_IMAGE = 32


def write_networks(folder: Path, small: bool) -> list[Path]:
    """The ONNX files of the comparison, 0.7 GB, or ``small`` networks for an emulated GPU."""
    return [_write(name, folder, small) for name in (_SMALL if small else _NAMES)]


def planned(small: bool) -> list[Path]:
    """The paths of :func:`write_networks`, without the folder."""
    return [Path(f"{name}.onnx") for name in (_SMALL if small else _NAMES)]


def _write(name: str, folder: Path, small: bool) -> Path:
    sizes = {"image": _SMALL_IMAGE, "width": _SMALL[name]} if small else {}
    path = folder / f"{name}.onnx"
    onnx.save(folded(NETWORKS[name](**sizes)), path)
    return path


def folded(model: ModelProto) -> ModelProto:
    """A model whose batch normalizations are part of the convolutions before them.

    Each has to follow a convolution without a bias and with one reader.
    """
    graph = model.graph
    values = {tensor.name: tensor for tensor in graph.initializer}
    made = {node.output[0]: node for node in graph.node}
    for node in [node for node in graph.node if node.op_type == "BatchNormalization"]:
        conv = made[node.input[0]]
        assert conv.op_type == "Conv" and len(conv.input) == 2
        scale, shift, mean, variance = (numpy_helper.to_array(values[n]) for n in node.input[1:5])
        factor = scale / np.sqrt(variance + np.float32(node.attribute[0].f))
        weight = numpy_helper.to_array(values[conv.input[1]])
        _set(values[conv.input[1]], weight * factor[:, None, None, None])
        bias = values[node.input[2]]
        _set(bias, shift - mean * factor)
        conv.input.append(bias.name)
        conv.output[0] = node.output[0]
        for gone in (node.input[1], node.input[3], node.input[4]):
            graph.initializer.remove(values.pop(gone))
        graph.node.remove(node)
    return model


def _set(tensor: onnx.TensorProto, value: np.ndarray) -> None:
    tensor.CopyFrom(numpy_helper.from_array(value.astype(np.float32), tensor.name))
