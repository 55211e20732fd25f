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

/// One step of a panel from rows of k: `kinds` rows exist (f32: 1; pairs: 2, or 1 at an odd end; 0
/// gives zeros), columns [0, cols) of NR.
template <Math math, int NR, class T>
CULET_INLINE void pack_step(const T* low, i64 qs, int kinds, i64 cols, float* out) {
  const auto vector = [&](int j) {
    if constexpr (math == Math::f32)
      return load_f32(low + j);
    else
      return kinds == 2 ? interleave(low + j, low + qs + j) : interleave_zero(low + j);
  };
  if (cols >= NR && kinds == (math == Math::f32 ? 1 : 2)) {
#pragma GCC unroll 32
    for (int j = 0; j < NR; j += kLanes) store(out + j, vector(j));
    return;
  }
  i64 j = 0;
  if (kinds > 0)
    for (; j + kLanes <= least(cols, NR); j += kLanes) store(out + j, vector((int)j));
  for (; j < NR; ++j) {
    if constexpr (math == Math::f32) {
      out[j] = j < cols && kinds > 0 ? to_f32(low[j]) : 0.0f;
    } else {
      unsigned unit = 0;
      if (j < cols && kinds > 0) unit = low[j].bits;
      if (j < cols && kinds > 1) unit |= (unsigned)low[qs + j].bits << 16;
      out[j] = __builtin_bit_cast(float, unit);
    }
  }
}

/// Panels, one after the other, from rows of k (row-major B). Whole rows of the block are read in
/// turn, so that memory sees long runs; `PREFETCH` steps ahead.
template <Math math, int NR, int PREFETCH, class T>
inline void pack_rows(const T* q, i64 qs, i64 k, i64 cols, float* panels) {
  constexpr int per_unit = math == Math::f32 ? 1 : 2;
  const i64 steps = panel_steps(math, k);
  for (i64 s = 0; s < steps; ++s) {
    const i64 left = k - s * per_unit;
    const int kinds = left >= per_unit ? per_unit : left > 0 ? 1 : 0;
    const T* low = q + s * per_unit * qs;
    float* out = panels + s * NR;
    for (i64 c = 0; c < cols; c += NR, out += steps * NR) {
      if constexpr (PREFETCH > 0) {
        const char* ahead = (const char*)(low + PREFETCH * per_unit * qs + c);
#pragma GCC unroll 32
        for (int line = 0; line < NR * (int)sizeof(T); line += 64) {
          __builtin_prefetch(ahead + line);
          if constexpr (per_unit == 2) __builtin_prefetch(ahead + qs * (i64)sizeof(T) + line);
        }
      }
      pack_step<math, NR>(low + c, qs, kinds, cols - c, out);
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
