"""Layers that channel blocks would fill with zeros have vectors of pixels."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tvmconv
from tests.graph.network import Net, check, convs, planned
from tests.kernels import each_target
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.graph.pixels import Around, by_pixels
from tvmconv.machines.record import Machine
from tvmconv.model import CompiledModel
from tvmconv.selection.select import select

_MODES = ("", "Relu", "HardSwish", "residual")


def pixel_calls(model: CompiledModel) -> int:
    return sum(call.operator == "pixel_conv2d" for call in model.calls)


def finished(net: Net, x: str, shape: tuple[int, ...], mode: str) -> str:
    if mode == "residual":
        return net.op("Relu", net.op("Add", x, net.input(f"r{len(net.nodes)}", *shape)))
    return net.op(mode, x) if mode else x


# each network has a layer of one kind, so that one build checks several
@pytest.mark.parametrize("seed", range(3))
def test_grouped_layers_with_odd_windows_are_right(seed: int):
    rng = random.Random(seed)
    net, outputs = Net(2, 12, 13, 39, seed=seed), []
    for mode in _MODES:
        groups, kernel = rng.choice([2, 3, 4, 6, 12]), rng.choice([1, 2, 3, 5])
        stride, dilation = rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2])
        pads = [rng.randint(0, kernel) for _ in range(4)]
        out_channels = groups * rng.choice([1, 2, 3, 5])
        span = (kernel - 1) * dilation + 1
        sizes = [(n + pads[i] + pads[i + 2] - span) // stride + 1 for i, n in enumerate((13, 39))]
        x = net.conv(
            "x",
            12,
            out_channels,
            kernel,
            bias=rng.random() < 0.5,
            group=groups,
            strides=[stride] * 2,
            dilations=[dilation] * 2,
            pads=pads,
        )
        outputs.append(finished(net, x, (2, out_channels, *sizes), mode))
    assert pixel_calls(check(net.model(*outputs), threads=2)) >= 1


def test_multipliers_and_lone_channels_are_right():
    net = Net(1, 16, 10, 21)
    parts = [net.conv("x", 16, 16 * count, group=16) for count in (3, 5)]
    parts += [net.conv("x", 16, 1, 5), net.conv("x", 16, 29 * 2, 1, group=2)]
    compiled = check(net.model(*parts))
    assert pixel_calls(compiled) == 4
    assert [call.operator for call in compiled.calls].count("add_taps") == 1
    assert "4 convolutions" in str(compiled.explain())


@each_target
@pytest.mark.parametrize(
    "problem", ["g3ic60ih28oc240kh1", "g3ic240ih28oc60kh1", "g4ic68ih28oc272kh1"]
)
def test_groups_between_plain_layers_are_vectors_of_pixels(problem: str, machine: Machine):
    """Groups that no block divides: with both layout changes, blocks took 1.3 to 2.2 times."""
    workload = Conv2dWorkload.parse(problem)
    around = Around(is_blocked=False, wants_blocks=False, wants_plain=True)
    decision = select(workload, machine)
    assert by_pixels(decision, machine, None, around, None)


def test_layers_that_fill_blocks_keep_them():
    net = Net(1, 32, 8, 8)
    x = net.op("Relu", net.conv("x", 32, 64))
    model = net.model(net.conv(x, 64, 64, group=2))
    _, plan = planned(model)
    assert not plan.pixels and len(plan.decisions) == 2


def test_a_named_algorithm_and_a_memory_budget_keep_blocks():
    net = Net(1, 16, 10, 12)
    model = net.model(net.conv("x", 16, 48, group=16))
    assert pixel_calls(tvmconv.build(model, threads=1)) == 1
    named = {"overrides": {"*": {"algorithm": "direct"}}}
    for options in ({"algorithms": ["direct"]}, named, {"memory_budget": 0}):
        built = tvmconv.build(model, threads=1, **options)
        assert [d.chosen.algorithm for d in built.decisions] == ["direct"]


@pytest.mark.parametrize(
    ("shape", "outputs", "kernel", "groups"),
    [
        ((2, 3, 9, 45), 5, (2, 2), 1),
        ((1, 24, 5, 16), 24, (3, 1), 24),
        ((1, 8, 6, 19), 4, (1, 4), 2),
        ((1, 10, 4, 20), 6, (5, 5), 2),
    ],
)
def test_transposed_convolutions_write_squares_of_pixels(
    shape: tuple[int, ...], outputs: int, kernel: tuple[int, int], groups: int
):
    net = Net(*shape)
    weight = net.random(shape[1], outputs // groups, *kernel)
    x = net.op(
        "ConvTranspose", "x", weight, net.random(outputs), strides=list(kernel), group=groups
    )
    x = net.op("Mul", x, net.random(1, outputs, 1, 1))
    compiled = check(net.model(net.op("Relu", x)), threads=2)
    assert [call.operator for call in compiled.calls] == ["pixel_conv2d"]


@pytest.mark.parametrize(
    "settings",
    [
        {"k": 4, "s": 2, "pads": [1] * 4},
        {"k": 3, "s": 2, "pads": [1] * 4, "output_padding": [1, 1]},
        {"k": 3, "s": 2, "pads": [1] * 4},
        {"k": 5, "s": 3, "pads": [4, 0, 1, 2]},
        {"k": 2, "s": 3, "pads": [1, 2, 0, 0]},
        {"k": 3, "s": 2, "pads": [0, 5, 0, 0]},
        {"k": 2, "s": 2, "dilations": [2, 3]},
    ],
)
def test_depthwise_transposed_convolutions_have_taps_instead_of_a_crop(settings: dict):
    attrs = dict(settings)
    k, stride = attrs.pop("k"), attrs.pop("s")
    net = Net(2, 24, 9, 17)
    attrs |= {"strides": [stride] * 2}
    x = net.op("ConvTranspose", "x", net.random(24, 1, k, k), net.random(24), group=24, **attrs)
    y = net.op("ConvTranspose", "x", net.random(24, 2, k, k), group=24, **attrs)
    z = net.op("ConvTranspose", "x", net.random(24, 1, k, k), net.random(8), group=8, **attrs)
    compiled = check(net.model(net.op("Relu", x), y, z), threads=2)
    operators = [call.operator for call in compiled.calls]
    # padding that is longer than the kernel is a crop
    if attrs.get("pads", [0, 0])[1] < k:
        assert set(operators) <= {"pixel_conv2d", "crop"}


@pytest.mark.parametrize("kernel", [(2, 2), (3, 1), (1, 4)])
def test_short_rows_of_many_channels_are_products(kernel: tuple[int, int]):
    net = Net(2, 128, 7, 3)
    weight = net.random(128, 6, *kernel)
    x = net.op("ConvTranspose", "x", weight, net.random(6), strides=list(kernel))
    compiled = check(net.model(net.op("LeakyRelu", x)), threads=2)
    assert [call.operator for call in compiled.calls] == ["matmul", "depth_to_space"]
    assert not compiled.unscheduled


def test_padding_beyond_the_kernel_is_cut_off_without_phases():
    net = Net(2, 32, 9, 12)
    parts = [
        net.op("ConvTranspose", "x", net.random(32, 8 // g, 3, 2), group=g, pads=[0, 1, 0, 2])
        for g in (1, 2)
    ]
    check(net.model(*parts), threads=2)


@pytest.mark.parametrize("threads", [1, 2])
def test_products_of_all_taps_are_added_where_they_belong(threads: int):
    """Rows, columns and planes outside of the image, dilation, groups, and long rows of kernels."""
    net = Net(2, 24, 7, 9)
    parts = [
        net.conv("x", 24, 3, 5, pads=[4] * 4),
        net.op("Relu", net.conv("x", 24, 2, 3, dilations=[2, 3], pads=[5, 0, 1, 6], bias=False)),
        net.conv("x", 24, 4, 4, group=2, pads=[3, 0, 0, 3]),
        net.op("ConvTranspose", "x", net.random(24, 2, 2, 5), net.random(2)),
    ]
    made = check(net.model(*parts), threads=threads)
    assert [call.operator for call in made.calls].count("add_taps") == 4
    volumes = Net(2, 64, 3, 4, 5)
    weight = volumes.random(64, 2, 3, 2, 3)
    parts = [
        volumes.op("ConvTranspose", "x", weight, volumes.random(2)),
        volumes.op("Conv", "x", volumes.random(3, 64, 2, 3, 3), pads=[1, 2, 1, 0, 1, 2]),
    ]
    made = check(volumes.model(*parts), threads=threads)
    assert "add_taps" in [call.operator for call in made.calls]


def test_images_of_one_column_are_rows():
    net = Net(2, 24, 40, 1)
    x = net.op("Relu", net.op("Conv", "x", net.random(48, 24, 7, 1), pads=[3, 0, 3, 0]))
    x = net.op("MaxPool", x, kernel_shape=[2, 1], strides=[2, 1])
    y = net.op("Conv", x, net.random(48, 48, 5, 1), net.random(48), pads=[2, 0, 2, 0])
    model = net.model(net.op("Add", y, x))
    assert [n.attrs["workload"].in_height for n in convs(planned(model)[0])] == [1, 1]
    check(model)


def test_rows_of_every_length_are_stored_whole():
    for width in (16, 17, 100, 333):
        net = Net(1, 1, 1, width)
        weight = net.const(np.arange(1, 4, dtype=np.float32).reshape(1, 1, 1, 3))
        assert pixel_calls(check(net.model(net.op("Conv", "x", weight, pads=[0, 1, 0, 1])))) == 1


def test_weights_computed_at_run_time_are_right():
    net = Net(2, 6, 9, 20)
    weight = net.op("Relu", net.input("w", 14, 3, 3, 2))
    attributes = {"group": 2, "strides": [1, 2], "pads": [1, 0, 2, 1], "dilations": [1, 2]}
    x = net.op("Relu", net.op("Conv", "x", weight, net.random(14), **attributes))
    compiled = check(net.model(net.op("Conv", x, net.input("v", 7, 14, 1, 1))), threads=2)
    assert pixel_calls(compiled) == 2 and not compiled.unscheduled
