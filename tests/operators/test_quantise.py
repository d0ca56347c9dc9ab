"""QuantizeLinear of elements against onnxruntime, for every value near an awkward one."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx

from tests.operators.harness import Built, each_machine, onnx_node, run
from tvmconv.operators.quantise import LIMITS, dequantise, quantise

SCALE = np.float32(0.0371)


def number(value, dtype):
    return lambda *_: tirx.const(value, dtype)


def awkward(scale, zero_point, dtype):
    """Ties, the ends of the range, infinities and NaN."""
    low, high = LIMITS[dtype]
    whole = np.linspace(low - zero_point - 3, high - zero_point + 3, 4099).round()
    ties = (whole + 0.5).astype(np.float32) * scale
    around = [np.nextafter(ties, np.float32(end)) for end in (-np.inf, np.inf)]
    special = np.float32([np.nan, -np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, -0.0, 1e-45])
    return np.concatenate([ties, *around, special])


@each_machine
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("scale", [SCALE, np.float32(0.25), np.float32(1e-12)])
def test_every_tie_bound_and_special_value(dtype, scale, machine):
    low, high = LIMITS[dtype]
    for zero_point in (low, 0, (low + high) // 2 + 7, high):
        x = awkward(scale, zero_point, dtype)
        y = run(
            lambda x, z=zero_point: quantise(
                x, number(float(scale), "float32"), number(z, dtype), dtype
            ),
            x, machine=machine,
        )  # fmt: skip
        z = np.asarray(zero_point, dtype)
        expected = onnx_node("QuantizeLinear", [x, np.asarray(scale), z], 21, dtype)
        np.testing.assert_array_equal(y, expected)


@each_machine
@pytest.mark.parametrize("dtype", LIMITS)
def test_dequantized_channels(dtype, machine):
    rng = np.random.default_rng(1)
    low, high = LIMITS[dtype]
    x = rng.integers(low, high, (2, 5, 3, 7), dtype=dtype, endpoint=True)
    scale = rng.uniform(1e-3, 2, 5).astype(np.float32)
    zero = rng.integers(low, high, 5, dtype=dtype, endpoint=True)
    y = run(lambda x, s, z: dequantise(x, s, z, (1,)), x, scale, zero, machine=machine)
    np.testing.assert_array_equal(y, onnx_node("DequantizeLinear", [x, scale, zero], 21))


@each_machine
def test_channels_in_blocks(machine):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((1, 3, 4, 5, 16)).astype(np.float32)
    scale = rng.uniform(1e-3, 0.1, (3, 16)).astype(np.float32)
    zero = rng.integers(0, 255, (3, 16), dtype=np.uint8, endpoint=True)
    y = run(lambda x, s, z: quantise(x, s, z, "uint8", (1, 4)), x, scale, zero, machine=machine)
    plain = x.transpose(0, 1, 4, 2, 3).reshape(1, 48, 4, 5)
    expected = onnx_node(
        "QuantizeLinear", [plain, scale.reshape(-1), zero.reshape(-1)], 19, "uint8"
    )
    blocked = expected.reshape(1, 3, 16, 4, 5).transpose(0, 1, 3, 4, 2)
    np.testing.assert_array_equal(y, blocked)


@each_machine
def test_vectors_are_quantized_whole(machine):
    x = np.zeros((1, 8, 64, 64), np.float32)
    built = Built(
        lambda x: quantise(x, number(0.1, "float32"), number(3, "uint8"), "uint8"), [x], machine
    )
    assert built.code.count("vdivps")
    assert not built.code.count("vdivss")
    assert not built.code.count(r"call\w*") or built.is_parallel
