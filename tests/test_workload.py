"""The problem record: text and JSON round trips, derived sizes, messages."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.strategies import (
    conv2d_workloads,
    conv_arrays,
    depthwise_workloads,
    epilogue_ops,
    volumes,
)
from tvmconv.errors import TvmconvError, WorkloadError
from tvmconv.workload import Conv2dWorkload, EpilogueOp

RESNET_3X3 = "mb1ic64ih56iw56oc64oh56ow56kh3kw3ph1pw1+bias+add+relu"


@given(conv2d_workloads(data_layouts=("NCHWc", "NCHW")))
def test_text_form_round_trips(workload):
    assert Conv2dWorkload.parse(str(workload)) == workload


@given(conv2d_workloads(data_layouts=("NCHWc", "NCHW")))
def test_json_form_round_trips(workload):
    assert Conv2dWorkload.from_json(json.loads(json.dumps(workload.to_json()))) == workload


@given(volumes(conv2d_workloads(data_layouts=("NCHWc", "NCHW"))))
def test_volumes_round_trip(workload):
    assert Conv2dWorkload.parse(str(workload)) == workload
    assert Conv2dWorkload.from_json(json.loads(json.dumps(workload.to_json()))) == workload


def test_images_are_written_as_before_there_were_volumes():
    workload = Conv2dWorkload.parse(RESNET_3X3)
    assert str(workload) == RESNET_3X3
    assert not workload.is_volume
    assert not {key for key in workload.to_json() if key.endswith(("_d", "depth", "front", "back"))}


def test_volume_text_follows_benchdnn():
    text = "mb1ic3id16ih112iw112oc64od16oh56ow56kd3kh7kw7sh2sw2pd1ph3pw3:nchw+bias"
    workload = Conv2dWorkload.parse("ic3id16ih112oc64kd3kh7sh2pd1ph3:nchw+bias")
    assert str(workload) == text
    assert workload.taps == 3 * 3 * 7 * 7
    assert workload.macs == 64 * 16 * 56 * 56 * 441
    assert (workload.data_shape, workload.result_shape) == ((16, 3, 112, 112), (16, 64, 56, 56))
    with pytest.raises(WorkloadError, match="od should be 16, not 15"):
        Conv2dWorkload.parse(text.replace("od16", "od15"))
    with pytest.raises(WorkloadError, match="0x7x7; the kernel does not fit"):
        Conv2dWorkload.parse("ic8id2ih9oc8kd3kh3")


@given(epilogue_ops())
def test_every_epilogue_step_survives_the_text_form(step):
    workload = Conv2dWorkload(1, 8, 4, 4, 8, 1, 1, epilogue=(step,))
    (restored,) = Conv2dWorkload.parse(str(workload)).epilogue
    assert restored == step


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_epilogue_parameters_keep_float32_precision(value):
    workload = Conv2dWorkload(1, 8, 4, 4, 8, 1, 1, epilogue=(EpilogueOp("leakyrelu", (value,)),))
    (restored,) = Conv2dWorkload.parse(str(workload)).epilogue
    assert np.float32(restored.params[0]) == np.float32(value)


@settings(max_examples=60)
@given(conv2d_workloads(with_epilogue=False, channels=(1, 3), max_size=9))
def test_output_size_is_what_onnxruntime_computes(workload):
    assert _onnxruntime_shape(workload) == (
        workload.batch,
        workload.out_channels,
        workload.out_height,
        workload.out_width,
    )


@given(depthwise_workloads())
def test_depthwise_is_recognised(workload):
    assert workload.is_depthwise
    assert workload.flops == 2 * (
        workload.batch
        * workload.out_channels
        * workload.out_height
        * workload.out_width
        * workload.kernel_h
        * workload.kernel_w
    )


def test_canonical_text_of_a_residual_layer():
    steps = (EpilogueOp("bias"), EpilogueOp("add"), EpilogueOp("relu"))
    workload = Conv2dWorkload(
        1, 64, 56, 56, 64, 3, 3, pad_top=1, pad_left=1, pad_bottom=1, pad_right=1, epilogue=steps
    )
    assert str(workload) == RESNET_3X3
    assert workload.flops == 231_211_008


def test_short_text_fills_in_the_vertical_twins():
    short = Conv2dWorkload.parse("ic64ih56oc64kh3ph1+bias+add+relu")
    assert str(short) == RESNET_3X3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot read the problem string ''"),
        ("ic64", r"lacks \['ih', 'kh', 'oc'\]"),
        ("ic8ih8oc8kh3zz4", r"unknown token\(s\) \['zz'\]"),
        ("ic8ih8oc8kh3oh9", "oh should be 6, not 9"),
        ("ic8ih8oc8kh9", "does not fit the padded input"),
        ("g3ic8ih8oc8kh1", "groups=3 must divide in_channels=8"),
        ("ic8ih8oc8kh3+swish", "'swish' is unknown; use one of bias"),
        ("ic8ih8oc8kh3+clip(1)", r"takes 2 parameter\(s\)"),
        ("ic8ih8oc8kh3+clip(a,b)", "cannot read the epilogue step"),
        ("ic8ih8oc8kh3sh0", "stride_h=0 must be an integer of 1 or more"),
        ("ic99999999999ih8oc8kh3", "in_channels=99999999999 must be an integer"),
        ("ic" + "9" * 5000, "cannot read the problem string"),
        ("ic8ih8oc8kh3+bias+bias", "at most one 'bias'"),
    ],
)
def test_unreadable_text_says_what_is_wrong(text, message):
    with pytest.raises(WorkloadError, match=message):
        Conv2dWorkload.parse(text)


@given(st.text(max_size=40))
def test_any_text_gives_a_workload_or_our_own_error(text):
    try:
        workload = Conv2dWorkload.parse(text)
    except TvmconvError:
        return
    assert Conv2dWorkload.parse(str(workload)) == workload


def test_unknown_json_fields_are_named():
    data = Conv2dWorkload.parse("ic8ih8oc8kh3").to_json()
    with pytest.raises(WorkloadError, match="paddding"):
        Conv2dWorkload.from_json({**data, "paddding": 1})


def _onnxruntime_shape(workload: Conv2dWorkload) -> tuple[int, ...]:
    w = workload
    arrays = conv_arrays(w)
    node = helper.make_node(
        "Conv",
        ["x", "w"],
        ["y"],
        strides=[w.stride_h, w.stride_w],
        dilations=[w.dilation_h, w.dilation_w],
        pads=[w.pad_top, w.pad_left, w.pad_bottom, w.pad_right],
        group=w.groups,
    )
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
        for name, array in (("x", arrays.data), ("w", arrays.weight))
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    graph = helper.make_graph([node], "conv", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": arrays.data, "w": arrays.weight})
    return tuple(result.shape)
