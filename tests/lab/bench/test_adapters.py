"""Every adapter whose library is installed, on layers and a small network.

``TVMCONV_BASELINE_PYTHON`` may name environments that hold the libraries, as for ``tvmconv bench``;
libraries that are found in none are skipped.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import onnx
import pytest

from examples.quantise.__main__ import main as quantise
from tests.small_network import small_network
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.lab.baselines import BASELINES, OWN
from tvmconv.lab.bench.cases import write_layer_case, write_model_case
from tvmconv.lab.bench.gemm_run import write_gemm_case
from tvmconv.lab.bench.implementation_run import Extras
from tvmconv.lab.bench.plan import make_plan
from tvmconv.lab.bench.rounds import Workers, write_reference
from tvmconv.lab.bench.variants import Variant
from tvmconv.lab.bench.worker_process import Implementation, WorkerProcess

LAYERS = (
    "ic16ih14oc32kh3ph1",
    "ic3ih17oc8kh7sh2ph3:nchw+bias+relu",
    "g24ic24ih15oc24kh3sh2ph1+bias",
    "ic20ih12iw13oc17kh3kw5dh1ph2pw4+bias+clip(0,6)",
    "ic8ih9oc8kh3pt0pl1pb2pr1",
    "g2ic16ih9oc32kh3ph1",
)
# single precision, and what Winograd in it costs MNN
LIMITS = {"mnn": 5e-3}
# layers that a library cannot compute: NNPACK has no groups, no dilation and no upper bounds, the
# baselines of papers no groups and no epilogue
REFUSED = {"onednn": 2, "acl": 1, "nnpack": 3, "direct_loops": 4, "winograd_blas": 4}


@pytest.fixture(scope="module")
def workers():
    plan = make_plan(baseline_python=os.environ.get("TVMCONV_BASELINE_PYTHON", "").split())
    found: dict[str, WorkerProcess] = {}
    for name, baseline in BASELINES.items():
        found[name] = WorkerProcess(Implementation(name, baseline.module, plan.python(name)), 1)
    yield found
    for worker in found.values():
        worker.close()


def worker_of(workers: dict[str, WorkerProcess], name: str) -> WorkerProcess:
    answer = workers[name].ask(120, do="hello")
    if "absent" in answer:
        pytest.skip(f"{name} is not installed: {answer['absent']}")
    assert answer["version"], answer
    return workers[name]


def check(worker: WorkerProcess, folder: Path, name: str, options=()):
    answer = worker.ask(300, do="prepare", folder=str(folder), options=dict(options), write=None)
    if "unsupported" in answer:
        return answer["unsupported"]
    assert "failure" not in answer, answer
    assert answer["error"] < LIMITS.get(name, 1e-5)
    return None


def adapters(kind: str) -> list[object]:
    """Names of the adapters that take part; torch.compile calls a C++ compiler for each case."""
    return [
        pytest.param(name, marks=pytest.mark.slow) if name == "torch_compile" else name
        for name, baseline in BASELINES.items()
        if getattr(baseline, kind)
    ]


@pytest.mark.parametrize("name", adapters("layers"))
def test_layers(workers, name, tmp_path):
    worker = worker_of(workers, name)
    refused = []
    for index, text in enumerate(LAYERS):
        folder = tmp_path / str(index)
        folder.mkdir()
        write_layer_case(folder, Conv2dWorkload.parse(text))
        if reason := check(worker, folder, name):
            refused.append(reason)
    assert len(refused) <= REFUSED.get(name, 0), refused


@pytest.mark.parametrize("name", ["onnxruntime", "openvino", "openvino_profile", "litert"])
@pytest.mark.parametrize(
    "text",
    [
        "ic16ih14oc32kh3ph1:u8s8s32u8:zpdata+bias",
        "g32ic32ih15oc32kh3sh2ph1:u8s8s32u8:zpdata+bias",
        "ic24ih7oc16kh1:u8s8s32u8+bias+quantise+add",
    ],
)
def test_8_bit_layers(workers, name, text, tmp_path):
    write_layer_case(tmp_path, Conv2dWorkload.parse(text))
    worker = worker_of(workers, name)
    answer = worker.ask(300, do="prepare", folder=str(tmp_path), options={}, write=None)
    # values saturate on CPUs without VNNI, and OpenVINO adds unrounded
    assert answer["facts"]["differing"] < 0.3, answer
    samples = worker.ask(300, do="time", seconds=0.001, calls=2)["samples"]
    assert all(0 <= sample < 1 for sample in samples)


@pytest.mark.parametrize(
    "name", [name for name, baseline in BASELINES.items() if baseline.products]
)
def test_products(workers, name, tmp_path):
    write_gemm_case(tmp_path, GemmWorkload.parse("gemm:m33n50k20"))
    assert check(worker_of(workers, name), tmp_path, name) is None


def test_torch_without_onednn_is_im2col(workers, tmp_path):
    write_layer_case(tmp_path, Conv2dWorkload.parse("ic16ih14oc32kh3ph1"))
    worker = worker_of(workers, "torch_im2col")
    answer = worker.ask(300, do="prepare", folder=str(tmp_path), options={}, write=None)
    assert "slow_conv2d" in answer["info"]
    assert "mkldnn" not in answer["info"]


@pytest.mark.parametrize("name", adapters("models"))
def test_small_network(workers, name, tmp_path):
    worker = worker_of(workers, name)
    path = tmp_path / "small.onnx"
    onnx.save(small_network(), path)
    info = write_model_case(tmp_path, path, None)
    assert info.flops > 0
    write_reference(
        Implementation("reference", BASELINES["onnxruntime"].module, sys.executable), tmp_path
    )
    assert check(worker, tmp_path, name) is None


@pytest.mark.parametrize("name", ["onnxruntime", "openvino", "litert", "ncnn"])
def test_quantized_network(workers, name, tmp_path):
    worker = worker_of(workers, name)
    path = tmp_path / "small.onnx"
    onnx.save(small_network(), tmp_path / "float.onnx")
    assert quantise([str(tmp_path / "float.onnx"), "-o", str(path), "--count", "2"]) == 0
    assert write_model_case(tmp_path, path, None).quantized
    implementation = Implementation("reference", BASELINES["onnxruntime"].module, sys.executable)
    write_reference(implementation, tmp_path, exact=True)
    answer = worker.ask(300, do="prepare", folder=str(tmp_path), options={}, write=None)
    # ncnn rounds residuals elsewhere, and to numbers that are symmetric about zero
    assert answer["error"] < (0.15 if name == "ncnn" else 0.03), answer


@pytest.mark.parametrize("name", ["onnxruntime", "ncnn", "mnn", "tvmconv"])
def test_files_are_loaded_in_fresh_processes(name, tmp_path, monkeypatch):
    # benches use the quickest of five loads
    monkeypatch.setattr("tvmconv.lab.bench.rounds._LOADS", 1)
    path = tmp_path / "small.onnx"
    onnx.save(small_network(), path)
    info = write_model_case(tmp_path, path, None)
    write_reference(
        Implementation("reference", BASELINES["onnxruntime"].module, sys.executable), tmp_path
    )
    implementation = Implementation(
        name, {**BASELINES, **OWN}[name].module, sys.executable, (("log", "none"),)
    )
    with Workers([implementation], 1, (), Extras(load=True)) as workers:
        workers.hello()
        if workers.absent:
            pytest.skip(workers.absent[name])
        (entry,) = workers.measure(tmp_path, info, 1, 0.001, {}).entries
    assert entry.status == "ok", entry.message
    assert entry.facts["file_bytes"] > 1000
    assert 0 < entry.facts["first_call_seconds"] < 60 > entry.facts["load_seconds"] > 0
    assert entry.facts["load_bytes"] > 0


def test_layers_have_no_file_of_their_own(tmp_path):
    folder = tmp_path / "layer"
    folder.mkdir()
    write_layer_case(folder, Conv2dWorkload.parse("ic16ih14oc32kh3ph1"))
    worker = WorkerProcess(Implementation("tvmconv", OWN["tvmconv"].module, sys.executable), 1)
    try:
        options = {"workload": "ic16ih14oc32kh3ph1"}
        answer = worker.ask(300, do="export", folder=str(folder), options=options)
    finally:
        worker.close()
    assert "only models" in answer["unsupported"]


def test_symbolic_shapes_reach_the_libraries(workers, tmp_path):
    path = tmp_path / "symbolic.onnx"
    onnx.save(small_network("N"), path)
    write_model_case(tmp_path, path, {"input": (2, 3, 21, 20)})
    write_reference(
        Implementation("reference", BASELINES["onnxruntime"].module, sys.executable), tmp_path
    )
    assert check(worker_of(workers, "onnxruntime"), tmp_path, "onnxruntime") is None


@pytest.mark.parametrize(
    ("text", "algorithm"),
    [
        ("ic20ih9oc33kh3ph1+bias+add+relu", "direct"),
        ("ic3ih17oc8kh7sh2ph3:nchw+bias+relu", "direct_first"),
        ("g24ic24ih15oc24kh3sh2ph1+bias", "depthwise"),
    ],
)
def test_own_kernels(text, algorithm, tmp_path):
    write_layer_case(tmp_path, Conv2dWorkload.parse(text))
    worker = WorkerProcess(Implementation("tvmconv", OWN["tvmconv"].module, sys.executable), 1)
    options = {"workload": text, "variant": Variant(algorithm).to_json(), "target": "native"}
    try:
        assert check(worker, tmp_path, "tvmconv", options.items()) is None
        other = "depthwise" if algorithm != "depthwise" else "direct"
        options["variant"] = Variant(other).to_json()
        assert "cannot compute" in check(worker, tmp_path, "tvmconv", options.items())
    finally:
        worker.close()


@pytest.mark.parametrize("options", [{}, {"relax": True}], ids=["build", "relax"])
def test_own_models(options, tmp_path):
    path = tmp_path / "small.onnx"
    onnx.save(small_network(), path)
    write_model_case(tmp_path, path, None)
    write_reference(
        Implementation("reference", BASELINES["onnxruntime"].module, sys.executable), tmp_path
    )
    worker = WorkerProcess(Implementation("tvmconv", OWN["tvmconv"].module, sys.executable), 1)
    try:
        assert check(worker, tmp_path, "tvmconv", {**options, "log": "none"}.items()) is None
    finally:
        worker.close()
