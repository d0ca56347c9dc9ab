"""Models that must be refused, and the check that they are."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import helper

from tests.frontend.onnx_runner import make_model, noise
from tvmconv.core.errors import ModelError
from tvmconv.frontend import read_model, to_relax


def conv_model(weight: Any = (4, 3, 3, 3), bias: Any = None, **attributes: Any) -> onnx.ModelProto:
    constants = {"w": noise(*weight)}
    inputs = ["x", "w"]
    if bias is not None:
        constants["b"] = noise(*bias)
        inputs.append("b")
    node = helper.make_node("Conv", inputs, ["y"], "conv1", **attributes)
    return make_model([node], {"x": (1, 3, 8, 8)}, ["y"], constants)


def refuse(model: Any, *words: str, **options: Any) -> str:
    """The message of the error that a model must raise; it contains each of ``words``."""
    with pytest.raises(ModelError) as caught:
        to_relax(read_model(model, **options))
    for word in words:
        assert word in str(caught.value)
    return str(caught.value)
