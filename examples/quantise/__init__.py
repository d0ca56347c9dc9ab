"""An 8-bit model of a float32 one, by onnxruntime's own static quantiser.

``python -m examples.quantise resnet18.onnx -o resnet18.int8.onnx`` is the command;
:func:`quantise` the same for a ``ModelProto``.
"""

from __future__ import annotations

from examples.quantise.model import Recipe, quantise

__all__ = ["Recipe", "quantise"]
