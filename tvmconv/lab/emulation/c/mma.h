// Tensor cores of the emulator: the calls of tvmconv/tir/cuda/mma.py, in place of PTX.
//
// Which lane holds which value follows PTX ISA 9.0, "Matrix Fragments for mma.m16n8k8" (.tf32) and
// "... mma.m16n8k16" (.f16). Operands are read as the hardware reads them: of TF32 the low 13 bits
// do not count. Products are exact; the sum of one instruction is rounded once, where hardware
// rounds in an order that NVIDIA does not publish.

namespace emulation {

static inline uint32_t bits_of(float x) { uint32_t v; memcpy(&v, &x, 4); return v; }
static inline float float_of(uint32_t v) { float x; memcpy(&x, &v, 4); return x; }

// To nearest, ties to even. Infinity beyond 65504, one NaN.
static inline uint32_t half_of(float x) {
  uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return 0x7fff;
  if (bits >= 0x477ff000) return sign | 0x7c00;
  // subnormal: a multiple of 2**-24
  if (bits < 0x38800000) return sign | (uint32_t)nearbyintf(float_of(bits) * 0x1p24f);
  bits += 0xfff + (bits >> 13 & 1);
  return sign | ((bits >> 13) - (112 << 10));
}

static inline float value_of_half(uint32_t half) {
  int exponent = half >> 10 & 31;
  float mantissa = half & 1023, value;
  if (exponent == 31) value = mantissa ? NAN : INFINITY;
  else value = exponent ? ldexpf(mantissa + 1024, exponent - 25) : ldexpf(mantissa, -24);
  return half & 0x8000 ? -value : value;
}

// The product of fragments of K values, 8 in TF32 or 16 in float16, by all lanes of a warp.
template <int K> static void mma(float *c, const uint32_t *a, const uint32_t *b, int line) {
  const int each = K / 8;  // values of a register
  Fibre &me = fibres[current];
  int parity = me.shuffles++ & 1;
  for (int i = 0; i < 6; ++i) {
    uint32_t word = i < 4 ? a[i] : b[i - 4];
    for (int v = 0; v < each; ++v)
      me.operands[parity][i * each + v] =
          K == 8 ? float_of(word & 0xffffe000) : value_of_half(word >> 16 * v & 0xffff);
  }
  wait(AT_WARP, line);
  int lane = current % 32, first = current - lane;
  for (int i = 0; i < 4; ++i) {
    int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    double sum = c[i];
    for (int k = 0; k < K; ++k) {
      int of_quad = k / each % 4, half = k / (4 * each), value = k % each;
      const Fibre &left = fibres[first + row % 8 * 4 + of_quad];
      const Fibre &right = fibres[first + column * 4 + of_quad];
      sum += (double)left.operands[parity][(half * 2 + row / 8) * each + value] *
             right.operands[parity][(4 + half) * each + value];
    }
    c[i] = (float)sum;
  }
}

}  // namespace emulation

// To nearest, ties away from zero, as cvt.rna.tf32.f32.
static inline float tvmconv_tf32(float x) {
  if (x != x) return emulation::float_of(0x7fffffff);
  if (isinf(x)) return x;
  return emulation::float_of((emulation::bits_of(x) + 0x1000) & 0xffffe000);
}

static inline uint tvmconv_halves(float low, float high) {
  return emulation::half_of(high) << 16 | emulation::half_of(low);
}

// of tvmconv/tir/cuda/predicated_loads.py: the place is none where the test fails
#define tvmconv_guarded(place, inside) ((inside) ? *(place) : 0.0f)
#define tvmconv_mma_tf32(c, a, b) \
  emulation::mma<8>(c, (const uint32_t *)(a), (const uint32_t *)(b), __LINE__)
#define tvmconv_mma_fp16(c, a, b) emulation::mma<16>(c, a, b, __LINE__)

// tvmconv/tir/cuda/half.py defines this type for GPUs
struct half {
  uint16_t bits;
  half() = default;
  half(float value) : bits(emulation::half_of(value)) {}
  operator float() const { return emulation::value_of_half(bits); }
};
static inline half __float2half_rn(float value) { return half(value); }
