"""The example networks: exact layer lists, and results as onnxruntime computes them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import onnx
import onnxruntime as ort
import pytest

from examples.networks import NETWORKS, parameter_count
from tests.networks.compare import assert_matches_onnxruntime

# trainable values of torchvision's models. MobileNetV1's count is of its authors' Keras model, the
# AlexNet of 2012's of Caffe's model, and LeNet-5's of its layers with all connections.
PARAMETERS = {
    "lenet": 61_706,
    "alexnet": 61_100_840,
    "alexnet_2012": 60_965_224,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "mobilenet_v1": 4_231_976,
    "mobilenet_v2": 3_504_872,
    "squeezenet1_1": 1_235_496,
    "googlenet": 6_624_904,
    "inception_v3": 23_834_568,
    "r3d_18": 33_371_472,
    "r2plus1d_18": 31_505_325,
}
# smallest images on which every pooling still has input, and channel counts that no lane divides
SMALL = {
    "lenet": {},
    "alexnet": {"image": 67, "width": 0.2},
    "alexnet_2012": {"image": 67, "width": 0.2},
    "vgg16": {"image": 32, "width": 0.15},
    "vgg19": {"image": 32, "width": 0.15},
    "resnet18": {"image": (64, 49), "width": 0.3},
    "resnet50": {"image": 64, "width": 0.25},
    "mobilenet_v1": {"image": 64, "width": 0.35},
    "mobilenet_v2": {"image": (64, 96), "width": 0.5},
    "squeezenet1_1": {"image": 65, "width": 0.55},
    "googlenet": {"image": 64, "width": 0.3},
    "inception_v3": {"image": 75, "width": 0.15},
    "text_recognition": {"width": 0.2},
    "detection": {"image": 64, "width": 0.25},
    "unet": {"image": (32, 40), "width": 0.3},
    "r3d_18": {"image": (32, 24), "frames": 5, "width": 0.3},
    "r2plus1d_18": {"image": 32, "frames": 8, "width": 0.3},
    "x3d_s": {"image": 32, "frames": 3, "width": 0.3},
}
# seconds to draw the weights
_LARGE = {"alexnet", "alexnet_2012", "vgg16", "vgg19", "inception_v3", "r3d_18", "r2plus1d_18"}
# test_light.py has relatives of the first four at full size, of which some are slow. resnet18 and
# text_recognition are run with a batch, and the layers of mobilenet_v1 are in mobilenet_v2.
# tests/graph/rewrite/test_volumes.py runs the layers of videos. detection takes ten seconds, and
# the other networks and tests/graph have its operators. alexnet_2012 has the operators of alexnet
_COVERED = {"vgg16", "vgg19", "resnet50", "googlenet", "squeezenet1_1", "resnet18"}
_COVERED |= {"text_recognition", "mobilenet_v1", "r3d_18", "r2plus1d_18", "x3d_s", "detection"}
_COVERED |= {"inception_v3", "alexnet"}


def _names(names: Iterable[str], slow: set[str]) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.slow] * (name in slow)) for name in names]


@pytest.mark.parametrize("name", _names(PARAMETERS, _LARGE))
def test_parameter_counts_are_the_published_ones(name):
    assert parameter_count(NETWORKS[name]()) == PARAMETERS[name]


@pytest.mark.parametrize("name", NETWORKS)
def test_models_are_sound(name):
    model = NETWORKS[name](batch=2, **SMALL[name])
    onnx.checker.check_model(model, full_check=True)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    declared = [
        [dim.dim_value for dim in output.type.tensor_type.shape.dim]
        for output in model.graph.output
    ]
    assert declared == [output.shape for output in session.get_outputs()]


def test_the_seed_fixes_every_weight():
    small = {"image": 32, "width": 0.1}
    same = [NETWORKS["resnet18"](seed=3, **small).SerializeToString() for _ in range(2)]
    assert same[0] == same[1]
    assert same[0] != NETWORKS["resnet18"](seed=4, **small).SerializeToString()


@pytest.mark.parametrize("name", _names(NETWORKS, _COVERED))
def test_small_network_matches_onnxruntime(name):
    assert_matches_onnxruntime(NETWORKS[name](**SMALL[name]))


@pytest.mark.parametrize("name", ["resnet18", "text_recognition"])
def test_batch_of_two_on_the_narrow_instruction_set(name):
    assert_matches_onnxruntime(NETWORKS[name](batch=2, **SMALL[name]), target="x86-64-v3")


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_full_size_network_matches_onnxruntime(name):
    assert_matches_onnxruntime(NETWORKS[name]())


def test_command_line_writes_the_model(tmp_path):
    path = tmp_path / "net.onnx"
    command = [sys.executable, "-m", "examples.networks", "unet", "-o", path, "--image", "16x24"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "parameters" in done.stdout
    shape = onnx.load(path).graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == [1, 3, 16, 24]
