// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Few rows of A times a column-major B, where both operands are contiguous in k: dot products
// vectorised over k, with a register tile of `mr` rows of A and `nr` columns of B. Nothing is
// packed; lanes are summed once per tile.
#pragma once

#include "tile.h"

namespace culet_cpu {
namespace CULET_CPU_LEVEL {

template <class K, class E>
struct DotGemm {
  typedef typename K::T T;
  typedef typename K::D D;
  static constexpr int kStep = kLanes * (K::math == Math::f32 ? 1 : 2);

  static CULET_INLINE Vec multiply_add(Vec acc, Vec a, Vec b) {
    if constexpr (K::math == Math::f32) return acc + a * b;
    return dot(acc, a, b);
  }

  template <int MR, int NR>
  static CULET_INLINE void step(Vec (&acc)[MR][NR], const T* a, i64 lda, const T* b, i64 ldb,
                                i64 count) {
    Vec av[MR];
#pragma GCC unroll 32
    for (int i = 0; i < MR; ++i) av[i] = load_units<K::math>(a + i * lda, count);
#pragma GCC unroll 32
    for (int j = 0; j < NR; ++j) {
      const Vec bv = load_units<K::math>(b + j * ldb, count);
#pragma GCC unroll 32
      for (int i = 0; i < MR; ++i) acc[i][j] = multiply_add(acc[i][j], av[i], bv);
    }
  }

  template <int MR, int NR>
  static __attribute__((noinline)) void tile(const CuletHostKernelArgs* x, i64 m, i64 n) {
    const T* a = (const T*)x->a + m * x->lda;
    const T* b = (const T*)x->b + n * x->ldb;
    Vec acc[MR][NR];
#pragma GCC unroll 32
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 32
      for (int j = 0; j < NR; ++j) acc[i][j] = Vec{};
    const i64 lda = x->lda, ldb = x->ldb, k = x->k;
    i64 p = 0;
    for (; p + K::unroll * kStep <= k; p += K::unroll * kStep) {
#pragma GCC unroll 8
      for (int u = 0; u < K::unroll; ++u) {
        if constexpr (K::prefetch > 0) {
#pragma GCC unroll 32
          for (int j = 0; j < NR; ++j)
            __builtin_prefetch((const char*)(b + j * ldb + p + u * kStep) + K::prefetch * 64);
        }
        step<MR, NR>(acc, a + p + u * kStep, lda, b + p + u * kStep, ldb, kStep);
      }
    }
    for (; p + kStep <= k; p += kStep) step<MR, NR>(acc, a + p, lda, b + p, ldb, kStep);
    if (p < k) step<MR, NR>(acc, a + p, lda, b + p, ldb, k - p);
    float c[MR * NR];
#pragma GCC unroll 32
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 32
      for (int j = 0; j < NR; ++j) c[i * NR + j] = sum(acc[i][j]);
    finish_rows<D, E>(x, c, NR, m, n, MR, NR);
  }

  template <int MR, int NR>
  static CULET_INLINE void columns(const CuletHostKernelArgs* x, i64 m, i64 n, i64 count) {
    if (count == NR) return tile<MR, NR>(x, m, n);
    for (i64 j = 0; j < count; ++j) tile<MR, 1>(x, m, n + j);
  }

  template <int NR, int MR>
  static CULET_INLINE void tail(const CuletHostKernelArgs* x, i64 m, i64 rows, i64 n, i64 count) {
    if constexpr (MR > 0) {
      if (rows == MR) return columns<MR, NR>(x, m, n, count);
      tail<NR, MR - 1>(x, m, rows, n, count);
    }
  }

  static void run(const CuletHostKernelArgs* x) {
    for (i64 n = x->n_begin; n < x->n_end; n += K::nr) {
      const i64 count = least(K::nr, x->n_end - n);
      for (i64 m = x->m_begin; m < x->m_end; m += K::mr) {
        const i64 rows = least(K::mr, x->m_end - m);
        if (rows == K::mr)
          columns<K::mr, K::nr>(x, m, n, count);
        else if constexpr (K::tail_mr > 0)
          columns<K::tail_mr, K::nr>(x, m, n, count);
        else if constexpr (K::tail_mr < 0)
          tail<K::nr, K::mr - 1>(x, m, rows, n, count);
      }
    }
  }
};

template <class K, class E>
inline void dot_gemm(const CuletHostKernelArgs* x) {
  if (x->k == 0) return empty_product<typename K::D, E>(x);
  DotGemm<K, E>::run(x);
}

}  // namespace CULET_CPU_LEVEL
}  // namespace culet_cpu
