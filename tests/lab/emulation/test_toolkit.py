"""The emulated nvcc: fatbins that the emulated driver loads, each with kernels of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tvmconv
from tests.cuda import SM_90, convolution_operands, default_kernel, source_of
from tests.emulated_gpu import EmulatedGpu, needs_emulator
from tests.lab.emulation.test_emulated_module import REVERSE

DOUBLE = """
extern "C" __global__ void __launch_bounds__(64) reverse_kernel(float* __restrict__ out, float* __restrict__ x) {
  out[((((int)blockIdx.x) * 64) + ((int)threadIdx.x))] = x[((((int)blockIdx.x) * 64) + ((int)threadIdx.x))] * 2.0f;
}
"""  # noqa: E501
# two modules with a kernel of the same name, one captured in a graph
RUN = """
import sys
import numpy as np
from tvmconv.measuring.gpu.compiled import Compiled
from tvmconv.measuring.gpu.driver import DeviceArray, Gpu
from tvmconv.measuring.gpu.kernel_run import GpuCall
from tvmconv.measuring.gpu.timing import Timer
from tvmconv.compile.cuda_compiler import compile_fatbin
from tvmconv.core.launch import Launch
from tvmconv.machines.cuda import MACHINES

gpu = Gpu().open()
x = np.arange(128, dtype="float32")
given = gpu.array(x)
results = []
for path in sys.argv[1:]:
    fatbin, _ = compile_fatbin(open(path).read(), MACHINES["cuda:sm_90"])
    out = DeviceArray(gpu, (128,), "float32")
    out.poison()
    launch = Launch("reverse_kernel", (2, 1, 1), (64, 1, 1), (0, 1))
    call = GpuCall(gpu, Compiled(fatbin, (launch,), ()))
    run = call.bind([out, given])
    assert np.isnan(out.numpy()).all()
    assert len(Timer(gpu).samples(run, 3)) == 3
    results.append(out.numpy())
    assert all(s > 0 for s in Timer(gpu).samples(run, 2, cache_bytes=1 << 10))
assert np.array_equal(results[0], x.reshape(2, 64)[:, ::-1].reshape(-1))
assert np.array_equal(results[1], 2 * x)
"""
# a kernel with its operands, the last of them its result
CALL = """
import sys
import numpy as np
from tvmconv.measuring.gpu.compiled import Compiled
from tvmconv.measuring.gpu.driver import DeviceArray, Gpu
from tvmconv.measuring.gpu.kernel_run import GpuCall
from tvmconv.compile.cuda_compiler import compile_fatbin
from tvmconv.core.launch import Launch
from tvmconv.machines.cuda import MACHINES

source, operands, result, launch = sys.argv[1:]
gpu = Gpu().open()
fatbin, _ = compile_fatbin(open(source).read(), MACHINES["cuda:sm_90"])
arrays = [gpu.array(array) for array in np.load(operands).values()]
GpuCall(gpu, Compiled(fatbin, (eval(launch),), ())).bind(arrays)()
np.save(result, arrays[-1].numpy())
"""


@pytest.fixture(scope="module")
def gpu(tmp_path_factory) -> EmulatedGpu:
    return EmulatedGpu(tmp_path_factory.mktemp("gpu"))


@needs_emulator
def test_modules_have_kernels_of_their_own_and_graphs_replay_them(gpu, tmp_path):
    for name, source in (("one.cu", REVERSE), ("two.cu", DOUBLE)):
        (tmp_path / name).write_text(source)
    done = gpu.python("-c", RUN, tmp_path / "one.cu", tmp_path / "two.cu")
    assert done.returncode == 0, done.stderr
    old = gpu.python("-c", RUN, tmp_path / "one.cu", TVMCONV_EMULATED_CAPABILITY="80")
    assert "no kernel image is available" in old.stderr
    before = gpu.python("-c", RUN, tmp_path / "one.cu", TVMCONV_EMULATED_CUDA="11070")
    assert "unsupported toolchain.; the driver knows CUDA up to 11.7" in before.stderr


@needs_emulator
def test_its_programs_import_this_package_first(gpu):
    first, *_ = gpu.environment["PYTHONPATH"].split(os.pathsep)
    assert Path(first, "tvmconv").samefile(Path(tvmconv.__file__).parent)


@needs_emulator
def test_a_source_that_does_not_compile_is_refused_as_nvcc_does(gpu, tmp_path):
    (tmp_path / "bad.cu").write_text(DOUBLE.replace("2.0f", "nonsense"))
    command = [gpu.folder / "nvcc", "-fatbin", "-o", tmp_path / "bad", tmp_path / "bad.cu"]
    done = subprocess.run(command, env=gpu.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "error" in done.stderr
    assert not (tmp_path / "bad").exists()


@needs_emulator
@pytest.mark.parametrize(
    ("algorithm", "knobs"),
    [
        ("implicit_gemm", {"p": 64}),
        ("im2win", {"p": 32, "windows": "fused", "micro": 0}),
    ],
)
def test_tables_before_the_kernels_go_with_them(gpu, tmp_path, algorithm, knobs):
    knobs = knobs | {"slice": "channels", "m": 32, "k": 16, "split": 1, "pipeline": "double"}
    kernel = default_kernel("ic16ih5oc32kh3ph1+bias+relu", algorithm, SM_90, **knobs)
    source = source_of(kernel)
    assert "static __constant__" in source.text.partition('extern "C"')[0]
    (launch,) = source.launches
    arrays, expected = convolution_operands(kernel)
    (tmp_path / "kernel.cu").write_text(source.text)
    np.savez(tmp_path / "operands.npz", *arrays)
    files = [tmp_path / name for name in ("kernel.cu", "operands.npz", "result.npy")]
    done = gpu.python("-c", CALL, *files, str(launch))
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "result.npy").reshape(expected.shape)
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
