"""The type for float16 in memory, for CUDA C++ without NVIDIA's headers.

Models compute in float32; only their casts read and write float16.
"""

from __future__ import annotations

import re

# CUDA C++ of the type as TVM prints it; tvmconv/lab/emulation/c/mma.h has it, too
DEFINITIONS = r"""struct half {
  unsigned short bits;
  half() = default;
  __device__ __forceinline__ half(float value) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  }
  __device__ __forceinline__ operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};
static __device__ __forceinline__ half __float2half_rn(float value) { return half(value); }
"""
_NAMED = re.compile(r"\bhalf\b")


def names_half(text: str) -> bool:
    """Whether CUDA C++ has values of float16."""
    return bool(_NAMED.search(text))
