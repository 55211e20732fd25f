// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The blocked product around a register tile. Two operands take part: R, read row by row with k
// contiguous, and Q, read as vectors of columns. Normally R is A and Q is B; with `swap`
// (column-major B only) R is B, read where it lies, Q is A, and D is written transposed.
//
// A kernel is a struct K of constants:
//   T, D          storage types of A and B, and of D
//   math, mr, nv  the register tile: rows, vectors of columns (amx: multiples of 16, 16-wide tiles)
//   b_columns     B is column-major;   swap   see above
//   columns       Columnwise mode of Q;   copy_rows   copy R's block
//   unroll, prefetch (steps ahead)
//   tail_mr, tail_cols, tail_nv   the remainders of rows and columns, and the vectors that hold the
//                 latter, where known when compiling; -1 unknown
//   blocking(Extent)   kc, mc, nc;   whole_k   kc is all of k
// What is known removes the variants that would not run: compiling is most of what trying a
// candidate costs.
#pragma once

#include "abi.h"
#include "amx.h"

/// Before a loop whose stores meet none of its loads. Clang has a pragma like it, but warns where
/// it makes no use of it.
#if defined(__clang__)
#define CULET_NO_ALIASES
#else
#define CULET_NO_ALIASES _Pragma("GCC ivdep")
#endif

namespace culet_cpu {
namespace CULET_CPU_LEVEL {

/// D = acc.
struct Identity {
  static constexpr bool identity = true;
  static CULET_INLINE float apply(float acc, const void* const*, i64, i64, i64) { return acc; }
};

/// D's elements from a tile of sums: row (m0 + i), columns n0 ... of c.
template <class D, class E>
CULET_INLINE void finish_rows(const CuletHostKernelArgs* x, const float* c, i64 ldc, i64 m0, i64 n0,
                              i64 rows, i64 cols) {
  for (i64 i = 0; i < rows; ++i) {
    D* out = (D*)x->d + (m0 + i) * x->ldd + n0;
    const float* sums = c + i * ldc;
    CULET_NO_ALIASES
    for (i64 j = 0; j < cols; ++j)
      from_f32(E::apply(sums[j], x->extra, m0 + i, n0 + j, x->ldd), out + j);
  }
}

/// The same from a transposed tile: row i of c is column (n0 + i) of D.
template <class D, class E>
inline void finish_columns(const CuletHostKernelArgs* x, const float* c, i64 ldc, i64 m0, i64 n0,
                           i64 rows, i64 cols) {
  for (i64 i0 = 0; i0 < rows; i0 += kLanes) {
    for (i64 j0 = 0; j0 < cols; j0 += kLanes) {
      Vec r[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) r[i] = i0 + i < rows ? load(c + (i0 + i) * ldc + j0) : Vec{};
      transpose(r);
      float block[kLanes * kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) store(block + i * kLanes, r[i]);
      finish_rows<D, E>(x, block, kLanes, m0 + j0, n0 + i0, least(kLanes, cols - j0),
                        least(kLanes, rows - i0));
    }
  }
}

template <class K, class E>
struct Gemm {
  typedef typename K::T T;
  typedef typename K::D D;
  typedef typename RowElement<T, K::math>::type R;
  static constexpr int kNr = K::nv * kLanes;
  static constexpr bool kColumns = K::b_columns;  // Q's columns are contiguous in k
  static constexpr bool kAmx = K::math == Math::amx;
  static constexpr bool kNarrow = sizeof(R) != sizeof(T);
  static constexpr bool kSumsInD = sizeof(D) == 4 && E::identity && !K::swap;
  // Rows of k are packed for all panels of a block at once, columns a panel at a time.
  static constexpr bool kPackBlocks = K::columns == Columnwise::pack && !kColumns;
  // Every panel consists of whole vectors, so every tile is as wide as its kernel.
  static constexpr bool kWholeVectors = K::tail_cols >= 0 && K::tail_cols % kLanes == 0;
  static constexpr ScratchRules rules() {
    return {K::math, K::columns, K::copy_rows, kNarrow, kSumsInD, K::mr, kNr};
  }

  const CuletHostKernelArgs* x;
  const T* r;
  const T* q;
  i64 ldr, ldq, r_begin, r_end, q_begin, q_end, k;
  i64 kc, mc, nc;
  bool copied;
  float* panels;
  R* rows;
  R* edge;
  float* sums;
  i64 sums_ld;

  CULET_INLINE explicit Gemm(const CuletHostKernelArgs* args) : x(args) {
    const bool s = K::swap;
    r = (const T*)(s ? x->b : x->a);
    q = (const T*)(s ? x->a : x->b);
    ldr = s ? x->ldb : x->lda;
    ldq = s ? x->lda : x->ldb;
    r_begin = s ? x->n_begin : x->m_begin;
    r_end = s ? x->n_end : x->m_end;
    q_begin = s ? x->m_begin : x->n_begin;
    q_end = s ? x->m_end : x->n_end;
    k = x->k;
    const Extent extent{r_end - r_begin, q_end - q_begin, k};
    const Blocking b = K::blocking(extent);
    const ScratchLayout layout = scratch_layout(rules(), b, extent);
    kc = b.kc == 0 ? k : least(b.kc, k);
    mc = b.mc == 0 ? extent.rows : b.mc;
    nc = b.nc == 0 ? round_up(extent.cols, kNr) : b.nc;
    copied = rows_are_copied(rules(), k);
    char* p = (char*)x->scratch;
    panels = (float*)p;
    rows = (R*)(p += layout.panels);
    edge = (R*)(p += layout.rows);
    sums = (float*)(p += layout.edge);
    sums_ld = least(nc, round_up(extent.cols, kNr));
  }

  /// One block of k of the tile at rows r0 (mr of them), columns q0.
  struct Tile {
    i64 r0, q0, k0, kb;
    int mr;
    i64 cols;
    bool first, last;
  };

  template <From from, int MR, int NV>
  CULET_INLINE void multiply(const Rows<R>& rr, const Columns<T>& qq, const Tile& t, float* c,
                             i64 ldc) {
#if defined(CULET_CPU_AMX)
    if constexpr (kAmx) {
      amx_tile<K::mr / 16, K::nv, K::prefetch, K::columns == Columnwise::prepack>(
          rr, qq, t.kb, c, ldc, !K::whole_k && !t.first,
          !copied && K::columns != Columnwise::prepack);
      return;
    }
#endif
    if constexpr (!kAmx)
      vector_tile<K::math, from, kNr, MR, NV, K::unroll, K::prefetch, T>(rr, qq, t.kb, c, ldc,
                                                                         !K::whole_k && !t.first);
  }

  /// One copy of the code for all places that call it, but where a tile is so little work that
  /// calling it would cost a tenth.
  template <From from, int MR, int NV>
  CULET_INLINE void tile(const Rows<R>& rr, const Columns<T>& qq, const Tile& t) {
    if constexpr (K::mr == 1 && from == From::place) {
      one_tile<from, MR, NV>(rr, qq, t);
    } else {
      called_tile<from, MR, NV>(rr, qq, t);
    }
  }

  template <From from, int MR, int NV>
  __attribute__((noinline)) void called_tile(const Rows<R>& rr, const Columns<T>& qq,
                                             const Tile& t) {
    one_tile<from, MR, NV>(rr, qq, t);
  }

  template <From from, int MR, int NV>
  CULET_INLINE void one_tile(const Rows<R>& rr, const Columns<T>& qq, const Tile& t) {
    constexpr int width = NV * kLanes;
    if constexpr (kSumsInD) {
      float* d = (float*)x->d + t.r0 * x->ldd + t.q0;
      const bool full = (!kAmx && kWholeVectors) || (t.cols == width && t.mr == MR);
      alignas(64) float local[MR * width];
      if (!full && !K::whole_k && !t.first)
        for (int i = 0; i < t.mr; ++i)
          for (i64 j = 0; j < t.cols; ++j) local[i * width + j] = d[i * x->ldd + j];
      multiply<from, MR, NV>(rr, qq, t, full ? d : local, full ? x->ldd : width);
      if (!full)
        for (int i = 0; i < t.mr; ++i)
          for (i64 j = 0; j < t.cols; ++j) d[i * x->ldd + j] = local[i * width + j];
    } else {
      alignas(64) float local[MR * width];
      const bool single = K::whole_k || kc >= k;
      float* c = single ? local : sums + (t.r0 - r_begin) * sums_ld + (t.q0 - q_begin) % nc;
      const i64 ldc = single ? width : sums_ld;
      multiply<from, MR, NV>(rr, qq, t, c, ldc);
      if (!K::whole_k && !t.last) return;
      if constexpr (K::swap)
        finish_columns<D, E>(x, c, ldc, t.q0, t.r0, t.mr, t.cols);
      else
        finish_rows<D, E>(x, c, ldc, t.r0, t.q0, t.mr, t.cols);
    }
  }

  template <From from, int NV, int MR = K::mr - 1>
  CULET_INLINE void tail_tile(const Rows<R>& rr, const Columns<T>& qq, const Tile& t) {
    if constexpr (MR > 0) {
      if (t.mr == MR) return tile<from, MR, NV>(rr, qq, t);
      tail_tile<from, NV, MR - 1>(rr, qq, t);
    }
  }

  template <From from, int NV>
  CULET_INLINE void row_tile(const Rows<R>& rr, const Columns<T>& qq, const Tile& t) {
    if constexpr (kAmx) {
      tile<from, K::mr, NV>(rr, qq, t);
    } else {
      if (t.mr == K::mr) return tile<from, K::mr, NV>(rr, qq, t);
      if constexpr (K::tail_mr > 0) tile<from, K::tail_mr, NV>(rr, qq, t);
      if constexpr (K::tail_mr < 0) tail_tile<from, NV>(rr, qq, t);
    }
  }

  CULET_INLINE Rows<R> tile_rows(i64 ic, i64 ir, i64 pc, i64 kb, int mr) {
    if constexpr (kAmx) {
      constexpr i64 block = K::mr * 32;
      if (copied) return {rows + ir / K::mr * ((kb + 31) / 32) * block, 32, block};
      const T* p = r + (ic + ir) * ldr + pc;
      if (mr == K::mr) return {(const R*)p, ldr, 32};
      copy_blocks<K::mr>(p, ldr, mr, kb, (T*)edge);
      return {edge, 32, block};
    } else {
      if (copied) return {rows + ir * copied_row(kc), copied_row(kc), 0};
      return {(const R*)(r + (ic + ir) * ldr + pc), ldr, 0};
    }
  }

  CULET_INLINE void copy_block(i64 ic, i64 pc, i64 mb, i64 kb) {
    if constexpr (kAmx)
      copy_blocks<K::mr>(r + ic * ldr + pc, ldr, mb, kb, (T*)rows);
    else
      copy_rows<K::math>(r + ic * ldr + pc, ldr, mb, kb, rows, copied_row(kc));
  }

  CULET_INLINE void pack_panel(i64 q0, i64 pc, i64 kb, i64 cols, float* panel) {
    if constexpr (kColumns)
      pack_columns<K::math, kNr>(q + q0 * ldq + pc, ldq, kb, cols, panel);
    else
      pack_rows<K::math, kNr, 0>(q + pc * ldq + q0, ldq, kb, cols, panel);
  }

  template <int NV>
  CULET_INLINE void panel_tiles(i64 ic, i64 mb, i64 q0, i64 pc, i64 kb, i64 cols, float* panel) {
    constexpr bool in_place = !kColumns && !kAmx && !K::swap;
    const bool whole = kWholeVectors || cols == NV * kLanes;
    Columns<T> qq{q, ldq, panel};
    if constexpr (in_place) qq.place = q + pc * ldq + q0;
    if constexpr (K::columns != Columnwise::prepack && !kPackBlocks) {
      const bool needed = K::columns == Columnwise::pack || !in_place || !whole;
      if (needed && ic == r_begin) pack_panel(q0, pc, kb, cols, panel);
    }
    for (i64 ir = 0; ir < mb; ir += K::mr) {
      Tile t{ic + ir, q0, pc, kb, (int)least(K::mr, mb - ir), cols, pc == 0, pc + kb >= k};
      const Rows<R> rr = tile_rows(ic, ir, pc, kb, t.mr);
      if constexpr (in_place && K::columns == Columnwise::direct) {
        if (whole) {
          row_tile<From::place, NV>(rr, qq, t);
          continue;
        }
      }
      if constexpr (in_place && K::columns == Columnwise::through) {
        if (whole && ic == r_begin && ir == 0) {
          row_tile<From::through, NV>(rr, qq, t);
          continue;
        }
      }
      row_tile<From::panel, NV>(rr, qq, t);
    }
  }

  CULET_INLINE void columns_of_block(i64 jc, i64 nb, i64 ic, i64 mb, i64 pc, i64 kb) {
    for (i64 jr = 0; jr < nb; jr += kNr) {
      const i64 q0 = jc + jr;
      const i64 cols = least(kNr, nb - jr);
      float* panel;
      if constexpr (K::columns == Columnwise::prepack)
        panel = (float*)x->b + q0 / kNr * (panel_steps(K::math, k) * kNr) +
                (K::math == Math::f32 ? pc : pc / 2) * kNr;
      else if constexpr (K::columns == Columnwise::direct && !kColumns && !kAmx)
        panel = panels;
      else if (!kPackBlocks && mc >= r_end - r_begin)
        panel = panels;  // no other block of rows comes back to it: it stays in the cache
      else
        panel = panels + jr / kNr * (panel_steps(K::math, kb) * kNr);
      if constexpr (K::tail_nv > 0 && K::tail_nv < K::nv && !kAmx) {
        if (cols <= K::tail_nv * kLanes) {
          panel_tiles<K::tail_nv>(ic, mb, q0, pc, kb, cols, panel);
          continue;
        }
      }
      panel_tiles<K::nv>(ic, mb, q0, pc, kb, cols, panel);
    }
  }

  void run() {
    const bool once = kc >= k && mc >= r_end - r_begin;
    for (i64 jc = q_begin; jc < q_end; jc += nc) {
      const i64 nb = least(nc, q_end - jc);
      for (i64 pc = 0; pc < k; pc += kc) {
        const i64 kb = least(kc, k - pc);
        for (i64 ic = r_begin; ic < r_end; ic += mc) {
          const i64 mb = least(mc, r_end - ic);
          if constexpr (kPackBlocks)
            if (ic == r_begin)
              pack_rows<K::math, kNr, K::prefetch>(q + pc * ldq + jc, ldq, kb, nb, panels);
          if (copied && (!once || jc == q_begin)) copy_block(ic, pc, mb, kb);
          columns_of_block(jc, nb, ic, mb, pc, kb);
        }
      }
    }
  }
};

/// D = epilogue(0) where there is nothing to sum.
template <class D, class E>
inline void empty_product(const CuletHostKernelArgs* x) {
  const float zeros[64] = {};
  for (i64 m = x->m_begin; m < x->m_end; ++m)
    for (i64 n = x->n_begin; n < x->n_end; n += 64)
      finish_rows<D, E>(x, zeros, 0, m, n, 1, least(64, x->n_end - n));
}

template <class K, class E>
inline void tile_gemm(const CuletHostKernelArgs* x) {
  if (x->k == 0) return empty_product<typename K::D, E>(x);
#if defined(CULET_CPU_AMX)
  if constexpr (K::math == Math::amx) {
    AmxSession session;
    Gemm<K, E>(x).run();
    return;
  }
#endif
  Gemm<K, E>(x).run();
}

/// The pack entry of Columnwise::prepack: panels over all of k, in order of n.
template <class K>
inline void tile_pack(const CuletHostKernelArgs* x, void* packed) {
  typedef typename K::T T;
  constexpr int nr = K::nv * kLanes;
  const T* b = (const T*)x->b;
  float* panel = (float*)packed;
  for (i64 n = 0; n < x->n; n += nr, panel += panel_steps(K::math, x->k) * nr) {
    const i64 cols = least(nr, x->n - n);
    if constexpr (K::b_columns)
      pack_columns<K::math, nr>(b + n * x->ldb, x->ldb, x->k, cols, panel);
    else
      pack_rows<K::math, nr, 0>(b + n, x->ldb, x->k, cols, panel);
  }
}

}  // namespace CULET_CPU_LEVEL
}  // namespace culet_cpu
