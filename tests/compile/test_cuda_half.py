"""Models with float16 values on a GPU."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from tests.emulated_gpu import Built, needs_emulator, needs_nvcc

_CASTS = """<ir_version: 8, opset_import: ["" : 17]>
casts (float16[65536] h, float[4096] f, double[4096] d, int64[256] n)
    => (float[65536] widened, float16[4096] narrowed, float16[4096] from_double, float16[256] whole)
{
  widened = Cast <to = 1> (h)
  narrowed = Cast <to = 10> (f)
  from_double = Cast <to = 10> (d)
  whole = Cast <to = 10> (n)
}"""
_NETWORK = """<ir_version: 8, opset_import: ["" : 17]>
network (float16[1,8,9,9] x, bool[1,8,9,9] c, float16[8,8,3,3] w)
    => (float16[1,8,9,9] y, float16[1,9,9,8] turned, float16[1,8,9,9] chosen, float16[1,8,1,1] mean)
{
  s = Conv <pads = [1, 1, 1, 1]> (x, w)
  y = Relu (s)
  turned = Transpose <perm = [0, 2, 3, 1]> (x)
  chosen = Where (c, x, y)
  mean = GlobalAveragePool (y)
}"""


@needs_nvcc
@needs_emulator
def test_casts_are_those_of_numpy(tmp_path):
    built = Built(tmp_path / "casts", parser.parse_model(_CASTS))
    halves = np.arange(65536, dtype="uint16").view("float16")
    # float32 values of every float16 magnitude, ties, and values beyond the range
    rng = np.random.default_rng(0)
    floats = (rng.standard_normal(4096) * 2.0 ** rng.integers(-28, 20, 4096)).astype("float32")
    floats[:2048] = halves[rng.integers(0, 0x7BFF, 2048)].astype("float32")
    floats[:1024] += (np.spacing(floats[:1024].astype("float16")) / 2).astype("float32")
    floats[-4:] = np.inf, -np.inf, np.nan, 65519.99
    whole = np.r_[rng.integers(-70000, 70000, 128), np.arange(2048, 2176)]
    inputs = {"h": halves, "f": floats, "d": floats.astype("float64"), "n": whole}
    widened, narrowed, from_double, integers = built.run(inputs)
    with np.errstate(over="ignore"):
        assert np.array_equal(widened, halves.astype("float32"), equal_nan=True)
        assert np.array_equal(narrowed, floats.astype("float16"), equal_nan=True)
        assert np.array_equal(from_double, floats.astype("float16"), equal_nan=True)
        assert np.array_equal(integers, whole.astype("float16"))


@pytest.fixture(scope="module")
def network() -> onnx.ModelProto:
    model = parser.parse_model(_NETWORK)
    weight = np.random.default_rng(1).standard_normal((8, 8, 3, 3)).astype("float16")
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


@needs_nvcc
@needs_emulator
def test_a_network_is_that_of_onnxruntime(network, tmp_path):
    built = Built(tmp_path / "network", network)
    rng = np.random.default_rng(2)
    x = rng.standard_normal((1, 8, 9, 9)).astype("float16")
    inputs = {"x": x, "c": rng.random((1, 8, 9, 9)) < 0.5}
    for found, right in zip(built.run(inputs), built.expected(inputs), strict=True):
        assert found.dtype == right.dtype == np.float16
        np.testing.assert_allclose(found.astype("f4"), right.astype("f4"), rtol=2e-3, atol=2e-3)
