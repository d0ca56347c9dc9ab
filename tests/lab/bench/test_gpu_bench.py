"""Bench of kernels for GPUs on the emulated driver: verified, timed, saved; nothing of times."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.verbs import data_of, invoke
from tests.emulated_gpu import EmulatedGpu, bare, needs_emulator
from tests.small_network import small_network
from tvmconv.core.errors import ConfigError, InputError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.lab.baselines import own_gpu
from tvmconv.lab.baselines.case import PLACES, read_case, read_reference, relative_error
from tvmconv.lab.bench.cases import write_layer_case
from tvmconv.lab.bench.gpu.predicted import NOT_MEASURED, predict_plan
from tvmconv.lab.bench.gpu.predictions import gpu_facts, share_right
from tvmconv.lab.bench.plan import make_plan
from tvmconv.lab.bench.variants import parse_variants
from tvmconv.machines.cuda import MACHINES
from tvmconv.measuring.operands import random_operands
from tvmconv.measuring.reference import convolution, convolution_at, drawn_places

LAYER = "mb2ic8ih6oc40kh3ph1+bias+relu"
WORDS = (
    "bench",
    "run",
    "--layer",
    LAYER,
    "--target",
    "cuda:sm_90",
    "--rounds",
    "5",
    "--seconds",
    "0.001",
)
WORDS += ("--algorithms", "direct,implicit_gemm")


@pytest.fixture(scope="module")
def gpu(tmp_path_factory) -> EmulatedGpu:
    return EmulatedGpu(tmp_path_factory.mktemp("gpu"))


@pytest.fixture(scope="module")
def kernels(gpu: EmulatedGpu) -> Path:
    """Kernels that were compiled before, as for a machine without a compiler."""
    folder = gpu.folder / "kernels"
    done = gpu.tvmconv(*WORDS, "--kernels", folder, "--compile-only", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["kernels"]
    assert {row["algorithm"] for row in rows} >= {"direct", "implicit_gemm"}
    assert not [row for row in rows if "failure" in row]
    return folder


@needs_emulator
def test_compiled_kernels_are_measured_where_nothing_compiles(gpu, kernels, tmp_path):
    saved = tmp_path / "saved.json"
    words = (
        "--kernels",
        kernels,
        "--baselines",
        "torch,onnxruntime",
        "--stages",
        "--cold",
        "--memory",
    )
    words += ("--device", "1", "--report", saved)
    there = {"TVMCONV_EMULATED_GPUS": "2", "TVMCONV_EMULATED_CUDA": "12040"}
    done = gpu.tvmconv(*WORDS, *words, **bare(gpu, tmp_path), **there)
    assert done.returncode == 0, done.stderr
    data = json.loads(saved.read_text())
    (told,) = [note for note in data["notes"] if note.startswith("the driver knows CUDA")]
    assert "up to 12.4, and not the machine code; kernels that it translated from PTX: 2" in told
    assert data["machine"]["gpu"]["pci_bus"] == "0000:02:00.0"
    assert data["machine"]["gpu"]["name"] == "emulated on the processor"
    (case,) = data["results"]
    entries = {entry["label"]: entry for entry in case["entries"]}
    for label in ("tvmconv direct", "tvmconv implicit_gemm"):
        entry = entries[label]
        assert entry["status"] == "ok", entry
        assert entry["error"] < 1e-6
        assert sum(map(len, entry["rounds"])) >= 50
        assert sum(map(len, entry["cold"])) >= 50
        assert entry["facts"]["predicted_seconds"] > 0
        assert entry["facts"]["call_bytes"] >= 4 * 2 * 40 * 36
        assert len(entry["stages"]) == len(entry["facts"]["launches"])
    assert entries["peak"]["status"] == "ok"
    for baseline in ("torch", "onnxruntime"):
        assert entries[baseline]["status"] == "absent"
        assert "no " in entries[baseline]["message"].lower()
    assert {row["contender"] for row in data["predictions"]} == {
        "tvmconv direct",
        "tvmconv implicit_gemm",
    }
    assert any(note.startswith("gpu: emulated on the processor") for note in data["notes"])


@needs_emulator
def test_kernels_that_are_wrong_or_missing_are_reported(gpu, kernels, tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir()
    for path in kernels.iterdir():
        content = path.read_bytes()
        if path.name.startswith("implicit_gemm"):
            continue
        if path.name.startswith("direct"):
            # a block too few: the values that it should write stay NaN
            head, _, fatbin = content.partition(b"\n")
            data = json.loads(head)
            data["launches"][0]["grid"][0] -= 1
            content = json.dumps(data).encode() + b"\n" + fatbin
        (folder / path.name).write_bytes(content)
    words = ("--kernels", folder, "--samples", "5", "--baselines", "none", "--json")
    done = gpu.tvmconv(*WORDS, *words, **bare(gpu, tmp_path))
    assert done.returncode == 0, done.stderr
    rows = {row["contender"]: row for row in json.loads(done.stdout)["measurements"]}
    assert rows["tvmconv direct"]["status"] == "wrong"
    assert rows["tvmconv direct"]["min_seconds"] is None
    assert rows["tvmconv implicit_gemm"]["status"] == "failed"
    notes = " ".join(json.loads(done.stdout)["notes"])
    assert "holds no implicit_gemm of this version for" in notes
    assert "--compile-only" in notes


@needs_emulator
def test_another_gpu_is_the_only_one_that_is_seen(gpu):
    code = """
from tvmconv.measuring.gpu.state import gpu_state
from tvmconv.cli.gpus import take_gpu
take_gpu({index}, "cuda")
print(gpu_state("cuda:sm_90")["pci_bus"], end="")
"""
    there = {"TVMCONV_EMULATED_GPUS": "4"}
    for index, variables, bus in (
        (0, {}, "0000:01:00.0"),
        (2, {}, "0000:03:00.0"),
        (1, {"CUDA_VISIBLE_DEVICES": "3,1"}, "0000:02:00.0"),
    ):
        done = gpu.python("-c", code.format(index=index), **there, **variables)
        assert done.stdout == bus, done.stderr
    for names in ("3,1", "3,-1,1"):
        hidden = gpu.python("-c", code.format(index=2), **there, CUDA_VISIBLE_DEVICES=names)
        assert "--device 2 does not exist" in hidden.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("bench", "run", "--device", "1"), "--device 1 requires a GPU, got --target native"),
        (
            *(("tune", "--device", "1", "--rpc-tracker", "a:1", "--rpc-key", "b"),),
            "--device selects a local GPU and cannot be combined with RPC",
        ),
    ],
)
def test_a_gpu_is_chosen_of_those_here_alone(words, sentence):
    result = invoke(words[0], "--layer", LAYER, *words[1:])
    assert result.exit_code != 0
    assert sentence in result.stderr


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"LD_LIBRARY_PATH": ""}, "has no driver for NVIDIA GPUs"),
        ({"TVMCONV_EMULATED_GPUS": "0"}, "no CUDA-capable device"),
        ({"TVMCONV_EMULATED_CAPABILITY": "80"}, "kernels for cuda:sm_90 do not run on"),
    ],
    ids=["no driver", "no GPU", "an older GPU"],
)
@needs_emulator
def test_a_gpu_that_cannot_measure_is_an_error(gpu, variables, sentence):
    code = "from tvmconv.measuring.gpu.state import gpu_state; gpu_state('cuda:sm_90')"
    done = gpu.python("-c", code, **variables)
    if "LD_LIBRARY_PATH" in variables and not done.returncode:
        pytest.skip("this machine has a driver")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("tvmconv.core.errors.ArtifactError")
    assert sentence in last


def test_plans_for_gpus_have_their_own_libraries_and_algorithms():
    plan = make_plan(
        suites=["dnn12"], baselines="cudnn,im2col_cublas", target="cuda:sm_90", batch=(1, 8)
    )
    assert plan.baselines == ("cudnn", "im2col_cublas")
    assert [layer.name for layer in plan.layers][::12] == ["conv1 mb1", "conv1 mb8"]
    assert plan.extras.samples * plan.rounds >= 50
    with pytest.raises(InputError, match="unknown library 'openvino'"):
        make_plan(baselines="openvino", target="cuda:sm_90")
    machine = MACHINES["cuda:sm_90"]
    workloads = [layer.workload for layer in plan.layers]
    names = {variant.algorithm for variant in parse_variants("", workloads, machine)}
    assert {"direct", "implicit_gemm"} <= names
    with pytest.raises(InputError, match="unknown algorithm 'im2win_nchw'"):
        parse_variants("im2win_nchw", workloads, machine)


@needs_emulator
def test_rounded_kernels_are_called_what_they_are(gpu, tmp_path):
    words = (*WORDS[:-1], "implicit_gemm_mma,implicit_gemm,implicit_gemm_mma:precision=fp16")
    words += ("--precision", "tf32", "--samples", "5")
    done = gpu.tvmconv(*words, "--baselines", "none", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    rows = {row["contender"]: row for row in data["measurements"]}
    tf32, whole = "tvmconv implicit_gemm_mma:precision=tf32", "tvmconv implicit_gemm"
    halves = "tvmconv implicit_gemm_mma:precision=fp16"
    assert [rows[name]["precision"] for name in (tf32, whole, halves)] == [
        "tf32",
        "float32",
        "fp16",
    ]
    assert rows[whole]["error"] < 1e-6 < 1e-5 < rows[tf32]["error"] < 1e-3
    assert rows[whole]["peak_share"] and rows[tf32]["peak_share"] is None
    # a variant of another type is listed with the others
    assert data["summary"][0]["contender"] in (tf32, whole)
    (case,) = data["results"]
    assert case["precision"] == data["settings"]["precision"] == "tf32"


def test_a_precision_has_its_rows_and_is_for_gpus_only():
    plan = make_plan(layers=[LAYER], target="cuda:sm_90", precision="fp16", baselines="none")
    workloads = [layer.workload for layer in plan.layers]
    machine = MACHINES["cuda:sm_90"]
    named = {str(v) for v in parse_variants("", workloads, machine, "fp16")}
    assert "implicit_gemm_mma:precision=fp16" in named and "implicit_gemm" in named
    rows = predict_plan(plan).tables[0].rows
    assert {row["precision"] for row in rows} == {"float32", "fp16"}
    assert all(row["limit_share"] < 1 for row in rows if row["precision"] == "fp16")
    with pytest.raises(ConfigError, match="requires a CUDA target, got x86-64-v3"):
        make_plan(layers=[LAYER], target="x86-64-v3", precision="fp16")


def test_predictions_need_neither_gpu_nor_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("NVCC", "/nonexistent")
    path = tmp_path / "net.onnx"
    onnx.save(small_network(1), path)
    words = ("--suite", "dnn12", "--batch", "1,128", "--target", "cuda:sm_80", "--estimate")
    found = data_of("bench", "run", path, *words)
    rows = found["predictions"]
    assert {row["measured"] for row in rows} == {"not measured"}
    assert len({row["case"] for row in rows}) == 24
    for row in rows:
        if row["contender"] == "tvmconv":
            # Winograd alone may pass the limit of direct convolution
            assert 0 < row["limit_share"] < (1.01 if row["algorithm"] != "winograd" else 4)
    # nobody asked for less than float32
    assert not [row for row in rows if "mma" in row.get("algorithm", "")]
    assert [row["case"] for row in found["models"]] == ["net mb1", "net mb128"]
    assert found["models"][0]["predicted_seconds"] < found["models"][1]["predicted_seconds"]


@pytest.mark.parametrize(
    "text",
    [
        "g2mb3ic8ih9oc12kh3sh2ph1+bias+add+relu",
        "ic20ih12iw13oc17kh3kw5dh1ph2pw4+bias+clip(0,6)",
    ],
)
def test_values_at_places_are_those_of_the_whole_reference(text):
    w = Conv2dWorkload.parse(text)
    inputs, constants = random_operands(w)
    places = drawn_places(w, 50, np.random.default_rng(0))
    whole = convolution(w, inputs, constants).reshape(-1)
    assert {0, len(whole) - 1} <= set(places)
    np.testing.assert_allclose(
        convolution_at(w, inputs, constants, places), whole[places], rtol=1e-13, atol=1e-13
    )


def test_outputs_are_compared_at_places_and_held_to_be_finite(tmp_path):
    w = Conv2dWorkload.parse(LAYER)
    write_layer_case(tmp_path, w, places=20)
    case = read_case(tmp_path, {})
    constants = {name: case.constants[name] for name in case.constants.files}
    right = convolution(w, case.inputs, constants)
    name = case.outputs[0]
    reference = read_reference(tmp_path)
    assert len(reference[name]) < right.size
    assert relative_error({name: right}, reference) < 1e-12
    changed = right.copy()
    changed.reshape(-1)[reference[name + PLACES][3]] += 1.0
    assert relative_error({name: changed}, reference) > 1e-3
    unwritten = right.copy()
    other = next(i for i in range(right.size) if i not in reference[name + PLACES])
    unwritten.reshape(-1)[other] = np.nan
    assert relative_error({name: unwritten}, reference) == float("inf")
    assert relative_error({name: right[:1]}, reference) == float("inf")


def test_forms_of_an_algorithm_share_the_inputs_on_the_gpu(tmp_path, monkeypatch):
    class Copy:
        def __init__(self, values):
            self.values = values

    class Gpu:
        array = Copy

    monkeypatch.setattr(own_gpu, "_gpu", Gpu)
    write_layer_case(tmp_path, Conv2dWorkload.parse(LAYER), places=20)
    first = own_gpu._inputs(read_case(tmp_path, {}))
    np.testing.assert_array_equal(first["data"].values, read_case(tmp_path, {}).inputs["data"])
    case = read_case(tmp_path, {})
    (tmp_path / "inputs.npz").unlink()
    assert own_gpu._inputs(case) == first
    # they go with the last form, and another case makes its own
    del first
    with pytest.raises(OSError):
        own_gpu._inputs(case)


def test_the_ablation_of_a_paper_is_predicted_with_its_memory():
    plan = make_plan(
        layers=["mb8ic3ih32oc64kh7sh2"],
        algorithms="im2win:steps,im2col",
        target="cuda:sm_90",
        baselines="none",
        memory=True,
    )
    layers, memory, _ = predict_plan(plan).tables
    stored = [row for row in layers.rows if "windows=stored" in row["contender"]]
    assert len(stored) == 5 and len(layers.rows) == 8
    assert {row["measured"] for row in layers.rows} == {NOT_MEASURED}
    assert all("transforms" in row["parts"] for row in stored[2:])
    buffers = {row["method"]: row["buffer_bytes"] for row in memory.rows}
    # 13 rows of windows, of 31 columns that some window touches of 32, by 7 rows of the kernel
    base = "tvmconv im2win:windows=stored:kernel=base:m=32:p=32:split=1"
    assert buffers[base] == 4 * 8 * 3 * 13 * 31 * 7
    assert buffers["im2win, formula"] == 4 * 8 * 3 * 13 * 32 * 7


def test_predictions_are_right_within_a_quarter():
    assert share_right([0.75, 1.25, 1.26, 0.5]) == 0.5
    assert share_right([]) == 0.0


def test_the_gpu_of_a_header_in_words():
    assert gpu_facts(None) == {}
    said = {"driver_version": "580.1", "clocks.sm": "345 MHz", "clocks.max.sm": "1980 MHz"}
    facts = gpu_facts({"name": "H100", "driver_cuda": "13.0", "nvidia_smi": said})
    assert facts["gpu"] == "H100, driver 580.1, CUDA 13.0"
    assert facts["clocks_at_start"] == "345 MHz of 1980 MHz (SM)"
