"""The problem record: text and JSON round trips, derived sizes, messages."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.record_fields import field_paths, single_changes
from tests.strategies import (
    conv2d_workloads,
    conv_arrays,
    data_types,
    depthwise_workloads,
    epilogue_ops,
    volumes,
)
from tvmconv.core.datatypes import DataTypes, Quantisation
from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.core.errors import TvmconvError, WorkloadError
from tvmconv.core.workload import Conv2dWorkload

RESNET_3X3 = "mb1ic64ih56iw56oc64oh56ow56kh3kw3ph1pw1+bias+add+relu"


@given(conv2d_workloads(data_layouts=("NCHWc", "NCHW"), types=data_types()))
def test_text_form_round_trips(workload):
    assert Conv2dWorkload.parse(str(workload)) == workload


@given(conv2d_workloads(data_layouts=("NCHWc", "NCHW"), types=data_types()))
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


@given(conv2d_workloads(data_layouts=("NCHWc", "NCHW"), types=data_types()))
def test_a_change_of_any_field_changes_the_text(workload):
    for path, changed in single_changes(workload):
        assert str(changed) != str(workload), path
        assert Conv2dWorkload.parse(str(changed)) == changed, path
        data = json.loads(json.dumps(changed.to_json()))
        assert Conv2dWorkload.from_json(data) == changed, path
        assert data != workload.to_json(), path


def test_every_field_is_among_those_changed():
    texts = (
        RESNET_3X3,
        "ic16ih8oc16kh3ph1:u8s8s32u8+bias",
        "ic16ih8oc16kh3ph1:u8s8s32s32",
        "ic16id4ih8oc16kd3kh3pd1ph1",
    )
    changed = {path for text in texts for path, _ in single_changes(Conv2dWorkload.parse(text))}
    assert changed == set(field_paths(Conv2dWorkload.parse(RESNET_3X3)))


@given(epilogue_ops())
def test_every_epilogue_step_survives_the_text_form(step):
    workload = Conv2dWorkload(1, 8, 4, 4, 8, 1, 1, epilogue=(step,))
    (restored,) = Conv2dWorkload.parse(str(workload)).epilogue
    assert restored == step


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
@example(float(np.finfo(np.float32).max))
@example(float(np.finfo(np.float32).min))
@example(float(np.float32(0.1)))
def test_epilogue_parameters_keep_float32_precision(value):
    workload = Conv2dWorkload(1, 8, 4, 4, 8, 1, 1, epilogue=(EpilogueOp("leakyrelu", (value,)),))
    restored = Conv2dWorkload.parse(str(workload))
    assert restored == workload
    assert np.float32(restored.epilogue[0].params[0]) == np.float32(value)
    # a compiler's literal of that type may hold it
    assert abs(restored.epilogue[0].params[0]) <= np.finfo(np.float32).max


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_steps_with_any_parameters_round_trip(low, high):
    workload = Conv2dWorkload(1, 8, 4, 4, 8, 1, 1, epilogue=(EpilogueOp("clip", (low, high)),))
    assert Conv2dWorkload.parse(str(workload)) == workload
    assert Conv2dWorkload.from_json(workload.to_json()) == workload


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


@pytest.mark.parametrize(
    ("types", "quantisation", "marks"),
    [
        (("float32",) * 4, Quantisation(), ""),
        (("int8", "int8", "int32", "int32"), Quantisation(), ":s8s8s32s32"),
        (("uint8", "int8", "int32", "uint8"), Quantisation("float"), ":u8s8s32u8"),
        (
            ("uint8", "int8", "int32", "uint8"),
            Quantisation("fixed", True),
            ":u8s8s32u8:fixed:zpdata",
        ),
        (
            ("uint8", "int8", "int32", "uint8"),
            Quantisation("float", whole_range=True),
            ":u8s8s32u8:whole",
        ),
        (("uint8", "uint8", "int32", "float32"), Quantisation("float"), ":u8u8s32f32"),
        (("int8", "int16", "int32", "int8"), Quantisation("float"), ":s8s16s32s8"),
        (("float16", "float16", "float32", "float16"), Quantisation(), ":f16f16f32f16"),
    ],
)
def test_types_in_the_text(types, quantisation, marks):
    workload = Conv2dWorkload(1, 8, 4, 4, 8, 1, 1, types=DataTypes(*types, quantisation))
    assert str(workload) == f"mb1ic8ih4iw4oc8oh4ow4kh1kw1{marks}"
    plain = replace(workload, data_layout="NCHW")
    assert str(plain) == f"mb1ic8ih4iw4oc8oh4ow4kh1kw1:nchw{marks}"
    assert Conv2dWorkload.parse(str(plain)) == plain


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ("f99", "cannot read the types 'f99'"),
        ("u8s8", "cannot read the types"),
        ("zpdata", "cannot read the types"),
        ("u8s8s32u8:zpdata:zpdata", "each once"),
        ("u8s8s32u8:nchw", "cannot read the types"),
        ("f32f32f32f32:zpdata", "cannot be quantized"),
        ("u8s8f32u8", "floating-point types only, or 8-bit"),
        ("u8f32s32u8", "floating-point types only, or 8-bit"),
        ("u8s8s32f16", "requantise='float'"),
        ("u8s8s32s32:fixed", "none for int32 output"),
        ("u8s8s32f32:fixed", "float for float32 output"),
        ("u8s8s32f32:whole", "Expected 8-bit output"),
        ("u8s8s32u8:perchannel", "cannot read the types"),
        ("u8s8s32s16", "floating-point types only, or 8-bit"),
    ],
)
def test_types_that_do_not_belong_together_are_refused(marks, message):
    with pytest.raises(WorkloadError, match=message):
        Conv2dWorkload.parse(f"ic8ih8oc8kh3:{marks}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("+quantise", "needs 8-bit output"),
        (":u8s8s32f32+bias+quantise", "needs 8-bit output"),
        (":u8s8s32u8+relu+bias", "'bias' is the first step"),
    ],
)
def test_steps_that_integer_sums_do_not_take(text, message):
    with pytest.raises(WorkloadError, match=message):
        Conv2dWorkload.parse(f"ic8ih8oc8kh3{text}")


def test_json_of_earlier_versions_is_read():
    workload = Conv2dWorkload.parse(RESNET_3X3)
    data = workload.to_json()
    del data["types"]
    assert Conv2dWorkload.from_json({**data, "dtype": "float32"}) == workload
    assert Conv2dWorkload.from_json(data) == workload
    with pytest.raises(WorkloadError, match="dtype"):
        Conv2dWorkload.from_json({**data, "dtype": "int8"})


def test_unknown_json_fields_are_named():
    data = Conv2dWorkload.parse("ic8ih8oc8kh3").to_json()
    with pytest.raises(WorkloadError, match="paddding"):
        Conv2dWorkload.from_json({**data, "paddding": 1})
    with pytest.raises(WorkloadError, match="scale"):
        Conv2dWorkload.from_json({**data, "types": {"scale": 1}})


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
