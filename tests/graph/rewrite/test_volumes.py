"""3-D networks against onnxruntime: convolutions on kernels, operators between in blocks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.network import Net, check

each_batch = pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.slow), 2])


class VolumeNet(Net):
    def conv3d(self, x: str, cin: int, cout: int, kernel: tuple[int, ...], **attrs) -> str:
        shape = (cout, cin // attrs.get("group", 1), *kernel)
        scale = float(np.prod(shape[1:])) ** -0.5
        attrs.setdefault("pads", [size // 2 for size in kernel] * 2)
        return self.op("Conv", x, self.random(*shape, scale=scale), self.random(cout), **attrs)

    def batch_norm(self, x: str, channels: int) -> str:
        spread = self.const(self.generator.uniform(0.5, 1.5, channels).astype(np.float32))
        given = [self.random(channels) for _ in range(3)]
        return self.op("BatchNormalization", x, *given, spread)


def kinds(model) -> list[str]:
    return [call.operator for call in model.calls]


def checked(net: Net, *outputs: str, **options):
    """Right, and nothing left to plain loops."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = check(net.model(*outputs), **options)
    assert model.unscheduled == ()
    return model


@st.composite
def convolutions(draw):
    """Channels, kernel and attributes of one Conv, and the shape of its input."""
    group = draw(st.sampled_from((1, 2, 8)))
    kernel = [draw(st.integers(1, 3)) for _ in "dhw"]
    dilations = [draw(st.integers(1, 2)) for _ in "dhw"]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [draw(st.integers(0, span - 1)) for span in (*spans, *spans)]
    sizes = [draw(st.integers(span, span + 5)) for span in spans]
    multiplier = draw(st.sampled_from((1, 3)))
    attrs = {
        "strides": [draw(st.integers(1, 2)) for _ in "dhw"],
        "dilations": dilations,
        "pads": pads,
        "group": group,
    }
    cin = 8 if group == 8 else group * draw(st.sampled_from((1, 3, 17)))
    batch = draw(st.integers(1, 2))
    return (batch, cin, *sizes), multiplier * (8 if group == 8 else group * 5), kernel, attrs


def compare_convolution(problem):
    shape, cout, kernel, attrs = problem
    net = VolumeNet(*shape)
    y = net.batch_norm(net.conv3d("x", shape[1], cout, tuple(kernel), **attrs), cout)
    model = checked(net, net.op("Relu", y))
    by_pixels = sum(call.operator == "pixel_conv2d" for call in model.calls)
    assert len(model.decisions) + by_pixels == 1


@settings(max_examples=3)
@given(problem=convolutions())
def test_any_convolution(problem):
    compare_convolution(problem)


@pytest.mark.slow
@settings(max_examples=120)
@given(problem=convolutions())
def test_any_convolution_thoroughly(problem):
    compare_convolution(problem)


@each_batch
def test_residual_block_stays_in_blocks(batch):
    net = VolumeNet(batch, 3, 5, 12, 12)
    x = net.op("Relu", net.batch_norm(net.conv3d("x", 3, 20, (3, 7, 7), strides=[1, 2, 2]), 20))
    y = net.op("Relu", net.conv3d(x, 20, 36, (3, 3, 3), strides=[2, 2, 2]))
    y = net.conv3d(y, 36, 36, (3, 3, 3))
    y = net.op("Add", y, net.conv3d(x, 20, 36, (1, 1, 1), strides=[2, 2, 2], pads=[0] * 6))
    y = net.op("Flatten", net.op("GlobalAveragePool", net.op("Relu", y)))
    model = checked(net, net.op("Gemm", y, net.random(36, 7)))
    assert kinds(model).count("conv2d") == 4
    # the first layer may read blocks of the input
    assert kinds(model).count("reorder") <= 1
    assert not {"add", "relu"} & set(kinds(model))
    assert kinds(model).count("permute_dims") <= 1


def test_convolutions_apart_are_those_of_images():
    """(2+1)-D: a kernel within planes may be computed by Winograd's algorithm."""
    net = VolumeNet(1, 32, 3, 24, 24)
    y = net.op("Relu", net.conv3d("x", 32, 64, (1, 3, 3)))
    model = checked(net, net.conv3d(y, 64, 32, (3, 1, 1)))
    within, along = (d.workload for d in model.decisions)
    assert (within.is_volume, within.batch) == (False, 3)
    assert (along.kernel_d, along.kernel_h, along.in_depth) == (3, 1, 3)


@each_batch
def test_squeeze_and_excitation_and_depthwise(batch):
    net = VolumeNet(batch, 3, 4, 10, 10)
    x = net.op("Relu", net.conv3d("x", 3, 24, (1, 3, 3)))
    y = net.conv3d(x, 24, 24, (3, 3, 3), group=24)
    gate = net.op("GlobalAveragePool", y)
    gate = net.op("Sigmoid", net.conv3d(gate, 24, 24, (1, 1, 1)))
    y = net.op("HardSwish", net.op("Mul", gate, y))
    model = checked(net, net.op("Concat", net.conv3d(y, 24, 16, (1, 1, 1)), x, axis=1))
    assert kinds(model).count("depthwise_conv2d") == 1


@pytest.mark.parametrize(
    "kind, attrs",
    [
        ("MaxPool", {"kernel_shape": [1, 3, 3], "strides": [1, 2, 2], "pads": [0, 1, 1] * 2}),
        ("MaxPool", {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2], "ceil_mode": 1}),
        ("MaxPool", {"kernel_shape": [3, 2, 2], "dilations": [2, 1, 2], "pads": [2, 0, 0] * 2}),
        ("AveragePool", {"kernel_shape": [3, 3, 3], "strides": [2, 2, 2], "pads": [1] * 6}),
        ("AveragePool", {"kernel_shape": [3, 1, 1], "pads": [1, 0, 0] * 2, "count_include_pad": 1}),
        ("AveragePool", {"kernel_shape": [2, 3, 3], "pads": [1, 1, 0, 0, 1, 1], "ceil_mode": 1,
                         "strides": [2, 2, 2]}),
    ],
)  # fmt: skip
@each_batch
def test_pools_of_volumes(kind, attrs, batch):
    net = VolumeNet(batch, 3, 6, 9, 8)
    x = net.op("Relu", net.conv3d("x", 3, 20, (1, 1, 1)))
    model = checked(net, net.conv3d(net.op(kind, x, **attrs), 20, 8, (1, 1, 1)))
    assert not {"max_pool3d", "avg_pool3d", "transpose"} & set(kinds(model))


@pytest.mark.parametrize(
    "shape",
    [(1,), (20, 1, 1, 1), (1, 20, 1, 1, 1), (5, 1, 1), (2, 1, 5, 1, 6), (2, 20, 5, 6, 6), (1, 6)],
)
def test_constants_broadcast_as_onnx_says(shape):
    net = VolumeNet(2, 3, 5, 6, 6)
    x = net.op("Relu", net.conv3d("x", 3, 20, (3, 3, 3)))
    y = net.op("Mul", net.random(*shape), x)
    checked(net, net.op("Relu", net.op("Sub", y, x)), x)


def test_tensors_broadcast_as_onnx_says():
    net = VolumeNet(2, 3, 5, 6, 6)
    x = net.conv3d("x", 3, 20, (3, 3, 3))
    across = net.conv3d("x", 3, 20, (5, 1, 1), pads=[0] * 6)
    one = net.input("one", 1, 20, 1, 1, 1)
    deep = net.input("deep", 1, 20, 5, 1, 1)
    y = net.op("Add", net.op("Mul", net.op("Mul", x, across), one), deep)
    checked(net, net.op("Tanh", y))


def test_images_that_are_not_in_blocks():
    """Lanes without a channel would become infinite there."""
    net = VolumeNet(2, 3, 6, 8, 8)
    x = net.op("Exp", net.conv3d("x", 3, 20, (1, 3, 3)))
    window = {"kernel_shape": [3, 2, 2], "strides": [2, 2, 2], "pads": [1, 0, 0] * 2}
    pools = [net.op(kind, x, **window) for kind in ("MaxPool", "AveragePool")]
    checked(net, net.op("Div", *pools), net.op("GlobalMaxPool", x))


def test_other_operators_read_volumes():
    """Operators that know no images get the volume back, in its own layout."""
    net = VolumeNet(2, 3, 5, 6, 6)
    x = net.op("Relu", net.conv3d("x", 3, 20, (3, 3, 3)))
    axes, ends = net.const(np.array([2])), net.const(np.array([4]))
    part = net.op("Slice", x, net.const(np.array([1])), ends, axes)
    turned = net.op("Transpose", part, perm=[0, 2, 1, 4, 3])
    pooled = net.op("ReduceMean", net.conv3d(part, 20, 8, (3, 1, 1)), axes=[2, 3, 4], keepdims=0)
    checked(net, turned, pooled, net.op("ReduceMax", x, axes=[1]))


def test_explicit_padding_is_merged():
    net = VolumeNet(1, 16, 5, 6, 6)
    pads = net.const(np.array([0, 0, 1, 2, 0, 0, 0, 1, 0, 1]))
    y = net.conv3d(net.op("Pad", "x", pads), 16, 16, (3, 3, 3), pads=[0, 0, 1, 0, 0, 1])
    model = checked(net, y)
    (decision,) = model.decisions
    assert (decision.workload.pad_front, decision.workload.pad_top) == (1, 2)
    assert "pad" not in kinds(model)


def test_memory_layout_of_a_single_channel_is_kept():
    net = VolumeNet(2, 1, 4, 6, 6)
    model = checked(net, net.conv3d(net.conv3d("x", 1, 8, (3, 3, 3)), 8, 1, (3, 3, 3)))
    assert "permute_dims" not in kinds(model)


def test_weights_of_run_time_are_right():
    net = VolumeNet(1, 4, 3, 5, 5)
    weight = net.input("weight", 6, 2, 3, 3, 3)
    padded = net.op(
        "Pad", net.conv3d("x", 4, 4, (1, 1, 1)), net.const(np.repeat([0, 1, 0, 1], [2, 3, 2, 3]))
    )
    assert not check(net.model(net.op("Conv", padded, weight, group=2))).unscheduled
