"""DFT and STFT against NumPy's float64 transforms."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontend.onnx_runner import make_model, noise, run, whole_build
from tvmconv.core.errors import ModelError


def _pairs(spectrum: np.ndarray) -> np.ndarray:
    return np.stack([spectrum.real, spectrum.imag], axis=-1)


def _close(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=3e-6 * np.abs(expected).max())


# two products; a prime; two levels; one product is in the next tests
@pytest.mark.parametrize(("length", "parts"), [(400, 1), (400, 2), (1009, 1), (8192, 1)])
def test_dft(length, parts):
    x = noise(2, length, parts)
    signal = x[..., 0].astype(np.float64) + (1j * x[..., 1] if parts == 2 else 0)
    nodes = [
        helper.make_node("DFT", ["x"], ["y"]),
        helper.make_node("DFT", ["x", "half"], ["z"], inverse=1),
    ]
    half = length // 2
    model = make_model(nodes, {"x": x.shape}, ["y", "z"], {"half": np.int64(half)}, opset=20)
    forward, backward = run(model, {"x": x}, whole_build)
    _close(forward, _pairs(np.fft.fft(signal)))
    _close(backward, _pairs(np.fft.ifft(signal, half)))


@pytest.mark.parametrize("length", [15, 96])
def test_a_real_signal_there_and_back(length):
    x = noise(2, length, 3, 1)
    nodes = [
        helper.make_node("DFT", ["x", "", "axis"], ["y"], onesided=1),
        helper.make_node("DFT", ["y", "length", "axis"], ["z"], onesided=1, inverse=1),
    ]
    constants = {"axis": np.int64(-3), "length": np.int64(length)}
    model = make_model(nodes, {"x": x.shape}, ["y", "z"], constants, opset=20)
    spectrum, back = run(model, {"x": x}, whole_build)
    _close(spectrum, _pairs(np.fft.rfft(x[..., 0].astype(np.float64), axis=1)))
    np.testing.assert_allclose(back, x, atol=1e-5)


@pytest.mark.parametrize(
    ("length", "step", "parts", "windowed"),
    [(400, 160, 1, True), (16, 3, 1, True), (8, 3, 2, False)],
)
def test_stft(length, step, parts, windowed):
    x = noise(2, 1000, parts)
    window = np.hanning(length).astype(np.float32)
    constants = {"step": np.int64(step), "length": np.int64(length)}
    if windowed:
        constants["window"] = window
    names = ["x", "step", "window" if windowed else "", "length"]
    node = helper.make_node("STFT", names, ["y"], onesided=int(parts == 1))
    (found,) = run(make_model([node], {"x": x.shape}, ["y"], constants), {"x": x}, whole_build)
    signal = x[..., 0].astype(np.float64) + (1j * x[..., 1] if parts == 2 else 0)
    count = (1000 - length) // step + 1
    frames = np.stack([signal[:, i * step : i * step + length] for i in range(count)], axis=1)
    expected = np.fft.fft(frames * window if windowed else frames)
    _close(found, _pairs(expected[..., : length // 2 + 1] if parts == 1 else expected))


@pytest.mark.parametrize(
    ("inputs", "constants", "reason"),
    [
        (["x", "step"], {}, "computed at run time"),
        (["x", "step"], {"step": np.int64(0)}, "do not fit a signal"),
        (["x", "step", "", "n"], {"step": np.int64(4), "n": np.int64(101)}, "do not fit a signal"),
        (
            ["x", "step", "w", "n"],
            {"step": np.int64(4), "n": np.int64(8), "w": np.ones(6, np.float32)},
            "the window has shape",
        ),
    ],
)
def test_malformed_stft(inputs, constants, reason):
    node = helper.make_node("STFT", inputs, ["y"], "spectrum")
    model = make_model([node], {"x": (1, 100, 1)}, ["y"], constants)
    if "step" not in constants:
        model.graph.input.append(helper.make_tensor_value_info("step", 7, []))
    with pytest.raises(ModelError, match=f"spectrum.*{reason}"):
        run(model, {}, whole_build)
