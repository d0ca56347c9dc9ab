"""Operands of 8-bit operators, and the comparison with onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx_runner import Build, run, run_reference, tvm_pipeline, whole_build

MICROSOFT = "com.microsoft"
U8, S8 = np.uint8, np.int8
each_build = pytest.mark.parametrize(
    "build", [tvm_pipeline, pytest.param(whole_build, marks=pytest.mark.slow)]
)
each_type = pytest.mark.parametrize("dtype", [U8, pytest.param(S8, marks=pytest.mark.slow)])
F = np.float32


def integers(dtype: Any, *shape: int, seed: int = 0) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(
        limits.min, limits.max, shape, dtype=dtype, endpoint=True
    )


def zero(dtype: Any, value: int = 3) -> np.ndarray:
    return np.asarray(value + (110 if dtype == U8 else 0), dtype)


def scale(value: float) -> np.ndarray:
    return np.asarray(value, F)


def scales(count: int, seed: int = 5, typical: float = 0.01) -> np.ndarray:
    return (np.random.default_rng(seed).uniform(0.5, 2, count) * typical).astype(F)


def compare(
    model: onnx.ModelProto,
    feeds: dict[str, np.ndarray],
    build: Build = tvm_pipeline,
    steps: int = 0,
) -> None:
    """Results equal onnxruntime's, but for a share of them that differ by at most ``steps``."""
    wanted = run_reference(model, feeds, optimised=False)
    for found, expected in zip(run(model, feeds, build), wanted, strict=True):
        assert (expected.dtype, expected.shape) == (found.dtype, found.shape)
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)
            continue
        difference = np.abs(expected.astype(np.int64) - found.astype(np.int64))
        assert difference.max() <= steps
        assert np.count_nonzero(difference) <= difference.size / 50
