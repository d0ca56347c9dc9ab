"""Random operands of FP32 layers, arrays in channel blocks, and facts of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import Kernel

Array = npt.NDArray[Any]


def random_operands(
    workload: Conv2dWorkload, seed: int = 0
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Normally distributed inputs and constants by name, as :class:`KernelRun` reads them.

    Weights are scaled so that outputs have a variance of one.
    """
    w, generator = workload, np.random.default_rng(seed)

    def normal(*shape: int) -> Array:
        return generator.standard_normal(shape, dtype=np.float32)

    weight = normal(*w.weight_shape)
    inputs = {"data": normal(*w.data_shape)}
    if w.has("add"):
        inputs["residual"] = normal(*w.result_shape)
    constants = {"weight": weight / np.float32(np.sqrt(w.taps))}
    if w.has("bias"):
        constants["bias"] = normal(w.out_channels)
    return inputs, constants


def blocked(array: Array, lanes: int, fill: float = 0) -> Array:
    """NCHW to NCHWc; surplus lanes of the last block hold ``fill``."""
    n, channels, height, width = array.shape
    blocks = -(-channels // lanes)
    padded = np.full((n, blocks * lanes, height, width), fill, array.dtype)
    padded[:, :channels] = array
    split = padded.reshape(n, blocks, lanes, height, width)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 4, 2))


def unblocked(array: Array, channels: int) -> Array:
    """NCHWc to NCHW without the surplus lanes."""
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
