"""Random operands of floating-point layers, arrays in channel blocks, and facts of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmconv.core.stored_types import numpy_type
from tvmconv.core.tensor import Array
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import Kernel


def rounded(values: Array, dtype: str) -> Array:
    """FP32 values, rounded to a floating-point type that may be narrower."""
    return typed(values, dtype).astype(np.float32, copy=False)


def typed(values: Array, dtype: str) -> Array:
    """Values in a type of :mod:`tvmconv.core.datatypes`."""
    return values.astype(numpy_type(dtype), copy=False)


def random_operands(
    workload: Conv2dWorkload, seed: int = 0
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Normally distributed inputs and constants by name, as :class:`KernelRun` reads them.

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


def blocked(array: Array, lanes: int, fill: float = 0) -> Array:
    """NCHW to NCHWc; surplus lanes of the last block hold ``fill``."""
    n, channels, height, width = array.shape
    blocks = -(-channels // lanes)
    padded = np.full((n, blocks * lanes, height, width), fill, array.dtype)
    padded[:, :channels] = array
    split = padded.reshape(n, blocks, lanes, height, width)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 4, 2))


def arranged(data: Array, workload: Conv2dWorkload, lanes: int, fill: float = 0) -> Array:
    """An NCHW input in the layout that a workload's kernel reads; see :func:`blocked`."""
    if workload.data_layout == "NCHWc":
        return blocked(data, lanes, fill)
    if workload.is_matrix:
        return np.ascontiguousarray(data.reshape(data.shape[:2]))
    plain = data if workload.data_layout == "NCHW" else data.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(plain)


def as_result(residual: Array, workload: Conv2dWorkload, lanes: int, fill: float = 0) -> Array:
    """An NCHW residual in the layout of a workload's output; see :func:`blocked`."""
    if workload.is_matrix:
        return np.ascontiguousarray(residual.reshape(residual.shape[:2]))
    return blocked(residual, lanes, fill)


def unblocked(array: Array, channels: int) -> Array:
    """NCHWc to NCHW without the surplus lanes; the matrix of a fully connected layer as NC11."""
    if array.ndim == 2:
        return array[:, :, None, None]
    n, _, height, width, _ = array.shape
    plain: Array = array.transpose(0, 1, 4, 2, 3).reshape(n, -1, height, width)[:, :channels]
    return plain


def kernel_facts(kernel: Kernel) -> dict[str, Any]:
    """Plain data: MACs of a call with padded channels, bytes, knobs and layout."""
    w, machine, config = kernel.workload, kernel.machine, kernel.config
    return {
        "multiplies": kernel.expression.multiplies(w, machine, config),
        "workspace_bytes": kernel.expression.workspace_bytes(w, machine, config),
        "packed_weight_bytes": kernel.expression.packed_weight_bytes(w, machine, config),
        "knobs": config.to_json(),
        "data_layout": w.data_layout,
    }
