// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Block sizes of a CPU kernel and the scratch memory they need: plain arithmetic shared by the
// kernels and by the host code that describes their launch. Also the name of the instruction-set
// level everything else is compiled for (see vec.h).
#pragma once

#if defined(CULET_CPU_AMX)
#define CULET_CPU_LEVEL v4_amx
#elif defined(__AVX512BF16__)
#define CULET_CPU_LEVEL v4_bf16
#elif defined(__AVX512F__)
#define CULET_CPU_LEVEL v4
#elif defined(__AVX2__)
#define CULET_CPU_LEVEL v3
#else
#define CULET_CPU_LEVEL base
#endif

#define CULET_INLINE inline __attribute__((always_inline))

namespace culet_cpu {
namespace CULET_CPU_LEVEL {

typedef long long i64;

/// How products are formed: f32 multiply-add (bf16 is widened), pairs of bf16, matrix tiles.
enum class Math { f32, dot, amx };
/// What happens to the column operand Q before it is read as vectors.
enum class Columnwise { direct, pack, through, prepack };

constexpr i64 round_up(i64 x, i64 to) { return (x + to - 1) / to * to; }
constexpr i64 least(i64 x, i64 y) { return x < y ? x : y; }

struct Blocking {
  i64 kc = 0;  ///< elements of k in a block; 0 all. A multiple of 32 otherwise.
  i64 mc = 0;  ///< rows of R in a block; 0 all. A multiple of the register tile otherwise.
  i64 nc = 0;  ///< columns of Q in a block; 0 all. A multiple of the panel width otherwise.
};

/// Units of 32 bits in a panel column over k elements.
constexpr i64 panel_steps(Math math, i64 k) {
  return math == Math::f32 ? k : math == Math::dot ? (k + 1) / 2 : (k + 31) / 32 * 16;
}

/// Distance between rows of copied R, in elements: padded away from powers of two, at which all
/// rows of a tile would share a cache set.
constexpr i64 copied_row(i64 kc) { return round_up(kc, 16) + 16; }

/// A part of the problem as one thread sees it, in terms of R (rows) and Q (columns).
struct Extent {
  i64 rows = 0;
  i64 cols = 0;
  i64 k = 0;
};

struct ScratchLayout {
  i64 panels = 0;  ///< bytes, from the start
  i64 rows = 0;
  i64 edge = 0;
  i64 sums = 0;
  i64 total() const { return panels + rows + edge + sums; }
};

struct ScratchRules {
  Math math = Math::f32;
  Columnwise columns = Columnwise::direct;
  bool copy_rows = false;    ///< asked for
  bool narrow_rows = false;  ///< R is stored as bf16 but multiplied as f32: always copied
  bool sums_in_d = true;     ///< D itself can hold partial sums (f32, no epilogue, not swapped)
  int mr = 1;
  int nr = 1;
};

constexpr bool rows_are_copied(const ScratchRules& s, i64 k) {
  return s.copy_rows || s.narrow_rows || (s.math == Math::amx && k % 32 != 0);
}

constexpr ScratchLayout scratch_layout(const ScratchRules& s, const Blocking& b, const Extent& e) {
  ScratchLayout out;
  const i64 kc = b.kc == 0 ? e.k : least(b.kc, e.k);
  const i64 mc = round_up(b.mc == 0 ? e.rows : least(b.mc, e.rows), s.mr);
  const i64 nc = round_up(b.nc == 0 ? e.cols : least(b.nc, e.cols), s.nr);
  const i64 panel = panel_steps(s.math, kc) * s.nr * 4;
  if (s.columns == Columnwise::direct) out.panels = panel;
  if (s.columns == Columnwise::pack || s.columns == Columnwise::through)
    out.panels = panel * (nc / s.nr);
  out.panels = round_up(out.panels, 64);
  const i64 element = s.math == Math::f32 ? 4 : 2;
  if (rows_are_copied(s, e.k))
    out.rows =
        round_up(mc * (s.math == Math::amx ? round_up(kc, 32) : copied_row(kc)) * element, 64);
  if (s.math == Math::amx) out.edge = s.mr * round_up(kc, 32) * element;
  if (!s.sums_in_d && kc < e.k) out.sums = round_up(e.rows, s.mr) * nc * 4;
  return out;
}

/// Blocks of the precompiled kernels, whose sizes cannot be constants: 2 KiB of k at a time keeps a
/// panel in the first two cache levels, 128 rows of R in the second.
constexpr Blocking menu_blocking(Math math, int mr, int nr, Columnwise columns) {
  Blocking b;
  b.kc = math == Math::f32 ? 512 : 1024;
  if (columns == Columnwise::direct) return b;
  b.mc = round_up(128, mr);
  b.nc = round_up(512, nr);
  return b;
}

}  // namespace CULET_CPU_LEVEL
}  // namespace culet_cpu
