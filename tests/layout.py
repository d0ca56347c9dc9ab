"""Channel-blocked layouts in plain numpy."""

from __future__ import annotations

import numpy as np

from tvmconv.core.workload import Conv2dWorkload


def block(data: np.ndarray, lanes: int, fill: float = 0.0) -> np.ndarray:
    """(N, C, H, W) to (N, C/c, H, W, c); surplus lanes hold ``fill``."""
    n, c, h, w = data.shape
    blocks = -(-c // lanes)
    full = np.full((n, blocks * lanes, h, w), fill, data.dtype)
    full[:, :c] = data
    return np.ascontiguousarray(full.reshape(n, blocks, lanes, h, w).transpose(0, 1, 3, 4, 2))


def laid_out(
    data: np.ndarray, workload: Conv2dWorkload, lanes: int, fill: float = 0.0
) -> np.ndarray:
    """(N, C, H, W) in the layout that a workload's kernel reads."""
    if workload.data_layout == "NCHWc":
        return block(data, lanes, fill)
    if workload.is_matrix:
        return data[:, :, 0, 0].copy()
    plain = data if workload.data_layout == "NCHW" else data.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(plain)


def unblock(data: np.ndarray, channels: int) -> np.ndarray:
    """Inverse of :func:`block`; a matrix is images of one pixel."""
    if data.ndim == 2:
        return data[:, :, None, None]
    n, blocks, h, w, lanes = data.shape
    return data.transpose(0, 1, 4, 2, 3).reshape(n, blocks * lanes, h, w)[:, :channels]
