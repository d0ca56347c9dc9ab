"""Well-known convolutional networks as ONNX models with seeded random weights.

Nothing is downloaded: the layer lists are written out here, and a seed fixes every weight.
``examples.networks.NETWORKS["resnet50"]()`` returns a ``ModelProto``; ``image`` and ``width``
make smaller versions for tests.
"""

from __future__ import annotations

from collections.abc import Callable

from onnx import ModelProto

from examples.networks.alexnet import alexnet
from examples.networks.alexnet_2012 import alexnet_2012
from examples.networks.builder import parameter_count
from examples.networks.detection import detection
from examples.networks.googlenet import googlenet
from examples.networks.inception import inception_v3
from examples.networks.lenet import lenet
from examples.networks.mobilenet import mobilenet_v1, mobilenet_v2
from examples.networks.resnet import resnet18, resnet50
from examples.networks.segmentation import unet
from examples.networks.squeezenet import squeezenet1_1
from examples.networks.text_recognition import text_recognition
from examples.networks.vgg import vgg16, vgg19
from examples.networks.video import r2plus1d_18, r3d_18, x3d_s

__all__ = ["NETWORKS", "parameter_count"]

NETWORKS: dict[str, Callable[..., ModelProto]] = {
    "lenet": lenet,
    "alexnet": alexnet,
    "alexnet_2012": alexnet_2012,
    "vgg16": vgg16,
    "vgg19": vgg19,
    "resnet18": resnet18,
    "resnet50": resnet50,
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "squeezenet1_1": squeezenet1_1,
    "googlenet": googlenet,
    "inception_v3": inception_v3,
    "text_recognition": text_recognition,
    "detection": detection,
    "unet": unet,
    "r3d_18": r3d_18,
    "r2plus1d_18": r2plus1d_18,
    "x3d_s": x3d_s,
}
