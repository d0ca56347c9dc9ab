"""Baselines, layouts, batches and poolings for measurements of the papers."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tvmconv.core.errors import InputError, WorkloadError
from tvmconv.core.pool_workload import PoolWorkload
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel
from tvmconv.lab.baselines.case import Unsupported, read_case, read_reference, relative_error
from tvmconv.lab.bench.case_memory import is_sampled, too_large
from tvmconv.lab.bench.cases import write_layer_case, write_pooling_case
from tvmconv.lab.bench.kernel_run import KernelRun
from tvmconv.lab.bench.measuring import fitting, run_plan
from tvmconv.lab.bench.plan import make_plan
from tvmconv.lab.bench.worker_process import Implementation
from tvmconv.machines.targets import resolve_machine
from tvmconv.measuring.operands import random_operands
from tvmconv.measuring.reference import convolution
from tvmconv.measuring.suites import load_problems, parse_layer

COMPILER = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")


@COMPILER
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("direct_loops", "mb2ic3ih9iw11oc5kh3kw2sh2sw3dh1ph2pw1+bias"),
        ("direct_loops", "mb1ic4ih7oc6kh3pt0pl1pb2pr1"),
        ("winograd_blas", "mb2ic5ih9iw11oc7kh3ph1+bias"),
        ("winograd_blas", "mb1ic4ih7oc6kh3pt0pl1pb2pr1"),
        ("openblas", "mb2ic4ih7oc6kh3ph1"),
    ],
)
def test_baselines_of_the_papers_again_and_again(name: str, text: str, tmp_path: Path) -> None:
    write_layer_case(tmp_path, Conv2dWorkload.parse(text))
    adapter = import_module(f"tvmconv.lab.baselines.{name}")
    session = adapter.prepare(read_case(tmp_path, {"stages": True}), 1)
    stages = session.stages
    assert (
        list(stages)
        == {
            "direct_loops": [],
            "winograd_blas": ["input transform", "products", "output transform"],
            "openblas": ["im2col", "products"],
        }[name]
    )
    for call in (session.run, *stages.values(), session.run):
        call()
    assert relative_error(session.outputs(), read_reference(tmp_path)) < 5e-6


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("direct_loops", "g2ic4ih9oc4kh3"),
        ("direct_loops", "ic4ih9oc4kh3+relu"),
        ("winograd_blas", "ic4ih9oc4kh5"),
        ("winograd_blas", "ic4ih9oc4kh3sh2"),
    ],
)
def test_baselines_of_the_papers_refuse_other_layers(name: str, text: str, tmp_path: Path) -> None:
    write_layer_case(tmp_path, Conv2dWorkload.parse(text))
    adapter = import_module(f"tvmconv.lab.baselines.{name}")
    with pytest.raises(Unsupported):
        adapter.prepare(read_case(tmp_path, {}), 1)


def test_all_does_not_mean_baselines_of_papers() -> None:
    assert {"direct_loops", "winograd_blas"}.isdisjoint(
        make_plan(layers=["ic4ih9oc4kh3"]).baselines
    )
    plan = make_plan(layers=["ic4ih9oc4kh3"], baselines="direct_loops,winograd_blas")
    assert plan.baselines == ("direct_loops", "winograd_blas")


@pytest.mark.parametrize("text", ["mb2ic20ih9iw7oc19kh3ph1", "ic3ih9oc5kh3:nchw"])
def test_a_layer_from_nchw_to_nchw(text: str) -> None:
    workload = Conv2dWorkload.parse(text)
    inputs, constants = random_operands(workload)
    algorithm = "direct" if workload.data_layout == "NCHWc" else "direct_first"
    kernel = make_kernel(workload, resolve_machine("native", 1), algorithm)
    run = KernelRun(kernel, inputs, constants, 1, nchw=True)
    run()
    error = np.abs(run.output() - convolution(workload, inputs, constants)).max()
    assert run.output().shape == workload.result_shape
    assert error < 1e-5
    stages = run.stages()
    converts = workload.data_layout == "NCHWc"
    assert list(stages) == ["input layout"] * converts + ["convolution", "output layout"]
    for call in stages.values():
        call()


def test_a_batch_is_halved_until_memory_is_sufficient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvmconv.lab.bench.case_memory.available_bytes", lambda: 8 << 30)
    (layer,) = make_plan(suites=["dnn12"], batch=128, fits=True).layers[3:4]
    peers = [Implementation(name, "", "") for name in ("peak", "tvmconv direct", "torch")]
    found = fitting(layer, peers, nchw=True)
    labels = [peer.label for peer in peers]
    assert (found.name, found.workload.batch) == ("conv4 mb32", 32)
    assert not too_large(found.workload, labels, nchw=True)
    assert is_sampled(found.workload)
    assert not is_sampled(parse_layer("ic64ih224oc64kh7sh2").workload)
    with pytest.raises(InputError, match="convolution layers"):
        make_plan(suites=["poolings"], fits=True, batch=2)


@pytest.mark.parametrize(
    "text", ["maxpool:mb10ic96ih55kh3sh2", "avgpool:mb1ic4ih9iw11kh3kw2sh2sw1ph1pw0"]
)
def test_poolings_parse_to_the_string_they_show(text: str, tmp_path: Path) -> None:
    workload = PoolWorkload.parse(text)
    assert str(workload) == text
    if workload.batch == 1:
        import onnxruntime as ort

        write_pooling_case(tmp_path, workload)
        case = read_case(tmp_path, {})
        session = ort.InferenceSession(tmp_path / "model.onnx")
        (output,) = session.run(None, dict(case.inputs))
        assert relative_error({"pooled": output}, read_reference(tmp_path)) < 1e-6


@pytest.mark.parametrize(
    "text",
    ["maxpool:ic4kh3", "pool:ic4ih9kh3", "maxpool:ic4ih9kh3xx1", "maxpool:ic4ih2kh3",
     "maxpool:ic4ih9kh3ph3", "maxpool:ic4ih9kh3sh0"],
)  # fmt: skip
def test_other_poolings_are_refused(text: str) -> None:
    with pytest.raises(WorkloadError):
        PoolWorkload.parse(text)


def test_the_poolings_of_ftengine() -> None:
    sizes = [pool.workload.result_shape[1:3] for pool in load_problems("poolings")]
    printed = [(96, 27), (256, 13), (256, 6), (64, 112), (128, 56), (256, 28), (512, 14), (512, 7)]
    assert sizes == printed


@pytest.mark.slow
def test_a_pooling_through_the_bench() -> None:
    layers, names = ["maxpool:ic8ih9kh3sh2"], "onnxruntime,direct_loops"
    (case,) = run_plan(
        make_plan(layers=layers, baselines=names, batch=2, rounds=1, seconds=0.001)
    ).results
    assert (case.name, case.kind, case.images) == ("maxpool:mb2ic8ih9kh3sh2", "pooling", 2)
    found = {entry.label: (entry.status, entry.error) for entry in case.entries[1:]}
    assert found == {"tvmconv": ("ok", 0.0), "onnxruntime": ("ok", 0.0)}
