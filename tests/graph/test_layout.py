"""Where values are blocked, and how many layout changes networks need."""

from __future__ import annotations

import numpy as np
import pytest

import tvmconv.graph.emit.emitter as emitter_module
from examples.networks import NETWORKS
from tests.graph.network import AVX512, Net, convs, planned
from tvmconv.frontend import read_model, to_relax
from tvmconv.graph.lower import LoweredGraph, lower
from tvmconv.machines.x86 import as_processor
from tvmconv.selection.policy import make_policy
from tvmconv.tvm_api.op_pattern import OPAQUE


@pytest.fixture
def quick_lower(monkeypatch):
    """``lower`` with unscheduled kernels: the graph is the same, and ready in a moment."""

    def unscheduled(kernel):
        return kernel.unscheduled().without_attr("global_symbol").with_attr("op_pattern", OPAQUE)

    monkeypatch.setattr(emitter_module, "scheduled", unscheduled)

    def lowered(model, **options):
        return lower(to_relax(read_model(model)), AVX512.with_cores(1), **options)

    return lowered


def operators(lowered: LoweredGraph) -> list[str]:
    return [call.operator for call in lowered.calls]


@pytest.mark.parametrize(
    ("name", "reorders"),
    [
        ("resnet18", 0),
        ("resnet50", 0),
        ("mobilenet_v1", 0),
        ("mobilenet_v2", 0),
        ("squeezenet1_1", 0),
        ("googlenet", 0),
        # its layers of 4 and 8 channels have vectors of pixels
        ("unet", 2),
    ],
)
def test_reorders_of_whole_networks(quick_lower, name: str, reorders: int):
    lowered = quick_lower(NETWORKS[name](width=0.25, image=(64, 64)))
    assert lowered.reorders == reorders == operators(lowered).count("reorder")


def test_first_layer_reads_the_plain_input():
    net = Net(1, 3, 16, 16)
    graph, plan = planned(net.model(net.conv(net.conv("x", 3, 16), 16, 16)))
    layouts = [plan.decisions[node].workload.data_layout for node in convs(graph)]
    assert layouts == ["NCHW", "NCHWc"]


def test_first_layer_reads_channels_last(quick_lower):
    """The transposition is left out, unless others read its result."""
    net = Net(1, 12, 14, 3)
    image = net.op("Transpose", "x", perm=[0, 3, 1, 2])
    left, right = net.conv(image, 3, 16), net.conv(image, 3, 24, strides=[2, 2])
    lowered = quick_lower(net.model(net.op("Relu", net.conv(left, 16, 16)), right))
    assert operators(lowered)[:3] == ["conv2d", "conv2d", "conv2d"]
    layouts = [d.workload.data_layout for d in lowered.decisions]
    assert sorted(layouts) == ["NCHWc", "NHWC", "NHWC"]

    net = Net(1, 12, 14, 3)
    image = net.op("Transpose", "x", perm=[0, 3, 1, 2])
    last = net.op("Transpose", net.conv(image, 3, 40), perm=[0, 2, 3, 1])
    # no plain copy between blocks and the output
    assert operators(quick_lower(net.model(last))) == ["conv2d", "permute_dims"]

    net = Net(1, 12, 14, 3)
    image = net.op("Transpose", "x", perm=[0, 3, 1, 2])
    lowered = quick_lower(net.model(net.conv(image, 3, 16), net.op("Sigmoid", image)))
    assert "permute_dims" in "".join(operators(lowered))


def test_input_with_many_channels_is_reordered_once(quick_lower):
    net = Net(1, 32, 8, 8)
    left, right = net.conv("x", 32, 16), net.conv("x", 32, 16, k=1)
    lowered = quick_lower(net.model(net.op("Concat", left, right, axis=1)))
    assert operators(lowered) == ["reorder", "conv2d", "conv2d", "concat", "reorder"]


def test_decisions_follow_execution_order_and_name_their_kernels(quick_lower):
    net = Net(1, 16, 8, 8)
    y = net.conv(net.op("Relu", net.conv("x", 16, 16)), 16, 16)
    lowered = quick_lower(net.model(net.op("Relu", y)))
    called = [(c.layer, c.kernel, c.workload) for c in lowered.calls if c.workload]
    assert called == [(d.layer, d.kernel, str(d.workload)) for d in lowered.decisions]
    # both layers are the same problem
    assert len({d.kernel for d in lowered.decisions}) == 1


def test_plain_operator_between_convolutions_costs_two_reorders(quick_lower):
    net = Net(1, 16, 8, 8)
    y = net.op("Softmax", net.conv("x", 16, 16), axis=1)
    lowered = quick_lower(net.model(net.conv(y, 16, 16)))
    assert operators(lowered) == [
        "reorder",
        "conv2d",
        "reorder",
        "softmax",
        "reorder",
        "conv2d",
        "reorder",
    ]


@pytest.mark.parametrize(
    ("channels", "size", "expected"),
    [
        (20, 16, ["reorder", "image.resize2d"]),
        (20, 4, ["resize2d", "reorder"]),
        (30, 16, ["resize2d", "reorder"]),
    ],
)
def test_resizes_that_enlarge_blocks_with_unused_lanes_are_plain(
    quick_lower, channels: int, size: int, expected: list[str]
):
    net = Net(1, 3, 8, 8)
    sizes = net.const(np.array([1, channels, size, size]))
    y = net.op("Resize", net.conv("x", 3, channels), "", "", sizes, mode="linear")
    assert operators(quick_lower(net.model(y))) == ["conv2d", *expected]


def test_flattened_image_is_read_in_place(quick_lower):
    net = Net(1, 3, 8, 8)
    y = net.op("Flatten", net.op("Relu", net.conv("x", 3, 24)))
    y = net.op("Gemm", y, net.random(24 * 64, 10), net.random(10))
    lowered = quick_lower(net.model(y))
    assert operators(lowered) == ["conv2d", "dense"]


def test_padding_overhead_counts_unused_lanes(quick_lower):
    net = Net(1, 16, 4, 4)
    y = net.conv(net.conv("x", 16, 20, k=1, pads=[0] * 4, bias=False), 20, 16, k=1, bias=False)
    lowered = quick_lower(net.model(y))
    activation, weights = 12 * 16 * 4, 4 * (2 * 16 * 16 - 20 * 16) + 4 * (32 * 16 - 20 * 16)
    assert lowered.padding_overhead_bytes == activation + weights


def test_calls_count_work_and_bytes(quick_lower):
    net = Net(1, 16, 4, 4)
    conv = quick_lower(net.model(net.conv("x", 16, 16, k=1, pads=[0] * 4, bias=False))).calls[1]
    assert conv.flops == 2 * 16 * 16 * 16
    assert conv.bytes == 4 * (16 * 16 + 16 * 16 + 16 * 16)


def test_squeeze_and_excitation_stays_blocked(quick_lower):
    net = Net(1, 3, 8, 8)
    y = net.op("Relu", net.conv("x", 3, 24))
    gate = net.op("Relu", net.conv(net.op("GlobalAveragePool", y), 24, 6, k=1))
    gate = net.op("Sigmoid", net.conv(gate, 6, 24, k=1))
    lowered = quick_lower(net.model(net.conv(net.op("Mul", y, gate), 24, 16)))
    assert lowered.reorders == 1
    assert operators(lowered)[-1] == "reorder"


def test_progress_reports_every_stage():
    net = Net(1, 16, 8, 8)
    seen: dict[str, tuple[int, int]] = {}
    module = to_relax(read_model(net.model(net.conv("x", 16, 16))))
    lower(module, AVX512, progress=lambda stage, done, total: seen.update({stage: (done, total)}))
    assert seen == {"choose algorithms": (1, 1), "schedule kernels": (1, 1)}


def test_element_wise_chain_becomes_one_function(quick_lower):
    net = Net(1, 16, 8, 8)
    # joining channels would take no time, see tests/program/test_joins.py
    joined = net.op("Concat", net.conv("x", 16, 16), "x", axis=2)
    y = net.op("Add", net.op("Mul", joined, net.random(16, 1, 1)), net.random(16, 1, 1))
    lowered = quick_lower(net.model(net.conv(net.op("Relu", y), 16, 16)))
    middle = [call for call in lowered.calls if call.operator.startswith("concat")]
    assert [call.operator for call in middle] == ["concat+multiply+add+relu"]
    assert np.prod([1, 16, 16, 8]) * 4 <= middle[0].bytes


def test_products_of_many_rows_keep_to_the_budgets(quick_lower):
    net = Net(128, 1024)
    y = net.op("Gemm", "x", net.random(1024, 512), net.random(512))

    def chosen(**limits):
        (decision,) = quick_lower(net.model(y), policy=make_policy(**limits)).decisions
        return decision.chosen.algorithm

    assert chosen() == "dense_strassen"
    for limits in ({"memory_budget": 0}, {"finite": False}, {"algorithms": ["direct"]}):
        assert chosen(**limits) == "dense"


def test_products_whose_rows_are_normalized_are_plain(quick_lower):
    """Swin v2 divides keys by their norms, and keys of padded tokens are zeros."""
    net = Net(128, 1024)
    y = net.op("Gemm", "x", net.random(1024, 512))
    y = net.op("Div", y, net.op("ReduceL2", net.op("Relu", y), axes=[1]))
    (decision,) = quick_lower(net.model(y)).decisions
    assert decision.chosen.algorithm == "dense"
    (reason,) = {o.rejected for o in decision.rejected if o.algorithm == "dense_strassen"}
    assert "a norm" in reason


def test_pixels_that_are_normalized_are_not_added():
    net = Net(1, 384, 14, 14)
    y = net.op("Relu", net.conv("x", 384, 1536, k=1))
    for made, algorithm in ((y, "strassen"), (net.op("ReduceL2", y, axes=[1]), "direct")):
        (decision,) = planned(net.model(made), as_processor(AVX512, "znver5"))[1].decisions.values()
        assert decision.chosen.algorithm == algorithm
    (reason,) = {o.rejected for o in decision.rejected if o.algorithm == "strassen"}
    assert "a norm" in reason


def test_products_of_flattened_images_are_plain(quick_lower):
    net = Net(128, 3, 8, 8)
    y = net.op("Flatten", net.conv("x", 3, 16))
    y = net.op("Gemm", y, net.random(16 * 64, 512), net.random(512))
    decision = quick_lower(net.model(y)).decisions[-1]
    assert decision.chosen.algorithm == "dense"
    (reason,) = {o.rejected for o in decision.rejected if o.algorithm == "dense_strassen"}
    assert "surplus lanes" in reason
