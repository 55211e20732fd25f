// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Copies into the forms the register tiles read: panels of Q ([step][nr] 32-bit units, columns
// beyond the operand and the second half of an odd k zero) and blocks of R. Nothing is read beyond
// the operand.
#pragma once

#include "micro.h"

namespace culet_cpu {
namespace CULET_CPU_LEVEL {

/// Up to kLanes units of a row of k, from element `p`, `count` elements of which exist.
template <Math math, class T>
CULET_INLINE Vec load_units(const T* p, i64 count) {
  constexpr int per_unit = math == Math::f32 ? 1 : 2;
  if (count >= kLanes * per_unit) {
    if constexpr (math == Math::f32)
      return load_f32(p);
    else
      return load_pairs(p);
  }
  T copy[kLanes * per_unit] = {};
  for (i64 i = 0; i < count; ++i) copy[i] = p[i];
  if constexpr (math == Math::f32)
    return load_f32(copy);
  else
    return load_pairs(copy);
}

/// Panel from rows of k (row-major B): columns [0, cols) of NR.
template <Math math, int NR, class T>
inline void pack_rows(const T* q, i64 qs, i64 k, i64 cols, float* panel) {
  constexpr int per_unit = math == Math::f32 ? 1 : 2;
  const i64 steps = panel_steps(math, k);
  const i64 full = k / per_unit;
  const int vectors = (int)(cols / kLanes);
  for (i64 s = 0; s < steps; ++s) {
    float* out = panel + s * NR;
    const T* low = q + s * per_unit * qs;
    for (int j = 0; j < vectors; ++j) {
      if (s < full) {
        if constexpr (math == Math::f32)
          store(out + j * kLanes, load_f32(low + j * kLanes));
        else
          store(out + j * kLanes, interleave(low + j * kLanes, low + qs + j * kLanes));
      } else if (math != Math::f32 && s * per_unit < k) {
        store(out + j * kLanes, interleave_zero((const bf16*)low + j * kLanes));
      } else {
        store(out + j * kLanes, Vec{});
      }
    }
    for (i64 j = vectors * kLanes; j < NR; ++j) {
      if constexpr (math == Math::f32) {
        out[j] = j < cols ? to_f32(low[j]) : 0.0f;
      } else {
        unsigned unit = 0;
        if (j < cols && s * 2 < k) unit = low[j].bits;
        if (j < cols && s * 2 + 1 < k) unit |= (unsigned)low[qs + j].bits << 16;
        out[j] = __builtin_bit_cast(float, unit);
      }
    }
  }
}

/// Panel from columns of k (column-major B): a transpose, kLanes columns and units at a time.
template <Math math, int NR, class T>
inline void pack_columns(const T* q, i64 qs, i64 k, i64 cols, float* panel) {
  constexpr int per_unit = math == Math::f32 ? 1 : 2;
  constexpr i64 wide = kLanes * per_unit;
  const i64 steps = panel_steps(math, k);
  for (i64 s = 0; s < steps; s += kLanes) {
    const i64 left = k - s * per_unit;
    const i64 rows = steps - s < kLanes ? steps - s : kLanes;
    for (int c0 = 0; c0 < NR; c0 += kLanes) {
      Vec r[kLanes];
      const T* from = q + s * per_unit;
      if (left >= wide && cols - c0 >= kLanes) {
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) r[i] = load_units<math>(from + (c0 + i) * qs, wide);
      } else {
        for (int i = 0; i < kLanes; ++i)
          r[i] = c0 + i < cols && left > 0 ? load_units<math>(from + (c0 + i) * qs, left) : Vec{};
      }
      transpose(r);
      float* out = panel + s * NR + c0;
      if (rows == kLanes) {
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) store(out + i * NR, r[i]);
      } else {
        for (int i = 0; i < rows; ++i) store(out + i * NR, r[i]);
      }
    }
  }
}

/// Rows of R as the kernel's row elements, `ld` apart, zero up to `ld` where the tile kernels or an
/// odd k need it.
template <Math math, class T>
inline void copy_rows(const T* a, i64 lda, i64 rows, i64 k, typename RowElement<T, math>::type* out,
                      i64 ld) {
  for (i64 i = 0; i < rows; ++i) {
    const T* row = a + i * lda;
    auto* to = out + i * ld;
    i64 x = 0;
    if constexpr (math == Math::f32) {
      for (; x + kLanes <= k; x += kLanes) store(to + x, load_f32(row + x));
      for (; x < k; ++x) to[x] = to_f32(row[x]);
    } else {
      __builtin_memcpy(to, row, (unsigned long)k * sizeof(T));
      for (x = k; x < ld; ++x) to[x] = T{};
    }
  }
}

/// Rows of R as blocks of 32 elements for the tile kernels: [group of MR rows][k / 32][MR][32],
/// rows and k beyond the operand zero.
template <int MR, class T>
inline void copy_blocks(const T* a, i64 lda, i64 rows, i64 k, T* out) {
  const i64 blocks = (k + 31) / 32;
  for (i64 i = 0; i < (rows + MR - 1) / MR * MR; ++i) {
    T* to = out + (i / MR) * (blocks * MR * 32) + (i % MR) * 32;
    const T* row = a + i * lda;
    for (i64 b = 0; b < blocks; ++b, to += MR * 32) {
      const i64 left = i < rows ? k - b * 32 : 0;
      if (left >= 32) {
        __builtin_memcpy(to, row + b * 32, 64);
      } else {
        for (i64 x = 0; x < 32; ++x) to[x] = x < left ? row[b * 32 + x] : T{};
      }
    }
  }
}

}  // namespace CULET_CPU_LEVEL
}  // namespace culet_cpu
