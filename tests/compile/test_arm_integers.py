"""INT8 networks on AArch64 under qemu, against onnxruntime without its graph passes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import tvmconv
from tests.emulating import CALL, HOSTILE, needs_arm, run_model, vectors_of
from tests.graph.quantised_net import small_input, unoptimised
from tests.graph.quantised_networks import averaged, dense, residual, separable, weights


def asymmetric() -> Any:
    """Weights whose zero point makes them 16 bits wide."""
    return weights(np.uint8, 100)


def colliding() -> Any:
    """Weights that are -128 in channels whose products are added in 16 bits, as much as ReLU's."""
    model = weights(np.int8, 0)
    (values,) = (t for t in model.graph.initializer if t.dims == [24, 20, 3, 3])
    least = numpy_helper.to_array(values).copy()
    least[3] = -128
    values.CopyFrom(numpy_helper.from_array(least, values.name))
    return model


@needs_arm
# without and with dot-product instructions, and with SVE's alone
@pytest.mark.parametrize(
    ("network", "target"),
    [
        *product((residual, colliding), ["aarch64", "neoverse-n1"]),
        *product((dense, asymmetric), ["aarch64"]),
        *product((averaged, separable), ["neoverse-n1"]),
        (residual, "a64fx"),
        (dense, "aarch64+sve"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for pair in (
                ((dense, asymmetric), ["neoverse-n1"]),
                ((averaged, separable), ["aarch64"]),
            )
            for each in product(*pair)
        ),
    ],
)
def test_networks_of_8_bits(network: Callable[[], Any], target: str, tmp_path: Path):
    source = network()
    feeds = small_input(source)
    model = tvmconv.build(source, target, threads=2, log="none")
    assert any(d.workload.types.is_integer for d in model.decisions)
    actual = run_model(model, tmp_path, *(feeds[info.name] for info in model.inputs))
    for have, want in zip(actual, unoptimised(source, feeds), strict=True):
        assert have.dtype == want.dtype
        step = 1 if want.dtype.kind in "iu" else 1e-2 * np.abs(want).max()
        difference = np.abs(have.astype(np.float64) - want)
        assert difference.max() <= step
        assert (difference > 1e-5).mean() < 0.02


@needs_arm
def test_one_network_of_8_bits_for_every_vector_length(tmp_path: Path):
    source = residual()
    feeds = small_input(source)
    model = tvmconv.build(source, "aarch64+sve", threads=2, log="none")
    assert any(
        d.workload.types.is_integer and d.chosen.config.get("vectors") for d in model.decisions
    )
    values = [feeds[info.name] for info in model.inputs]
    first, *others = (
        run_model(model, tmp_path, *values, options=vectors_of(bits), caller=caller)
        for bits, caller in ((128, CALL), (256, HOSTILE), (2048, CALL))
    )
    for have, want in zip(first, unoptimised(source, feeds), strict=True):
        assert np.abs(have.astype(np.float64) - want).max() <= 1
    for other in others:
        for have, want in zip(other, first, strict=True):
            np.testing.assert_array_equal(have, want)


@needs_arm
# a kernel of its own for each: `smull`, `sdot`
@pytest.mark.parametrize("target", ["aarch64", "neoverse-n1"])
def test_networks_in_fixed_point_equal_those_of_x86(target: str, tmp_path: Path):
    source = residual()
    feeds = small_input(source)
    model, host = (
        tvmconv.build(source, name, threads=1, log="none", requantize="fixed")
        for name in (target, "x86-64-v3")
    )
    assert any(d.workload.types.quantisation.requantise == "fixed" for d in model.decisions)
    values = [feeds[info.name] for info in model.inputs]
    for have, want in zip(run_model(model, tmp_path, *values), host.run(*values), strict=True):
        np.testing.assert_array_equal(have, want)
