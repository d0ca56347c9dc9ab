"""Layer cases: the float64 reference against onnxruntime on the ONNX file written beside it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings

from tests.strategies import conv2d_workloads, depthwise_workloads
from tvmconv.bench.cases import write_layer_case
from tvmconv.bench.gemm_run import write_gemm_case
from tvmconv.bench.peers.case import read_case, read_reference, relative_error
from tvmconv.core.epilogue_op import EPILOGUE_KINDS
from tvmconv.core.errors import InputError
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.core.workload import Conv2dWorkload


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


def test_case_files_are_what_peers_need(tmp_path: Path):
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


def test_layers_of_other_types_are_refused(tmp_path):
    with pytest.raises(InputError, match="it computes in float32, not u8s8s32u8"):
        write_layer_case(tmp_path, Conv2dWorkload.parse("ic8ih8oc8kh3:u8s8s32u8"))
    with pytest.raises(InputError, match="it computes in float32, not u8s8s32u8"):
        write_gemm_case(tmp_path, GemmWorkload.parse("gemm:m4n4k4:u8s8s32u8"))
