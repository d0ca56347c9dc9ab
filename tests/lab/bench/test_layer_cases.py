"""Layer cases: the float64 reference against onnxruntime on the written ONNX file."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings

from tests.strategies import conv2d_workloads, depthwise_workloads
from tvmconv.core.epilogue_op import EPILOGUE_KINDS
from tvmconv.core.errors import InputError
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.lab.baselines import ort as ort_adapter
from tvmconv.lab.baselines.case import differing, read_case, read_reference, relative_error
from tvmconv.lab.bench.cases import write_layer_case
from tvmconv.lab.bench.gemm_run import write_gemm_case


def check(workload: Conv2dWorkload) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        info = write_layer_case(folder, workload)
        case = read_case(folder, {})
        session = ort.InferenceSession(str(case.onnx), providers=["CPUExecutionProvider"])
        outputs = session.run(list(case.outputs), dict(case.inputs))
        error = relative_error(
            dict(zip(case.outputs, outputs, strict=True)), read_reference(folder)
        )
    assert error < 1e-5, workload
    assert (info.problem, info.flops) == (str(workload), workload.flops)


@settings(max_examples=40)
@given(conv2d_workloads())
def test_dense_and_grouped(workload: Conv2dWorkload):
    check(workload)


@settings(max_examples=15)
@given(depthwise_workloads())
def test_depthwise(workload: Conv2dWorkload):
    check(workload)


@pytest.mark.parametrize("kind", EPILOGUE_KINDS)
def test_every_epilogue_step(kind):
    params = {1: "(0.25)", 2: "(0.25,0.75)"}.get(EPILOGUE_KINDS[kind], "")
    check(Conv2dWorkload.parse(f"ic5ih6oc7kh3ph1+add+{kind}{params}".replace("+add+add", "+add")))


@pytest.mark.parametrize(
    "text",
    [
        "ic16ih9oc24kh3ph1:u8s8s32u8:zpdata+bias",
        "ic16ih9oc24kh3ph1sh2:u8s8s32u8+bias",
        "g8ic8ih9oc8kh3ph1:s8s8s32s8:zpdata+bias",
        "ic24ih7oc16kh1:u8s8s32u8+bias+quantise+add",
    ],
)
def test_8_bit_layers_are_what_onnxruntime_computes_without_optimizations(tmp_path, text):
    """It rounds sums of reals, we round sums of integers that are scaled: few differ."""
    write_layer_case(tmp_path, Conv2dWorkload.parse(text))
    case = read_case(tmp_path, {"exact": True})
    outputs, expected = ort_adapter.prepare(case, 1).outputs(), read_reference(tmp_path)
    (name,) = case.outputs
    assert outputs[name].dtype == expected[name].dtype
    assert len(np.unique(expected[name])) > 100
    assert np.abs(outputs[name].astype(int) - expected[name]).max() <= 1
    share = differing(outputs, expected)
    assert share is not None and share < 5e-3
    outputs[name] = outputs[name] ^ 1
    assert differing(outputs, expected) > 0.9


def test_share_that_differs_is_of_integers_alone():
    want = np.array([1, 2, 3, 4], np.uint8)
    assert differing({"y": np.array([1, 2, 3, 5], np.uint8)}, {"y": want}) == 0.25
    assert differing({"y": want.astype(np.float32)}, {"y": want.astype(np.float32)}) is None
    assert differing({}, {"y": want}) is None


def test_case_files_are_what_libraries_need(tmp_path: Path):
    write_layer_case(tmp_path, Conv2dWorkload.parse("ic5ih6oc7kh3ph1+bias+add+relu"))
    data = json.loads((tmp_path / "case.json").read_text())
    assert [node["op"] for node in data["nodes"]] == ["Conv", "Add", "Relu"]
    assert data["nodes"][0]["inputs"] == ["data", "weight", "bias"]
    assert data["inputs"] == ["data", "residual"]


def test_relative_error_sees_shape_and_nan():
    want = {"y": np.array([1.0, -4.0])}
    assert relative_error({"y": np.array([1.0, -3.0])}, want) == 0.25
    assert relative_error({"y": np.array([1.0])}, want) == float("inf")
    assert relative_error({"y": np.array([1.0, np.nan])}, want) == float("inf")
    assert relative_error({}, want) == float("inf")


def test_narrow_floats_are_float32_values_of_that_type(tmp_path):
    """Which files of arrays have, and other libraries multiply."""
    write_layer_case(tmp_path, Conv2dWorkload.parse("ic5ih6oc7kh3ph1:bf16bf16f32bf16+bias+add"))
    case = read_case(tmp_path, {})
    for name in ("data", "residual", "weight"):
        values = case.constants[name] if name == "weight" else case.inputs[name]
        assert values.dtype == np.float32
        assert not (values.view(np.uint32) & 0xFFFF).any()
    assert (case.constants["bias"].view(np.uint32) & 0xFFFF).any()


def test_layers_of_other_types_are_refused(tmp_path):
    for text in (":u8s8s32s32", ":u8s16s32u8", ":u8s8s32u8+bias+relu", ":u8s8s32f32+bias"):
        with pytest.raises(InputError, match=r"the layer .* Expected an INT8 layer"):
            write_layer_case(tmp_path, Conv2dWorkload.parse(f"ic8ih8oc8kh3{text}"))
    with pytest.raises(InputError, match=r"it computes in float32 or .*, not u8s8s32u8"):
        write_gemm_case(tmp_path, GemmWorkload.parse("gemm:m4n4k4:u8s8s32u8"))
