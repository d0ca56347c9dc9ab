"""The window tensor of im2win: its values, and its size compared with the im2col matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from hypothesis import assume, given, settings
from numpy.lib.stride_tricks import sliding_window_view
from tvm import te

from tests.kernels import V3, default_config
from tests.strategies import conv2d_workloads
from tvmconv.algorithms.gemm.im2col import Im2col
from tvmconv.algorithms.gemm.im2win import Im2win, columns
from tvmconv.algorithms.reproductions.im2win_nchw import Im2winNchw
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.measuring.suites import load

# the thesis' table 3-3 at batch 128, as MiB of input, im2col matrix and window tensor
MIB = {
    "conv1": (75.5, 536.2, 201.2),
    "conv2": (78.2, 555.8, 208.4),
    "conv3": (75.5, 884.4, 258.4),
    "conv4": (1568.0, 18192.8, 5341.0),
    "conv5": (27.0, 468.8, 112.5),
    "conv6": (18.0, 112.5, 45.0),
    "conv7": (73.5, 649.7, 218.5),
    "conv8": (392.0, 3403.1, 1155.0),
    "conv9": (98.0, 820.1, 283.5),
    "conv10": (49.0, 380.2, 136.5),
    "conv11": (24.5, 162.0, 63.0),
    "conv12": (12.2, 56.2, 26.2),
}


def plain(workload):
    return replace(workload, data_layout="NCHW", epilogue=(), groups=1)


def workspace(algorithm, workload, **knobs):
    config = default_config(algorithm.name, workload, V3, **knobs)
    return algorithm.workspace_bytes(workload, V3, config)


def window_tensor(workload, image):
    """The values that the stage ``windows`` of the plain form writes for an image."""
    config = default_config("im2win_nchw", workload, V3)
    data, *_, output = Im2winNchw().compute(workload, V3, config)
    stages = [output]
    for stage in stages:
        stages += list(stage.op.input_tensors)
    windows = next(stage for stage in stages if stage.op.name == "windows")
    function = tvm.tirx.build(te.create_prim_func([data, windows]), target="llvm")["main"]
    result = tvm.runtime.empty([int(extent) for extent in windows.shape], "float32")
    function(tvm.runtime.tensor(image), result)
    return result.numpy()


@settings(max_examples=6)
@given(conv2d_workloads(max_size=10, groups=(1,), channels=(1, 3), data_layouts=("NCHW",)))
def test_windows_hold_the_padded_image_bit_for_bit(workload):
    w = plain(workload)
    shape = (w.batch, w.in_channels, w.in_height, w.in_width)
    image = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    found = window_tensor(w, image)
    padding = ((0, 0), (0, 0), (w.pad_top, w.pad_bottom), (w.pad_left, w.pad_right))
    padded = np.pad(image, padding)
    span = (w.kernel_h - 1) * w.dilation_h + 1
    strips = sliding_window_view(padded, span, axis=2)[:, :, :: w.stride_h, :, :: w.dilation_h]
    np.testing.assert_array_equal(found, strips[:, :, : w.out_height, : columns(w), :])


def test_the_example_of_the_paper():
    """Figure 2-5: one channel of 3x3, a 2x2 kernel: 12 elements against 16 of im2col."""
    w = Conv2dWorkload.parse("mb1ic3ih3oc8kh2:nchw")
    assert Im2winNchw.window_bytes(w) == 4 * 36
    assert workspace(Im2col(), w, mr=1, oc=1, mc=0, kc=0) == 4 * 48


@pytest.mark.parametrize("layer", load("dnn12"), ids=lambda layer: layer.name)
def test_sizes_of_the_twelve_layers(layer):
    """Equations 2-4, 2-5 and 2-7."""
    w = replace(plain(layer.workload), batch=128)
    image, matrix, tensor = MIB[layer.name]
    mib = 2.0**20
    assert 4 * w.batch * w.in_channels * w.in_height * w.in_width / mib == pytest.approx(
        image, abs=0.051
    )
    # the source keeps columns that no window touches where the stride does not divide the width
    untouched = (w.in_width - w.kernel_w) % w.stride_w
    x = Im2winNchw.window_bytes(w) / mib * (columns(w) + untouched) / columns(w)
    assert x == pytest.approx(tensor, abs=0.051)
    m = workspace(Im2col(), w, mr=1, oc=1, mc=0, kc=0) / mib
    assert m == pytest.approx(matrix, abs=0.051)
    ratio = w.kernel_w * w.out_width / w.in_width
    assert m / x == pytest.approx(ratio, rel=0.01)


@settings(max_examples=50)
@given(conv2d_workloads(max_size=20, groups=(1,), data_layouts=("NCHW",)))
def test_the_tensor_is_never_larger_than_the_matrix(workload):
    w = replace(plain(workload), dilation_h=1, dilation_w=1)
    assume(min(w.kernel_h, w.kernel_w) >= max(w.stride_h, w.stride_w))
    assert Im2winNchw.window_bytes(w) <= workspace(Im2col(), w, mr=1, oc=1, mc=0, kc=0)


def test_a_stride_as_large_as_the_kernel_copies_nothing_twice():
    w = Conv2dWorkload.parse("mb2ic5ih12iw8oc8kh4kw4sh4sw4:nchw")
    assert Im2winNchw.window_bytes(w) == 4 * 2 * 5 * 12 * 8


def test_filters_are_packed_columns_first():
    """C4 of the checklist: ``Fw[j, r, v, u] = F[j, r, u, v]``."""
    weight = np.random.default_rng(0).standard_normal((8, 8, 3, 2), dtype=np.float32)
    w = Conv2dWorkload.parse("ic8ih8oc8kh3kw2")
    config = default_config("im2win", w, V3)
    packed = Im2win().pack_weight(weight, w, V3, config)
    np.testing.assert_array_equal(packed[0, 0, :, :, :, 0, :], weight.transpose(3, 2, 1, 0))
