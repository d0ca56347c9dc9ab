"""Models on any of several GPUs, and how their launches are made; on the emulated driver."""

from __future__ import annotations

import json
import subprocess
import sys

import onnx
import pytest

from tests.emulated_gpu import needs_emulator, needs_nvcc
from tvmconv.lab.emulation.nvcc import write_toolkit

pytestmark = [needs_nvcc, needs_emulator]


def test_models_run_on_the_gpu_that_is_asked_for(check):
    check("""
first = count("bytes"), count("bytes of GPU 1")
assert first[0] and not first[1]
other = tvmconv.load(path, device=1)
assert count("bytes") == first[0] and count("bytes of GPU 1") == first[0]
# arrays, tensors and streams of that GPU; both models at a time
enter(1)
stream, given = new_stream(), DeviceTensor(x, device=1)
for _ in range(4):
    assert close(other.run(x)[0]) and close(model.run(x)[0])
    (result,) = other.run(given)
    assert result.device == 1 and result.__dlpack_device__() == (2, 1)
    assert close(np.from_dlpack(View(result))) and close(result.numpy())
    (queued,) = other.run(given, stream=stream)
    assert close(queued.numpy())
there = DeviceTensor(np.zeros_like(right), device=1)
other.run_into([result_in := DeviceTensor(x, device=1)], [there], stream=stream)
assert close(there.numpy(stream))
timing = other.time(x, repeat=2)
assert timing.min > 0 and other.profile(x, repeat=1)
# what belongs to the other GPU is told
refused("input 'input' is on GPU 1, and this model on GPU 0", InputError, model.run, given)
enter(0)
refused("the stream cannot be used", ArtifactError, model.run, DeviceTensor(x), stream=stream)
refused("is on GPU 0, and this model on GPU 1. Move", InputError, other.run, DeviceTensor(x))
refused("GPU 2 does not exist: the driver shows 2, numbered from 0; CUDA_VISIBLE_DEVICES",
        ArtifactError, tvmconv.load, path, device=2)
# each frees what it has
import gc
del other, result, queued, given, there, result_in, timing
gc.collect()
enter(1)
wait(stream)
assert close(model.run(x)[0])
again = tvmconv.load(path, device=1)
assert close(again.run(x)[0])
""", TVMCONV_EMULATED_GPUS="2")  # fmt: skip


@pytest.mark.parametrize(("asked", "graphs"), [(True, 2), (False, 0), (None, 2)])
def test_graphs_as_the_argument_says(single, asked, graphs):
    lines = f"""
import numpy as np, tvmconv
from tests.device_tensor import count
model = tvmconv.load(path, cuda_graph={asked})
x = np.zeros(model.inputs[0].shape, np.float32)
for _ in range(3):
    model.run(x)
assert count("graph launches") == {graphs}
"""
    # it goes before the environment
    opposite = {} if asked is None else {"TVMCONV_CUDA_GRAPH": str(int(not asked))}
    single.check_python(lines, **opposite)


def test_the_gpu_is_an_option_of_a_state_in_c(single):
    single.check_python("""
import ctypes
from ctypes import byref, c_void_p
from tests.compile.test_cuda_graphs import Options
from tests.device_tensor import count
from tvmconv.runtime.binding import Code
code = Code(path)
create = ctypes.CFUNCTYPE(ctypes.c_int32, *[c_void_p] * 3, ctypes.c_size_t)(
    ctypes.cast(code._model.create, c_void_p).value)
for gpu, said in [(1, None), (-1, b"options.gpu is not the number of a GPU"),
                  (7, b"GPU 7 does not exist"), (1 << 40, b"options.gpu is not the number")]:
    state, message = c_void_p(), ctypes.create_string_buffer(200)
    options = Options(size=ctypes.sizeof(Options), gpu=gpu)
    status = create(*map(ctypes.addressof, (options, state, message)), 200)
    assert bool(status) == bool(said) and (said or b"") in message.value, message.value
    if not status:
        assert count("bytes of GPU 1") and not count("bytes")
        code._model.destroy(state)
    assert not count("bytes of GPU 1")
""", TVMCONV_EMULATED_GPUS="2")  # fmt: skip


def run(single, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tvmconv", *words]
    environment = {**single.environment, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_command_line_takes_a_gpu(single):
    gpus = {"TVMCONV_EMULATED_GPUS": "2"}
    words = ("run", str(single.path), "--no-cuda-graph", "--device")
    done = run(single, *words, "1", **gpus)
    assert done.returncode == 0, done.stderr
    done = run(single, *words, "2", **gpus)
    assert done.returncode and "GPU 2 does not exist: the driver shows 2" in done.stderr
    done = run(single, *words, "1", "--rpc", "127.0.0.1:1", **gpus)
    assert "--device and --cuda-graph cannot be combined with RPC" in done.stderr


def test_a_build_takes_the_gpu_that_is_asked_for(single, tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(single.onnx, path)
    words = ("compile", str(path), "-o", str(tmp_path / "net.so"), "--device", "2", "--target")
    done = run(single, *words, "cuda", TVMCONV_EMULATED_GPUS="2")
    assert done.returncode and "GPU 2 does not exist" in done.stderr
    done = run(single, *words, "cuda:sm_90")
    assert "requires --target cuda, got 'cuda:sm_90'" in done.stderr


def test_profiles_show_the_peak_of_the_gpu(single, tmp_path):
    toolkit, page = write_toolkit(tmp_path / "toolkit"), tmp_path / "page.html"
    words = ("--device", "1", "--json")
    gpus = {"TVMCONV_EMULATED_GPUS": "2", "NVCC": toolkit["NVCC"]}
    done = run(single, "profile", str(single.path), "--repeat", "1", *words, **gpus)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["peak_gflops"] > 0 and found["memory_read_gbs"] > 0
    # without nvcc the peak is missing, and all other values are there
    gpus["NVCC"] = str(tmp_path / "none")
    measured = ("explain", str(single.path), "--measure", "--html", str(page))
    done = run(single, *measured, *words, **gpus)
    assert done.returncode == 0, done.stderr
    assert "The GPU's peak is not known: cannot start" in done.stderr
    found = json.loads(done.stdout)
    assert all(row["seconds"] > 0 for row in found["layers"])
    assert found["gpu"] == "H100 SXM5" and found["launches_that_spill"] == 0
    assert found["launches_of_a_call"] == len(found["launches"]) > len(found["layers"])
    assert "description at 1.98 GHz" in page.read_text()
