"""8-bit kernels at the ends of all their operands' ranges, which random ones hardly meet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from tests.kernels import V3, V4, callable_kernel, integer_arguments
from tests.layout import unblock
from tests.schedules.test_integers import ALDERLAKE, ICELAKE, machines_of
from tvmconv.algorithms.winograd.integers import largest_sums
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.arguments import Constants
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.record import Machine
from tvmconv.measuring.integers import IntegerOperands, exact_output

TYPES = ("u8s8s32s32", "u8s16s32s32")
# all kinds of layers, and the tiles of Winograd with the largest transformed values
LAYERS = [
    ("direct", "ic20ih5iw8oc9kh3ph1", TYPES, {}),
    ("direct_bytes", "ic20ih5iw8oc9kh3ph1", TYPES[:1], {"packed": 1}),
    ("direct_first", "ic3ih7iw9oc9kh5sh2ph2:nchw", TYPES[:1], {}),
    ("depthwise", "g16ic16ih6iw9oc16kh3ph1", TYPES, {}),
    ("winograd", "ic20ih8oc9kh3ph1", TYPES[:1], {"mh": 4, "mw": 4}),
    ("winograd", "ic20ih9oc9kh3ph1", TYPES[1:], {"mh": 3, "mw": 3}),
    # phases of four taps, and of two
    ("winograd", "ic3ih9iw12oc9kh7sh2ph3", TYPES[:1], {"mh": 3, "mw": 2}),
    ("winograd", "ic3ih17iw15oc9kh3sh2ph1", TYPES[:1], {"mh": 5, "mw": 4}),
]


def patterns(shape: tuple[int, ...], low: int, high: int, dtype: str) -> Iterator[np.ndarray]:
    """Either end alone, both interleaved along each axis but the first, and random values."""
    yield np.full(shape, low, dtype)
    yield np.full(shape, high, dtype)
    places = np.indices(shape)
    for place in (*places[1:], places[1:].sum(axis=0)):
        if place.max() > 0:
            yield np.where(place % 2, low, high).astype(dtype)
    yield np.random.default_rng(0).choice([low, high], shape).astype(dtype)


@machines_of([V3], V4, ICELAKE, ALDERLAKE)
@pytest.mark.parametrize(
    ("name", "text", "types", "knobs"),
    [(name, text, t, knobs) for name, text, types, knobs in LAYERS for t in types],
)
def test_ends_of_every_range(
    name: str, text: str, types: str, knobs: dict[str, int], machine: Machine
):
    """Data, weights and zero points; biases with which sums reach the ends of 32 bits."""
    workload = Conv2dWorkload.parse(f"{text}:{types}:zpdata+bias")
    if reason := registry.algorithm(name).unsupported(workload, machine):
        pytest.skip(reason)
    tile = {knob: value for knob, value in knobs.items() if knob in ("mh", "mw")}
    offers = registry.offers(name, workload, machine)
    config = next(offer for offer in offers if tile.items() <= dict(offer).items())
    kernel = make_kernel(workload, machine, name, config.replace(**knobs))
    low, high = (-128, 127) if workload.types.weight == "int8" else (-255, 255)
    weights = list(patterns(workload.weight_shape, low, high, workload.types.weight))
    for weight in weights:
        kernel = kernel.suited(weight)
    call = callable_kernel(kernel)
    data = list(patterns(workload.data_shape, 0, 255, "uint8"))
    signs = np.resize([1, -1], workload.out_channels)
    for index, (weight, values) in enumerate(product(weights, data)):
        bias = (signs * (2**31 - 1 - largest_sums(weight, "uint8"))).astype(np.int32)
        operands = IntegerOperands(values, Constants(weight, bias, 255 * (index % 2)), None)
        actual = unblock(call(integer_arguments(kernel, operands)), workload.out_channels)
        np.testing.assert_array_equal(actual, exact_output(workload, operands, "int64"))
