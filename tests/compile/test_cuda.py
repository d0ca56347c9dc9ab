"""Networks for GPUs: built here, refused with a sentence, and run by the emulated driver.

No GPU takes part. The shared object runs with its launch program and its C runtime. Its
``libcuda.so.1`` executes the kernels' CUDA source on the CPU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import tvmconv
from tests.emulated_gpu import TARGET, Built, needs_emulator, needs_nvcc, needs_nvdisasm
from tests.small_network import mixed_network
from tvmconv.compile.nvcc import find_nvcc
from tvmconv.compile.resources import read_resources
from tvmconv.core.errors import ArtifactError, ModelError
from tvmconv.core.fatbin import PTX, parts_of
from tvmconv.runtime.library import C_SOURCES


@needs_nvcc
class TestSmall:
    """Convolutions of all kinds, pooling, concat, residual, dense layer, softmax."""

    def test_the_shared_object_needs_nothing_of_cuda_and_holds_modules(self, small):
        said = subprocess.run(
            ["readelf", "-d", str(small.path)], capture_output=True, text=True, check=True
        ).stdout
        needed = [line.split("[")[1] for line in said.splitlines() if "NEEDED" in line]
        assert needed
        assert not [name for name in needed if "cu" in name or "nv" in name or "tvm" in name]
        content = small.path.read_bytes()
        for fatbin in small.model._library.objects.gpu.fatbins:
            assert fatbin in content
            # whose kernels older drivers may translate
            versions = {part.version for part in parts_of(fatbin) if part.kind == PTX}
            assert versions == {(7, 8)}
        assert b"__global__" not in content

    def test_without_a_driver_an_error_says_so(self, small):
        done = subprocess.run(
            [sys.executable, "-m", "tvmconv", "run", str(small.path)],
            env={**os.environ, "LD_LIBRARY_PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        if "driver" not in done.stderr:
            pytest.skip("this machine has a driver")
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert "this model runs on an NVIDIA GPU (cuda:sm_90)" in done.stderr

    def test_results_are_right_call_after_call_and_from_threads(self, small):
        inputs = [small.inputs(seed) for seed in range(3)]
        for seed, given in enumerate(inputs):
            np.savez(small.path.parent / f"in{seed}.npz", **given)
        done = small.python(
            "import numpy as np, tvmconv\n"
            "from concurrent.futures import ThreadPoolExecutor\n"
            "model = tvmconv.load(path)\n"
            "given = [dict(np.load(f'in{n}.npz')) for n in range(3)]\n"
            "with ThreadPoolExecutor(2) as pool:\n"
            "    results = list(pool.map(model.run, given * 2))\n"
            "for n in range(3):\n"
            "    assert all(map(np.array_equal, results[n], results[n + 3]))\n"
            "    np.savez(f'out{n}.npz', *results[n])\n"
            "times = model.profile(given[0], repeat=1)\n"
            "assert len(times.kernels) == len(model.calls)\n"
            "assert all(0 <= k.seconds < 10 for k in times.kernels)\n"
        )
        assert done.returncode == 0, done.stderr
        for seed, given in enumerate(inputs):
            results = np.load(small.path.parent / f"out{seed}.npz")
            small.check([results[name] for name in results.files], given)

    def test_a_c_program_runs_it(self, small):
        folder = small.path.parent
        program = folder / "call"
        subprocess.run(
            ["cc", "-O1", f"-I{C_SOURCES}", "-o", str(program), str(C_SOURCES / "call.c"), "-ldl"],
            check=True,
        )
        inputs = small.inputs(7)
        (folder / "inputs").write_bytes(b"".join(v.tobytes() for v in inputs.values()))
        command = [program, small.path, folder / "inputs", folder / "outputs"]
        done = subprocess.run(
            command, env=small.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        result = np.fromfile(folder / "outputs", "float32").reshape(2, 10)
        small.check([result], inputs)

    @pytest.mark.parametrize(
        ("variables", "sentence"),
        [
            ({"TVMCONV_EMULATED_GPUS": "0"}, "the driver shows none; CUDA_VISIBLE_DEVICES"),
            ({"TVMCONV_EMULATED_CAPABILITY": "86"}, r"built for cuda:sm_90, and the GPU here"),
            ({"TVMCONV_EMULATED_CUDA": "11070"}, "it supports CUDA up to 11.7. Update the driver"),
            ({"TVMCONV_EMULATED_MEMORY": "20000"}, "has no memory for .* bytes of weights"),
        ],
        ids=str,
    )
    def test_a_reason_against_running_is_an_error(self, small, variables, sentence):
        import re

        done = small.python("import tvmconv\ntvmconv.load(path)", **variables)
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith("tvmconv.core.errors.ArtifactError: model 'small':")
        assert re.search(sentence, last)

    def test_a_gpu_whose_memory_the_weights_fill_is_an_error(self, small):
        weights = small.model.memory.constant_bytes
        done = small.python(
            "import tvmconv\ntvmconv.load(path)", TVMCONV_EMULATED_MEMORY=str(weights + 2048)
        )
        assert "has no memory for" in done.stderr
        assert "bytes of activations and tensors" in done.stderr

    def test_a_driver_that_does_not_know_the_machine_code_translates(self, small):
        given = small.inputs()
        small.check(small.run(given, TVMCONV_EMULATED_CUDA="12040"), given)

    def test_a_later_gpu_is_taken(self, small):
        done = small.python("import tvmconv\ntvmconv.load(path)", TVMCONV_EMULATED_CAPABILITY="120")
        assert done.returncode == 0, done.stderr

    def test_a_forked_child_gets_an_error_for_the_gpu(self, small):
        done = small.python(
            "import os, tvmconv, numpy as np\n"
            "from tvmconv.core.errors import ArtifactError\n"
            "model = tvmconv.load(path)\n"
            "given = {t.name: np.zeros(t.shape, t.dtype) for t in model.inputs}\n"
            "model.run(given)\n"
            "child = os.fork()\n"
            "if not child:\n"
            "    try:\n"
            "        model.run(given)\n"
            "    except ArtifactError as error:\n"
            "        os._exit(3 if 'forked child cannot use the GPU' in str(error) else 4)\n"
            "    os._exit(5)\n"
            "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3\n"
            "model.run(given)\n"
        )
        assert done.returncode == 0, done.stderr

    def test_explain_lists_launches_of_a_saved_model_without_a_gpu(self, small):
        from tvmconv.cli.opening import open_model

        model = open_model(small.path, "native", None, None, here=False)
        report = model.explain()
        (table,) = [table for table in report.tables if table.name == "launches"]
        assert len(table.rows) == sum(len(call.launches) for call in model.calls)
        assert {row["layer"] for row in table.rows} >= {"stem", "depthwise", "pool", "dense"}
        for row in table.rows:
            assert row["registers"] > 0
            assert row["blocks_resident"] > 0
            # tests of tiles check their own registers
            assert row["spill_bytes"] == 0 or "implicit_gemm" in row["kernel"]
        (layers,) = [table for table in report.tables if table.name == "layers"]
        # Winograd alone may pass it
        assert all(0 < row["limit_share"] < 1 for row in layers.rows)
        assert "% of limit" in [column.title for column in layers.columns]
        for name in ("machine", "calls", "decisions", "memory"):
            assert getattr(model.manifest, name) == getattr(small.model.manifest, name)

    def test_convolutions_are_tiled(self, small):
        chosen = {d.layer: d.chosen.algorithm for d in small.model.decisions}
        assert chosen["projection"] == "implicit_gemm"
        assert chosen["right"] == "winograd"

    def test_kernels_of_one_call_share_workspace_in_the_arena(self, small):
        (call,) = [call for call in small.model.calls if call.layer == "right"]
        assert len(call.launches) == 3
        tables = {table.name: table for table in small.model.explain().tables}
        (row,) = [row for row in tables["layers"].rows if row["layer"] == "right"]
        # 24 planes of data and 12 of results, to whole slices and blocks, of 64 tiles
        assert row["workspace_bytes"] == 4 * 4 * 6 * 64 * (24 + 32)
        assert small.model.memory.arena_bytes >= row["workspace_bytes"]
        assert 1e-7 < row["error_estimate"] < 5e-6

    @needs_nvdisasm
    def test_main_loops_are_read_where_there_is_a_disassembler(self, small):
        shares = {
            launch.kernel: launch.multiply_add_share
            for call in small.model.calls
            for launch in call.launches
        }
        (product,) = (s for name, s in shares.items() if "winograd" in name and s)
        assert 0.5 < product < 1
        # TVM may number a function's only kernel
        (pool,) = (s for name, s in shares.items() if name.startswith("max_pool2d_kernel"))
        assert pool == 0

    def test_kernels_are_named_after_their_function(self, small):
        for call in small.model.calls:
            own = call.kernel.removesuffix("_kernel")
            for launch in call.launches:
                assert launch.kernel.startswith(f"{own}_kernel")
                assert "_kernel_kernel" not in launch.kernel

    def test_no_operator_runs_on_one_thread(self, small):
        for call in small.model.calls:
            for launch in call.launches:
                assert launch.threads >= 32, call

    def test_kept_parts_link_to_the_same_model(self, small, tmp_path):
        small.model.keep(tmp_path)
        subprocess.run(["sh", "build.sh"], cwd=tmp_path, check=True)
        again = Built.__new__(Built)
        again.__dict__ |= {**small.__dict__, "path": tmp_path / "model.so"}
        done = again.python(
            "import ctypes\nfrom tvmconv.runtime.binding import Code, State\nState(Code(path), 1)"
        )
        assert done.returncode == 0, done.stderr
        assert "__global__" in (tmp_path / "gpu/kernels_0.cu").read_text()


@needs_nvcc
@needs_emulator
def test_a_network_of_every_rule_is_right(tmp_path):
    """LRN, slices, transposes, a batched product, reductions along several axes, a convolution in
    three kernels; weights apart."""
    tiled = {"*": {"algorithm": "winograd", "knobs": {"mh": 4, "mw": 4}}}
    built = Built(tmp_path / "mixed", mixed_network(), overrides=tiled)
    built.path = built.model.save(tmp_path / "mixed/apart.so", weights="external")
    inputs = built.inputs()
    built.check(built.run(inputs), inputs)


@needs_nvcc
@needs_emulator
def test_running_sums_sorting_and_gathers_have_kernels(tmp_path):
    """Computed indices are clamped."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        several (float[3,70] x, int64[2,70] i, int64[4,2] j)
            => (float[3,5] largest, int64[3,5] places, float[2,70] y, float[4] z)
        <int64 a = {1}, int64[1] k = {5}>
        { s = CumSum (x, a)
          largest, places = TopK <axis = 1> (s, k)
          y = GatherElements <axis = 0> (x, i)
          z = GatherND (x, j) }"""
    )
    built = Built(tmp_path / "several", model)
    numbers = np.random.default_rng(0)
    inputs = {
        "x": numbers.standard_normal((3, 70), "float32"),
        "i": numbers.integers(-3, 3, (2, 70)),
        "j": numbers.integers(-3, 3, (4, 2)),
    }
    built.check(built.run(inputs), inputs)
    edges = {**inputs, "i": np.full((2, 70), 2), "j": np.zeros((4, 2), "int64")}
    outside = {**inputs, "i": np.full((2, 70), 1 << 40), "j": np.full((4, 2), -(1 << 40))}
    built.check(built.run(outside), edges)


@needs_nvcc
@needs_emulator
def test_a_count_that_is_an_input_gives_the_shape_of_the_outputs(tmp_path):
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        largest (float[3,7] x, int64[1] k) => (float[3,n] y, int64[3,n] i)
        { y, i = TopK <axis = 1> (x, k) }"""
    )
    built = Built(tmp_path / "largest", model)
    inputs = {**built.inputs(), "k": np.array([4])}
    built.check(built.run(inputs), inputs)
    built.check_python(
        "import numpy as np, tvmconv\n"
        "from tests.device_tensor import DeviceTensor, enter\n"
        "enter()\n"
        "x, k = DeviceTensor(np.ones((3, 7), 'f4')), DeviceTensor(np.array([2]))\n"
        "try:\n    tvmconv.load(path).run(x, k)\n    raise SystemExit('accepted')\n"
        "except tvmconv.errors.InputError as error:\n"
        "    assert 'depends on the data' in str(error), error\n"
    )


@needs_nvcc
def test_scatters_are_refused():
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        scatter (float[3,7] x, int64[2,1] i, float[2,7] u) => (float[3,7] y)
        { y = ScatterND (x, i, u) }"""
    )
    with pytest.raises(ModelError, match=r"layer .y\..*Build for a CPU"):
        tvmconv.build(model, TARGET)


def test_resources_are_read_from_what_ptxas_says():
    said = (
        "ptxas info    : Compiling entry function 'a_kernel' for 'sm_90'\n"
        "ptxas info    : Function properties for a_kernel\n"
        "    48 bytes stack frame, 52 bytes spill stores, 60 bytes spill loads\n"
        "ptxas info    : Used 128 registers, used 1 barriers, 48 bytes cumulative stack size, "
        "32768 bytes smem\n"
    )
    (found,) = read_resources(said).values()
    assert (found.registers, found.shared_bytes, found.spill_bytes) == (128, 32768, 112)


def test_without_nvcc_an_error_says_what_to_install(monkeypatch):
    monkeypatch.delenv("NVCC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(Path, "is_file", lambda path: False)
    with pytest.raises(ArtifactError, match=r"pip install 'tvmconv\[cuda\]'"):
        find_nvcc()
