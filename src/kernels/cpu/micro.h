// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Register-tile kernels: `mr` rows times `nv` vectors of columns, kept in registers over a block of
// k. The row operand R is read by broadcast, the column operand Q by vectors, either where it lies
// (rows of k, then columns) or from a panel [step][nr] of 32-bit units, where a unit is one f32 or
// a pair of bf16 consecutive in k.
#pragma once

#include "vec.h"

namespace culet_cpu {
namespace CULET_CPU_LEVEL {

/// Where the vectors of Q come from. `through` reads in place and leaves the panel behind.
enum class From { place, panel, through };

/// Element of R as the kernel reads it, given the storage type.
template <class T, Math math>
struct RowElement {
  typedef T type;
};
template <class T>
struct RowElement<T, Math::f32> {
  typedef float type;
};

/// Rows of R: row i of k-step block b starts at data + i * row + b * block (elements; only the tile
/// kernels use `block`, of 32 elements).
template <class R>
struct Rows {
  const R* data;
  i64 row;
  i64 block;
};

template <class T>
struct Columns {
  const T* place;  ///< element [0][0] of the block in place
  i64 step;        ///< elements between rows of k
  float* panel;
};

template <int MR, int NV>
CULET_INLINE void write_tile(const Vec (&acc)[MR][NV], float* c, i64 ldc, bool add) {
  if (add) {
#pragma GCC unroll 32
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 32
      for (int j = 0; j < NV; ++j)
        store(c + i * ldc + j * kLanes, load(c + i * ldc + j * kLanes) + acc[i][j]);
  } else {
#pragma GCC unroll 32
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 32
      for (int j = 0; j < NV; ++j) store(c + i * ldc + j * kLanes, acc[i][j]);
  }
}

/// One step of k (f32) or of two k (dot); `single` is the last step of an odd k.
template <Math math, From from, int NR, int MR, int NV, class T>
CULET_INLINE void tile_step(Vec (&acc)[MR][NV], const Rows<typename RowElement<T, math>::type>& r,
                            const Columns<T>& q, i64 step, bool single) {
  Vec b[NV];
  float* panel = q.panel + step * NR;
#pragma GCC unroll 32
  for (int j = 0; j < NV; ++j) {
    if constexpr (from == From::panel) {
      b[j] = load(panel + j * kLanes);
    } else if constexpr (math == Math::f32) {
      b[j] = load_f32(q.place + step * q.step + j * kLanes);
    } else {
      const T* low = q.place + 2 * step * q.step + j * kLanes;
      b[j] = single ? interleave_zero((const bf16*)low)
                    : interleave((const bf16*)low, (const bf16*)(low + q.step));
    }
    if constexpr (from == From::through) store(panel + j * kLanes, b[j]);
  }
#pragma GCC unroll 32
  for (int i = 0; i < MR; ++i) {
    if constexpr (math == Math::f32) {
      const Vec a = splat(r.data[i * r.row + step]);
#pragma GCC unroll 32
      for (int j = 0; j < NV; ++j) acc[i][j] += a * b[j];
    } else {
      const bf16* p = (const bf16*)(r.data + i * r.row + 2 * step);
      const Vec a = single ? splat_single(p) : splat_pair(p);
#pragma GCC unroll 32
      for (int j = 0; j < NV; ++j) acc[i][j] = dot(acc[i][j], a, b[j]);
    }
  }
}

template <Math math, From from, int NR, int NV, int PREFETCH, class T>
CULET_INLINE void prefetch_step(const Columns<T>& q, i64 step) {
  constexpr int kLine = 64;
  if constexpr (from == From::panel) {
    const char* p = (const char*)(q.panel + (step + PREFETCH) * NR);
#pragma GCC unroll 32
    for (int line = 0; line < NV * kLanes * 4; line += kLine) __builtin_prefetch(p + line);
  } else {
    constexpr int rows = math == Math::dot ? 2 : 1;
#pragma GCC unroll 2
    for (int row = 0; row < rows; ++row) {
      const char* p = (const char*)(q.place + (rows * (step + PREFETCH) + row) * q.step);
#pragma GCC unroll 32
      for (int line = 0; line < NV * kLanes * (int)sizeof(T); line += kLine)
        __builtin_prefetch(p + line);
    }
  }
}

/// c[MR][NV * kLanes] (+)= R * Q over k elements.
template <Math math, From from, int NR, int MR, int NV, int UNROLL, int PREFETCH, class T>
CULET_INLINE void vector_tile(const Rows<typename RowElement<T, math>::type>& r,
                              const Columns<T>& q, i64 k, float* c, i64 ldc, bool add) {
  Vec acc[MR][NV];
#pragma GCC unroll 32
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 32
    for (int j = 0; j < NV; ++j) acc[i][j] = Vec{};
  const i64 steps = math == Math::dot ? k / 2 : k;
  i64 step = 0;
  // Else the sums' lines are waited for at the end: they lie rows apart and were last used a block
  // of k ago. (AVX2, 1024x1024x1024: 61 ms without, 58 with.)
  if constexpr (MR > 1) {
#pragma GCC unroll 32
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 32
      for (int j = 0; j < NV * kLanes; j += 16) __builtin_prefetch(c + i * ldc + j, 1);
  }
  for (; step + UNROLL <= steps; step += UNROLL) {
#pragma GCC unroll 16
    for (int u = 0; u < UNROLL; ++u) {
      if constexpr (PREFETCH > 0) prefetch_step<math, from, NR, NV, PREFETCH>(q, step + u);
      tile_step<math, from, NR, MR, NV>(acc, r, q, step + u, false);
    }
  }
  for (; step < steps; ++step) tile_step<math, from, NR, MR, NV>(acc, r, q, step, false);
  if constexpr (math == Math::dot)
    if (k & 1) tile_step<math, from, NR, MR, NV>(acc, r, q, step, true);
  write_tile(acc, c, ldc, add);
}

}  // namespace CULET_CPU_LEVEL
}  // namespace culet_cpu
