"""The emulator's ``mma.sync`` against the tables of the PTX ISA, and its roundings against numpy.

Lanes load their registers by the formulas of PTX ISA 9.0. Sections: "Matrix Fragments for
mma.m16n8k8" (.tf32) and "Matrix Fragments for mma.m16n8k16 with floating point type" (.f16).
"""

from __future__ import annotations

import numpy as np
import pytest

from tvmconv.lab.emulation.module import EmulatedModule

# ai of row groupID for i 0 and 2, else groupID + 8; column threadID_in_group for i below 2, else
# + 4. bi of row threadID_in_group + 4 i; column groupID. ci of row groupID for i below 2, else + 8;
# column 2 threadID_in_group + (i & 1)
TF32 = """
extern "C" __global__ void __launch_bounds__(32) tf32_kernel(float* __restrict__ A, float* __restrict__ B, float* __restrict__ C) {
  alignas(64) float a[4];
  alignas(64) float b[2];
  alignas(64) float c[4];
  int group = ((int)threadIdx.x) >> 2;
  int thread = ((int)threadIdx.x) % 4;
  for (int i = 0; i < 4; ++i) {
    int row = (i == 0 || i == 2) ? group : group + 8;
    int col = (i == 0 || i == 1) ? thread : thread + 4;
    a[i] = A[row * 8 + col];
  }
  for (int i = 0; i < 2; ++i) {
    b[i] = B[(thread + 4 * i) * 8 + group];
  }
  for (int i = 0; i < 4; ++i) {
    int row = (i < 2) ? group : group + 8;
    c[i] = C[row * 8 + thread * 2 + (i & 1)];
  }
  tvmconv_mma_tf32((&(c[0])), (&(a[0])), (&(b[0])));
  for (int i = 0; i < 4; ++i) {
    int row = (i < 2) ? group : group + 8;
    C[row * 8 + thread * 2 + (i & 1)] = c[i];
  }
}
"""  # noqa: E501
# ai of row groupID for i 0, 1, 4 and 5, else + 8; column 2 threadID_in_group + (i & 1) for i below
# 4, else + 8. bi of row 2 threadID_in_group + (i & 1) for i below 2, else + 8; column groupID
FP16 = """
extern "C" __global__ void __launch_bounds__(32) fp16_kernel(float* __restrict__ A, float* __restrict__ B, float* __restrict__ C) {
  alignas(64) uint a[4];
  alignas(64) uint b[2];
  alignas(64) float c[4];
  int group = ((int)threadIdx.x) >> 2;
  int thread = ((int)threadIdx.x) % 4;
  for (int i = 0; i < 8; i += 2) {
    int row = (i < 2 || (4 <= i && i < 6)) ? group : group + 8;
    int col = (i < 4) ? thread * 2 : thread * 2 + 8;
    a[i / 2] = tvmconv_halves(A[row * 16 + col], A[row * 16 + col + 1]);
  }
  for (int i = 0; i < 4; i += 2) {
    int row = (i < 2) ? thread * 2 : thread * 2 + 8;
    b[i / 2] = tvmconv_halves(B[row * 8 + group], B[(row + 1) * 8 + group]);
  }
  for (int i = 0; i < 4; ++i) {
    int row = (i < 2) ? group : group + 8;
    c[i] = C[row * 8 + thread * 2 + (i & 1)];
  }
  tvmconv_mma_fp16((&(c[0])), (&(a[0])), (&(b[0])));
  tvmconv_mma_fp16((&(c[0])), (&(a[0])), (&(b[0])));
  for (int i = 0; i < 4; ++i) {
    int row = (i < 2) ? group : group + 8;
    C[row * 8 + thread * 2 + (i & 1)] = c[i];
  }
}
"""  # noqa: E501
ROUND = """
extern "C" __global__ void __launch_bounds__(64) round_kernel(float* __restrict__ x, float* __restrict__ tf32, uint* __restrict__ halves) {
  tf32[((int)threadIdx.x)] = tvmconv_tf32(x[((int)threadIdx.x)]);
  halves[((int)threadIdx.x)] = tvmconv_halves(x[((int)threadIdx.x)], x[(((int)threadIdx.x) ^ 1)]);
}
"""  # noqa: E501


def operands(depth: int) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(depth)
    a = generator.integers(-100, 100, (16, depth)).astype(np.float32)
    b = generator.integers(-100, 100, (depth, 8)).astype(np.float32)
    return a, b, generator.integers(-100, 100, (16, 8)).astype(np.float32)


def test_tf32_fragments_are_those_of_the_tables():
    a, b, c = operands(8)
    expected = a @ b + c
    EmulatedModule(TF32).run("tf32_kernel", [1], [32], [a, b, c])
    np.testing.assert_array_equal(c, expected)


def test_fragments_of_fp16_match_the_tables():
    a, b, c = operands(16)
    expected = 2 * (a @ b) + c
    EmulatedModule(FP16).run("fp16_kernel", [1], [32], [a, b, c])
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("thread + 4 * i", "thread * 2 + i"),
        ("i == 0 || i == 2", "i < 2"),
        ("(i & 1)] = c", "(i >> 1)] = c"),
    ],
)
def test_other_tables_give_other_results(right, wrong):
    a, b, c = operands(8)
    expected = a @ b + c
    assert right in TF32
    EmulatedModule(TF32.replace(right, wrong)).launch("tf32_kernel", [1], [32], [a, b, c])
    assert not np.array_equal(c, expected)


def test_bits_that_tf32_lacks_do_not_count():
    a, b, c = operands(8)
    expected = a @ b + c
    noisy = (a.view(np.uint32) | np.uint32(0x1FFF)).view(np.float32)
    EmulatedModule(TF32).run("tf32_kernel", [1], [32], [noisy, b, c])
    np.testing.assert_array_equal(c, expected)


def test_values_are_rounded_as_the_instructions_do():
    generator = np.random.default_rng(0)
    x = (generator.standard_normal(64) * 10.0 ** generator.integers(-9, 6, 64)).astype(np.float32)
    special = [np.nan, np.inf, -np.inf, 65519.9, 65520, -7e4, 0, -0.0]
    special += [
        1 + 2.0**-11,
        1 + 3 * 2.0**-11,
        6.1e-5,
        2.0**-24,
        2.0**-25,
        3 * 2.0**-26,
        3.4e38,
        -1,
    ]
    x[: len(special)] = special
    tf32, halves = np.zeros(64, np.float32), np.zeros(64, np.uint32)
    EmulatedModule(ROUND).run("round_kernel", [1], [64], [x, tf32, halves])
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(np.float16)
        # to the nearest multiple of the 10th bit after the point, ties away from zero
        unit = 2.0 ** (np.frexp(x.astype(np.float64))[1] - 11)
        nearest = np.float32(np.trunc(np.abs(x / unit) + 0.5) * unit * np.sign(x))
    low, high = halves & 0xFFFF, halves >> 16
    for word, right in ((low, expected), (high, expected[np.arange(64) ^ 1])):
        np.testing.assert_array_equal(word.astype(np.uint16).view(np.float16), right)
    finite = np.isfinite(x) & (np.abs(x) < 3.4e38)
    np.testing.assert_array_equal(tf32[finite], nearest[finite])
    np.testing.assert_array_equal(tf32[:3], x[:3])
