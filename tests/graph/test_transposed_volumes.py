"""ConvTranspose of volumes, by 3-D convolutions with phases."""

from __future__ import annotations

import random

import pytest

from tests.graph.network import Net, check
from tvmconv.core.workload import Conv2dWorkload


def transposed(net: Net, rng: random.Random, channels: int) -> str:
    groups = rng.choice([1, 1, 2])
    kernel = [rng.randint(1, 4) for _ in range(3)]
    strides = [rng.randint(1, 3) for _ in range(3)]
    attributes = {
        "group": groups,
        "strides": strides,
        "pads": [rng.randint(0, size - 1) for size in kernel] * 2,
        "output_padding": [rng.randint(0, stride - 1) for stride in strides],
    }
    weight = net.random(channels, rng.choice([1, 3, 8]), *kernel)
    return net.op("ConvTranspose", "x", weight, **attributes)


@pytest.mark.parametrize("seed", range(2))
def test_transposed_convolutions_of_volumes_are_right(seed: int):
    rng = random.Random(seed)
    net = Net(2, 4, 3, 5, 6, seed=seed)
    outputs = [net.op("Relu", transposed(net, rng, 4)), transposed(net, rng, 4)]
    check(net.model(*outputs))


def test_planes_are_interleaved_by_whole_blocks_and_channel_by_channel():
    """Phases of 16 channels, of few channels, and of groups, with planes that are left out."""
    net = Net(2, 4, 3, 4, 5)
    outputs = [
        net.op("ConvTranspose", "x", net.random(4, count, 2, 2, 2), strides=[2, 2, 2])
        for count in (16, 3)
    ]
    cut = {"strides": [3, 2, 1], "pads": [1, 0, 1, 2, 1, 0]}
    outputs += [
        net.op("ConvTranspose", "x", net.random(4, count, 4, 3, 2), group=groups, **cut)
        for count, groups in ((16, 1), (3, 4), (9, 2))
    ]
    made = check(net.model(*outputs))
    operators = [call.operator for call in made.calls]
    assert operators.count("depth_to_space") == len(outputs)
    assert not {"strided_slice", "pad", "add"} & set(operators)


@pytest.mark.parametrize("groups", [1, 4])
def test_empty_phases_of_short_kernels_are_not_computed(groups: int):
    """Planes, rows and columns that no kernel element reaches have the bias only."""
    net = Net(1, 4, 3, 5, 6)
    kernels, strides = [(1, 1, 1), (2, 1, 3), (3, 3, 1)], [(2, 2, 2), (3, 2, 2), (2, 4, 3)]
    outputs = []
    for kernel, stride in zip(kernels, strides, strict=True):
        weight, bias = net.random(4, 16, *kernel), net.random(16 * groups)
        pads = [size // 2 for size in kernel] * 2
        layer = net.op("ConvTranspose", "x", weight, bias, group=groups, strides=stride, pads=pads)
        outputs.append(net.op("Relu", layer))
    made = check(net.model(*outputs))
    layers = [Conv2dWorkload.parse(call.workload) for call in made.calls if call.workload]
    single, *others = (layer.out_channels for layer in layers)
    assert others == [2 * 1 * 2 * single, 2 * 3 * 1 * single]


def test_one_row_of_phases_is_right():
    """Squares of one line are stored by elements."""
    net = Net(4, 1, 6, 4)
    weight = net.random(1, 3, 4, 1)
    check(net.model(net.op("ConvTranspose", "x", weight, strides=[2, 5], output_padding=[0, 4])))
