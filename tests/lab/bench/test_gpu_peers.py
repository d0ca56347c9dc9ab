"""Adapters of libraries on GPUs, tried on a CPU: their results and their refusals."""

from __future__ import annotations

import sys
import types

import pytest

from tests.small_network import small_network
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.lab.baselines import OF_KIND, ort_cuda, torch_jit
from tvmconv.lab.baselines.case import Unsupported, read_case
from tvmconv.lab.bench.cases import write_layer_case, write_model_case
from tvmconv.lab.bench.worker_process import Implementation, WorkerProcess

BASELINES = OF_KIND["cuda"]
LAYERS = (
    "ic16ih14oc32kh3ph1",
    "mb2ic3ih17oc8kh7sh2ph3:nchw+bias+relu",
    "ic20ih12iw13oc17kh3kw5dh1ph2pw4+bias+clip(0,6)",
    "ic8ih9oc8kh3pt0pl1pb2pr1+bias+add+relu",
    "g2ic16ih9oc32kh3ph1",
)


@pytest.fixture(scope="module")
def workers():
    found = {}
    for name, baseline in BASELINES.items():
        found[name] = WorkerProcess(Implementation(name, baseline.module, sys.executable), 1)
    yield found
    for worker in found.values():
        worker.close()


@pytest.mark.parametrize("name", BASELINES)
def test_without_a_gpu_an_error_says_so(workers, name):
    answer = workers[name].ask(120, do="hello")
    if "version" in answer:
        pytest.skip("this machine has a GPU")
    assert any(word in answer["absent"] for word in ("sees no GPU", "has no CUDA", "No module"))


@pytest.mark.parametrize("name", ["torch", "cudnn", "im2col_cublas"])
def test_layers_on_the_processor(workers, name, tmp_path):
    pytest.importorskip("torch")
    refused = []
    for index, text in enumerate(LAYERS):
        folder = tmp_path / str(index)
        folder.mkdir()
        write_layer_case(folder, Conv2dWorkload.parse(text), places=64)
        options = {"device": "cpu", "stages": True}
        answer = workers[name].ask(
            300, do="prepare", folder=str(folder), options=options, write=None, slot="one"
        )
        if "unsupported" in answer:
            refused.append(answer["unsupported"])
            continue
        assert answer["error"] < 1e-5, answer
        timed = workers[name].ask(60, do="time", seconds=0.001, calls=3, slot="one")
        assert len(timed["samples"]) >= 3
        for stage in answer["stages"]:
            timed = workers[name].ask(60, do="time", seconds=0, calls=1, slot="one", stage=stage)
            assert timed["samples"][0] > 0
    # unfold knows no groups
    assert refused == (["plain 2-D convolutions only"] if name == "im2col_cublas" else [])
    if name == "im2col_cublas":
        assert len(answer.get("stages", ["im2col", "product"])) == 2


@pytest.mark.parametrize("name", ["torch", "cudnn", "im2col_cublas"])
@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_libraries_have_the_requested_precision(workers, name, precision, tmp_path):
    pytest.importorskip("torch")
    write_layer_case(tmp_path, Conv2dWorkload.parse(LAYERS[1]))
    options = {"device": "cpu", "precision": precision}
    answer = workers[name].ask(
        300, do="prepare", folder=str(tmp_path), options=options, write=None, slot=precision
    )
    assert answer["facts"]["precision"] == precision
    # a CPU has no TF32, and rounds every tensor to FP16, also the operand added to the sum
    assert (answer["error"] > 1e-4) == (precision == "fp16")
    assert answer["error"] < 2e-3


def test_modules_are_one_graph_of_torch_compile(tmp_path):
    """Otherwise torch_compile would measure pieces with Python between them."""
    torch = pytest.importorskip("torch")
    import onnx

    path = tmp_path / "small.onnx"
    onnx.save(small_network(1), path)
    write_model_case(tmp_path, path, None)
    case = read_case(tmp_path, {})
    module = torch_jit.module_of(case).eval()
    values = [torch.from_numpy(value) for value in case.inputs.values()]
    # raises where something breaks the graph
    whole = torch.compile(module, backend="eager", fullgraph=True)
    with torch.no_grad():
        assert torch.equal(whole(*values), module(*values))


@pytest.mark.parametrize("released", [True, False], ids=["1.21", "1.20"])
def test_onnxruntime_finds_the_cuda_libraries_of_pip(released, tmp_path, monkeypatch):
    """It loads them only where it is asked to, before a session is made; later is too late."""
    done = []

    class Session:
        def __init__(self, *_, **__):
            done.append("session")

        def get_providers(self):
            return ["CPUExecutionProvider"]

    fake = types.ModuleType("onnxruntime")
    fake.__version__, fake.SessionOptions, fake.InferenceSession = (
        "1",
        types.SimpleNamespace,
        Session,
    )
    if released:
        fake.preload_dlls = lambda: done.append("libraries")
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    write_layer_case(tmp_path, Conv2dWorkload.parse(LAYERS[0]))
    with pytest.raises(Unsupported, match="could not start its CUDAExecutionProvider"):
        ort_cuda.prepare(read_case(tmp_path, {}), 1)
    assert done == ["libraries"] * released + ["session"]


def test_networks_on_the_processor(workers, tmp_path):
    pytest.importorskip("torch")
    import onnx
    import onnxruntime

    path = tmp_path / "small.onnx"
    onnx.save(small_network(2), path)
    write_model_case(tmp_path, path, None)
    import numpy as np

    with np.load(tmp_path / "inputs.npz") as file:
        inputs = dict(file)
    session = onnxruntime.InferenceSession(str(path))
    names = [output.name for output in session.get_outputs()]
    np.savez(
        tmp_path / "reference.npz", **dict(zip(names, session.run(names, inputs), strict=True))
    )
    options = {"device": "cpu", "clock": "host"}
    answer = workers["torch"].ask(
        300, do="prepare", folder=str(tmp_path), options=options, write=None
    )
    assert answer["error"] < 1e-5, answer
