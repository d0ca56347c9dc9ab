"""Seeded operands of floating-point layers, as :mod:`tvmconv.measuring.integers` has for INT8."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.core.datatypes import numpy_type
from tvmconv.core.workload import Conv2dWorkload

Array = npt.NDArray[Any]


def rounded(values: Array, dtype: str) -> Array:
    """FP32 values, rounded to a floating-point type that may be narrower."""
    return typed(values, dtype).astype(np.float32, copy=False)


def typed(values: Array, dtype: str) -> Array:
    """Values in a type of :mod:`tvmconv.core.datatypes`."""
    return values.astype(numpy_type(dtype), copy=False)


def random_operands(
    workload: Conv2dWorkload, seed: int = 0
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Normally distributed inputs and constants of a workload.

    They are FP32 values that the workload's types represent. Weights are scaled so that outputs
    have a variance of one.
    """
    w, types, generator = workload, workload.types, np.random.default_rng(seed)

    def normal(*shape: int) -> Array:
        return generator.standard_normal(shape, dtype=np.float32)

    weight = normal(*w.weight_shape) / np.float32(np.sqrt(w.taps))
    inputs = {"data": rounded(normal(*w.data_shape), types.data)}
    if w.has("add"):
        inputs["residual"] = rounded(normal(*w.result_shape), types.output)
    constants = {"weight": rounded(weight, types.weight)}
    if w.has("bias"):
        constants["bias"] = rounded(normal(w.out_channels), types.accumulator)
    return inputs, constants
