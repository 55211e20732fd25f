// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Matrix-tile kernels (AMX, bf16): up to four 16x16 accumulators. The instructions are written as
// assembly because the compilers' builtins need their own header and flags; the tile numbers are
// fixed by hand: 0-3 accumulate, the others hold R and Q.
#pragma once

#include "pack.h"

#if defined(CULET_CPU_AMX)
namespace culet_cpu {
namespace CULET_CPU_LEVEL {

#define CULET_TILE_ZERO(t) asm volatile("tilezero %%tmm" #t ::)
#define CULET_TILE_LOAD(t, p, stride) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(p), "r"(stride) : "memory")
#define CULET_TILE_STORE(t, p, stride) \
  asm volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(p), "r"(stride) : "memory")
#define CULET_TILE_DOT(c, r, q) asm volatile("tdpbf16ps %%tmm" #q ", %%tmm" #r ", %%tmm" #c ::)

/// Asks the kernel, once a process, for the right to use tile registers (they enlarge every
/// thread's saved state, so Linux gives them on request only).
static inline void amx_permission() {
  static int asked = 0;
  if (__atomic_load_n(&asked, __ATOMIC_RELAXED)) return;
  long result = 158;  // arch_prctl
  asm volatile("syscall" : "+a"(result) : "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
  __atomic_store_n(&asked, 1, __ATOMIC_RELAXED);
}

/// All eight tiles 16 rows of 64 bytes; zero until loaded. Held by the caller's frame.
struct AmxSession {
  AmxSession() {
    amx_permission();
    struct {
      unsigned char palette, start_row, reserved[14];
      unsigned short bytes[16];
      unsigned char rows[16];
    } config = {};
    config.palette = 1;
    for (int i = 0; i < 8; ++i) {
      config.bytes[i] = 64;
      config.rows[i] = 16;
    }
    asm volatile("ldtilecfg %0" ::"m"(config));
  }
  ~AmxSession() { asm volatile("tilerelease" ::); }
};

template <int RT, int QT>
CULET_INLINE void amx_begin(float* c, i64 ldc, bool add) {
  const i64 stride = ldc * 4;
  if (!add) {
    CULET_TILE_ZERO(0);
    if constexpr (RT * QT > 1) CULET_TILE_ZERO(1);
    if constexpr (RT * QT > 2) CULET_TILE_ZERO(2);
    if constexpr (RT * QT > 3) CULET_TILE_ZERO(3);
    return;
  }
  // Accumulator t is tile (t / QT, t % QT).
  CULET_TILE_LOAD(0, c, stride);
  if constexpr (RT * QT > 1) CULET_TILE_LOAD(1, c + (1 / QT) * 16 * ldc + (1 % QT) * 16, stride);
  if constexpr (RT * QT > 2) CULET_TILE_LOAD(2, c + (2 / QT) * 16 * ldc + (2 % QT) * 16, stride);
  if constexpr (RT * QT > 3) CULET_TILE_LOAD(3, c + (3 / QT) * 16 * ldc + (3 % QT) * 16, stride);
}

template <int RT, int QT>
CULET_INLINE void amx_end(float* c, i64 ldc) {
  const i64 stride = ldc * 4;
  CULET_TILE_STORE(0, c, stride);
  if constexpr (RT * QT > 1) CULET_TILE_STORE(1, c + (1 / QT) * 16 * ldc + (1 % QT) * 16, stride);
  if constexpr (RT * QT > 2) CULET_TILE_STORE(2, c + (2 / QT) * 16 * ldc + (2 % QT) * 16, stride);
  if constexpr (RT * QT > 3) CULET_TILE_STORE(3, c + (3 / QT) * 16 * ldc + (3 % QT) * 16, stride);
}

/// One block of 32 k. r: first row, q: first unit of the panel's 16 steps.
template <int RT, int QT>
CULET_INLINE void amx_block(const bf16* r, i64 row, const float* q, i64 qstride) {
  const i64 rs = row * 2;
  const bf16* r1 = r + 16 * row;
  if constexpr (RT == 2 && QT == 2) {
    CULET_TILE_LOAD(6, q, qstride);
    CULET_TILE_LOAD(4, r, rs);
    CULET_TILE_LOAD(7, q + 16, qstride);
    CULET_TILE_DOT(0, 4, 6);
    CULET_TILE_LOAD(5, r1, rs);
    CULET_TILE_DOT(1, 4, 7);
    CULET_TILE_DOT(2, 5, 6);
    CULET_TILE_DOT(3, 5, 7);
  } else if constexpr (RT == 1) {
    CULET_TILE_LOAD(4, r, rs);
    CULET_TILE_LOAD(5, q, qstride);
    CULET_TILE_DOT(0, 4, 5);
    if constexpr (QT > 1) {
      CULET_TILE_LOAD(6, q + 16, qstride);
      CULET_TILE_DOT(1, 4, 6);
    }
    if constexpr (QT > 2) {
      CULET_TILE_LOAD(7, q + 32, qstride);
      CULET_TILE_DOT(2, 4, 7);
    }
    if constexpr (QT > 3) {
      CULET_TILE_LOAD(5, q + 48, qstride);
      CULET_TILE_DOT(3, 4, 5);
    }
  } else {
    static_assert(QT == 1, "tile shapes: 2x2, 1x1..1x4, 2x1..4x1");
    CULET_TILE_LOAD(4, q, qstride);
    CULET_TILE_LOAD(5, r, rs);
    CULET_TILE_DOT(0, 5, 4);
    CULET_TILE_LOAD(6, r1, rs);
    CULET_TILE_DOT(1, 6, 4);
    if constexpr (RT > 2) {
      CULET_TILE_LOAD(7, r + 32 * row, rs);
      CULET_TILE_DOT(2, 7, 4);
    }
    if constexpr (RT > 3) {
      CULET_TILE_LOAD(5, r + 48 * row, rs);
      CULET_TILE_DOT(3, 5, 4);
    }
  }
}

/// c[16 RT][16 QT] (+)= R * Q over whole blocks of 32 k. Panels only.
template <int RT, int QT, int PREFETCH, bool AHEAD_IN_PANEL>
CULET_INLINE void amx_tile(const Rows<bf16>& r, const Columns<bf16>& q, i64 k, float* c, i64 ldc,
                           bool add, bool prefetch_rows) {
  amx_begin<RT, QT>(c, ldc, add);
  const i64 blocks = (k + 31) / 32;
  const bf16* row = r.data;
  const float* panel = q.panel;
  for (i64 b = 0; b < blocks; ++b) {
    if (PREFETCH > 0 && prefetch_rows) {
#pragma GCC unroll 64
      for (int i = 0; i < RT * 16; ++i) __builtin_prefetch(row + i * r.row + PREFETCH * r.block);
    }
    if constexpr (PREFETCH > 0 && AHEAD_IN_PANEL) {
#pragma GCC unroll 64
      for (int i = 0; i < QT * 16; ++i) __builtin_prefetch(panel + PREFETCH * QT * 256 + i * 16);
    }
    amx_block<RT, QT>(row, r.row, panel, QT * 64);
    row += r.block;
    panel += QT * 256;
  }
  amx_end<RT, QT>(c, ldc);
}

}  // namespace CULET_CPU_LEVEL
}  // namespace culet_cpu
#endif
