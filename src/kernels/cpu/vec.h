// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Vectors for the CPU kernels: GNU vector extensions only, so that one source serves every level
// and compiles in a fraction of the time <immintrin.h> takes. The level is what the compiler was
// told to target; everything lives in a namespace of that level because the menu links several of
// them into one program.
#pragma once

#include "blocking.h"

namespace culet_cpu {
namespace CULET_CPU_LEVEL {

struct bf16 {
  unsigned short bits;
};

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef unsigned VecU __attribute__((vector_size(4 * kLanes)));
typedef unsigned short VecH __attribute__((vector_size(2 * kLanes)));
typedef float VecLoose __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
typedef unsigned short VecHLoose __attribute__((vector_size(2 * kLanes), aligned(2), may_alias));
// bf16 rows are only aligned to 2 bytes.
typedef float VecLoose2 __attribute__((vector_size(4 * kLanes), aligned(2), may_alias));
typedef unsigned U32Loose __attribute__((aligned(2), may_alias));

CULET_INLINE Vec load(const float* p) { return *(const VecLoose*)p; }
CULET_INLINE void store(float* p, Vec v) { *(VecLoose*)p = v; }
CULET_INLINE Vec splat(float x) { return x - Vec{}; }

CULET_INLINE float to_f32(float x) { return x; }
CULET_INLINE float to_f32(bf16 x) { return __builtin_bit_cast(float, (unsigned)x.bits << 16); }
CULET_INLINE void from_f32(float x, float* out) { *out = x; }
/// Round to nearest even; a NaN stays a (quiet) NaN.
CULET_INLINE void from_f32(float x, bf16* out) {
  const unsigned u = __builtin_bit_cast(unsigned, x);
  const unsigned rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const unsigned quiet = (u >> 16) | 0x40u;
  out->bits = (unsigned short)((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/// kLanes consecutive elements as f32.
CULET_INLINE Vec load_f32(const float* p) { return load(p); }
CULET_INLINE Vec load_f32(const bf16* p) {
  const VecU wide = __builtin_convertvector(*(const VecHLoose*)p, VecU);
  return (Vec)(wide << 16);
}
/// kLanes consecutive pairs of bf16 (2 * kLanes elements) as 32-bit units.
CULET_INLINE Vec load_pairs(const bf16* p) { return *(const VecLoose2*)p; }

/// Pairs {low[j], high[j]} of two rows of bf16.
CULET_INLINE Vec interleave(const bf16* low, const bf16* high) {
  const VecU lo = __builtin_convertvector(*(const VecHLoose*)low, VecU);
  const VecU hi = __builtin_convertvector(*(const VecHLoose*)high, VecU);
  return (Vec)(lo | (hi << 16));
}
CULET_INLINE Vec interleave_zero(const bf16* low) {
  return (Vec) __builtin_convertvector(*(const VecHLoose*)low, VecU);
}

/// The pair at p, and the last element of an odd row as a pair with zero, in every lane.
CULET_INLINE Vec splat_pair(const bf16* p) { return (Vec)((unsigned)*(const U32Loose*)p + VecU{}); }
CULET_INLINE Vec splat_single(const bf16* p) { return (Vec)((unsigned)p->bits + VecU{}); }

#if defined(__AVX512BF16__)
constexpr bool kHasDot = true;
/// acc + a.low * b.low + a.high * b.high in each lane.
CULET_INLINE Vec dot(Vec acc, Vec a, Vec b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  return acc;
}
#else
constexpr bool kHasDot = false;
CULET_INLINE Vec dot(Vec acc, Vec, Vec) { return acc; }
#endif

CULET_INLINE float sum(Vec v) {
  // Halves are added until four lanes are left; the order is fixed, so results repeat.
  typedef float Quad __attribute__((vector_size(16)));
  Quad parts[kLanes / 4];
  __builtin_memcpy(&parts, &v, sizeof(v));
  for (int step = kLanes / 8; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) parts[i] += parts[i + step];
  return (parts[0][0] + parts[0][2]) + (parts[0][1] + parts[0][3]);
}

// --- transposes of kLanes x kLanes 32-bit units --------------------------------------------------

template <int... I>
struct Indices {};
template <class>
struct Lanes;
template <int... I>
struct Lanes<Indices<I...>> {
  /// Lanes whose bit `h` is clear from x, the others from y shifted up by h; and the other half.
  template <int h>
  static CULET_INLINE void exchange(Vec& x, Vec& y) {
    const Vec low = __builtin_shufflevector(x, y, ((I & h) ? I - h + kLanes : I)...);
    const Vec high = __builtin_shufflevector(x, y, ((I & h) ? I + kLanes : I + h)...);
    x = low;
    y = high;
  }
};
#if defined(__AVX512F__)
typedef Lanes<Indices<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>> AllLanes;
#elif defined(__AVX__)
typedef Lanes<Indices<0, 1, 2, 3, 4, 5, 6, 7>> AllLanes;
#else
typedef Lanes<Indices<0, 1, 2, 3>> AllLanes;
#endif

template <int h>
CULET_INLINE void transpose_stage(Vec (&r)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    if ((i & h) == 0) AllLanes::exchange<h>(r[i], r[i + h]);
}

CULET_INLINE void transpose(Vec (&r)[kLanes]) {
  transpose_stage<1>(r);
  transpose_stage<2>(r);
  if constexpr (kLanes >= 8) transpose_stage<4>(r);
  if constexpr (kLanes >= 16) transpose_stage<8>(r);
}

}  // namespace CULET_CPU_LEVEL
}  // namespace culet_cpu
