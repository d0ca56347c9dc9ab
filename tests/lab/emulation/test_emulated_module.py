"""CUDA source on the processor: results, and what CUDA leaves undefined becomes a sentence."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from tvmconv.core.errors import ArtifactError
from tvmconv.lab.emulation.compiler import compile_cuda
from tvmconv.lab.emulation.module import EmulatedModule

# as TVM's code generator writes it
REVERSE = """
extern "C" __global__ void __launch_bounds__(64) reverse_kernel(float* __restrict__ out, float* __restrict__ x);
extern "C" __global__ void __launch_bounds__(64) reverse_kernel(float* __restrict__ out, float* __restrict__ x) {
  __shared__ alignas(64) float kept[64];
  kept[((int)threadIdx.x)] = x[((((int)blockIdx.x) * 64) + ((int)threadIdx.x))];
  __syncthreads();
  out[((((int)blockIdx.x) * 64) + ((int)threadIdx.x))] = kept[(63 - ((int)threadIdx.x))];
}
"""  # noqa: E501
VECTORS = """
extern "C" __global__ void __launch_bounds__(8) copy_kernel(float* __restrict__ out, float* __restrict__ x, int shift) {
  *(float4*)(out + (((int)threadIdx.x) * 4)) = *(float4*)(x + ((((int)threadIdx.x) * 4) + shift));
}
extern "C" __global__ void unwritten_kernel(float* __restrict__ out) {
  alignas(64) float local[2];
  __shared__ alignas(64) float4 kept[1];
  local[1] = 1.0f;
  out[0] = local[0];
  out[1] = local[1];
  out[2] = kept[0].z;
}
"""  # noqa: E501
# the sum of a block as TVM's LowerThreadAllreduce makes it: within warps, then of their sums
SUM = """
extern "C" __global__ void __launch_bounds__(128) sum_kernel(float* __restrict__ out, float* __restrict__ x) {
  alignas(64) float red[1];
  alignas(64) uint mask[1];
  __shared__ alignas(64) float staged[4];
  red[0] = x[((int)threadIdx.x)];
  mask[0] = (uint)4294967295;
  for (int delta = 16; delta > 0; delta /= 2) {
    float t = __shfl_down_sync(mask[0], red[0], delta, 32);
    red[0] = red[0] + t;
  }
  if (((int)threadIdx.x) % 32 == 0) {
    staged[((int)threadIdx.x) >> 5] = red[0];
  }
  __syncthreads();
  if (((int)threadIdx.x) < 4) {
    red[0] = staged[((int)threadIdx.x)];
    red[0] = red[0] + __shfl_xor_sync(mask[0], red[0], 2, 4);
    red[0] = red[0] + __shfl_xor_sync(mask[0], red[0], 1, 4);
    if (((int)threadIdx.x) == 0) {
      out[0] = red[0];
    }
  }
}
"""  # noqa: E501
APART = """
extern "C" __global__ void apart_kernel(float* __restrict__ out) {
  if (((int)threadIdx.x) < 4) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[((int)threadIdx.x)] = 1.0f;
}
"""


def test_threads_meet_at_barriers():
    x, out = np.arange(128, dtype="float32"), np.full(128, np.nan, "float32")
    EmulatedModule(REVERSE).run("reverse_kernel", [2], [64], [out, x])
    np.testing.assert_array_equal(out.reshape(2, 64), x.reshape(2, 64)[:, ::-1])


def test_a_missing_barrier_is_found():
    x, out = np.arange(64, dtype="float32"), np.full(64, np.nan, "float32")
    module = EmulatedModule(REVERSE.replace("__syncthreads();", ""))
    with pytest.raises(ArtifactError, match="bytes of out depend on the order of threads or"):
        module.run("reverse_kernel", [1], [64], [out, x])


def test_sums_within_and_between_warps():
    x, out = np.arange(128, dtype="float32"), np.full(1, np.nan, "float32")
    EmulatedModule(SUM).run("sum_kernel", [1], [128], [out, x])
    assert out[0] == x.sum()


def test_a_shuffle_of_lanes_that_happen_to_be_active_is_found():
    """Nothing promises that lanes which parted are together again."""
    x, out = np.arange(128, dtype="float32"), np.full(1, np.nan, "float32")
    module = EmulatedModule(SUM.replace("(uint)4294967295", "__activemask()"))
    with pytest.raises(ArtifactError, match="lane 16, that the shuffle's mask does not name"):
        module.launch("sum_kernel", [1], [128], [out, x])


def test_a_block_that_needs_another_ones_result_is_found():
    text = """
extern "C" __global__ void chain_kernel(float* __restrict__ out) {
  if (((int)blockIdx.x) > 0) {
    out[((int)blockIdx.x)] = out[((int)blockIdx.x) - 1] + 1.0f;
  }
}
"""
    with pytest.raises(ArtifactError, match="of out depend on the order of threads or blocks"):
        EmulatedModule(text).run("chain_kernel", [4], [1], [np.zeros(4, "float32")])


@pytest.mark.parametrize(
    ("shift", "sentence"),
    [
        (8, "access outside of x: byte 144 of 144, by thread 7"),
        (-4, "access outside of x: byte -16 of 144, by thread 0"),
        (1, "vector that is not aligned in x: byte 116 of 144, by thread 7"),
    ],
)
def test_wrong_accesses_are_named(shift, sentence):
    x, out = np.ones(36, "float32"), np.full(32, np.nan, "float32")
    module = EmulatedModule(VECTORS)
    module.run("copy_kernel", [1], [8], [out, x, 0])
    np.testing.assert_array_equal(out, x[:32])
    with pytest.raises(ArtifactError, match=sentence):
        module.run("copy_kernel", [1], [8], [out, x, shift])
    # and the next launch is as good as the first
    out[:] = np.nan
    module.run("copy_kernel", [1], [8], [out, x, 0])
    np.testing.assert_array_equal(out, x[:32])


def test_what_was_never_written_is_no_number():
    out = np.zeros(3, "float32")
    EmulatedModule(VECTORS).run("unwritten_kernel", [1], [1], [out])
    np.testing.assert_array_equal(out, [np.nan, 1, np.nan])


def test_threads_that_part_at_barriers_are_found():
    with pytest.raises(ArtifactError, match=r"different barriers.*kernel apart_kernel, block 0"):
        EmulatedModule(APART).run("apart_kernel", [1], [8], [np.zeros(8, "float32")])


def test_wrong_calls_are_sentences():
    module = EmulatedModule(REVERSE)
    out = np.zeros(64, "float32")
    with pytest.raises(ArtifactError, match="was given 1 argument"):
        module.run("reverse_kernel", [1], [64], [out])
    with pytest.raises(ArtifactError, match="a block of 2048x1x1 threads cannot be launched"):
        module.run("reverse_kernel", [1], [2048], [out, out.copy()])
    for grid in ([1, 65536], [1, 1, 65536], [1 << 31]):
        with pytest.raises(ArtifactError, match="blocks cannot be launched"):
            module.run("reverse_kernel", grid, [64], [out, out.copy()])
    with pytest.raises(ArtifactError, match="a block of 1x1x65 threads cannot be launched"):
        module.run("reverse_kernel", [1], [1, 1, 65], [out, out.copy()])
    with pytest.raises(ArtifactError, match="contiguous and aligned"):
        module.run("reverse_kernel", [1], [64], [out, np.zeros(129, "float32")[::2]])
    with pytest.raises(ArtifactError, match="has no kernel"):
        EmulatedModule("int main() {}")


def test_no_compiler_is_an_error(monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ArtifactError, match=r"require a C\+\+ compiler.*Install g\+\+"):
        compile_cuda(REVERSE, tmp_path / "kernels.so")


def test_launch_of_c(tmp_path):
    """The emulated driver calls ``launch`` with the arguments of ``cuLaunchKernel``."""
    compile_cuda(REVERSE, tmp_path / "kernels.so")
    library = ctypes.CDLL(str(tmp_path / "kernels.so"))
    x, out = np.arange(64, dtype="float32"), np.full(64, np.nan, "float32")
    values = [ctypes.c_void_p(array.ctypes.data) for array in (out, x)]
    pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
    three = ctypes.c_uint * 3
    given = (three(1, 1, 1), three(64, 1, 1), ctypes.c_size_t(0), pointers)
    assert library.launch(b"reverse_kernel", *given) == 0
    np.testing.assert_array_equal(out, x[::-1])
    library.emulation_message.restype = ctypes.c_char_p
    assert library.launch(b"other", *given) == 1
    assert library.emulation_message() == b"there is no kernel other"


def test_a_launch_leaves_no_memory():
    """Guarded stacks of 32 libraries were all the pieces of memory that a process may have."""
    x, out = np.arange(128, dtype="float32"), np.full(128, np.nan, "float32")
    module = EmulatedModule(REVERSE)
    before = len(Path("/proc/self/maps").read_text().splitlines())
    module.run("reverse_kernel", (2,), (64,), [out, x])
    assert len(Path("/proc/self/maps").read_text().splitlines()) < before + 64
