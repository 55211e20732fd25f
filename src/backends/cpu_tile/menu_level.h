// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Instances of the kernel template for the level the including file is compiled for. Sizes are
// run-time values, blocks follow a rule (menu_blocking), D = acc.
#pragma once

#define CULET_CPU_ABI_GIVEN 1
// Before the kernels: they expect its declaration of the arguments.
#include "culet/host_kernel.h"
// Kept apart, lest the order change.
#include "backends/cpu_tile/menu.h"
#include "kernels/cpu/dot.h"

namespace culet_cpu {
namespace CULET_CPU_LEVEL {
namespace {

template <class T_, class D_, Math MATH, int MR, int NV, bool TN, bool SWAP, Columnwise COLUMNS,
          bool COPY, bool DOT>
struct MenuKernel {
  typedef T_ T;
  typedef D_ D;
  static constexpr Math math = MATH;
  static constexpr int mr = MR, nv = NV, nr = DOT ? NV : NV * kLanes;
  static constexpr bool b_columns = TN, swap = SWAP, copy_rows = COPY;
  static constexpr Columnwise columns = COLUMNS;
  // Last tiles run as a whole one where that only wastes work, and row by row where it would read
  // or write too much: see tail_tile.
  static constexpr int tail_mr = -1, tail_cols = -1, tail_nv = -1;
  static constexpr int unroll = DOT ? 1 : 2, prefetch = 0;
  static constexpr bool whole_k = false;
  static CULET_INLINE Blocking blocking(const Extent&) {
    return menu_blocking(MATH, MR, NV * kLanes, COLUMNS);
  }
};

// Nothing of the standard library here: an inline function of it, compiled for this level, could be
// the copy the linker keeps for the whole program.

template <class K, bool DOT>
constexpr culet::cpu_tile::MenuEntry entry_of(const char* level) {
  culet::cpu_tile::MenuEntry e{};
  e.level = level;
  e.bf16 = sizeof(typename K::T) == 2;
  e.bf16_out = sizeof(typename K::D) == 2;
  e.math = static_cast<int>(K::math);
  e.mr = K::mr;
  e.nv = K::nv;
  e.columns = static_cast<int>(K::columns);
  e.tn = K::b_columns;
  e.swap = K::swap;
  e.copy = K::copy_rows;
  e.dot = DOT;
  return e;
}

template <class K>
constexpr culet::cpu_tile::MenuEntry tile_entry(const char* level) {
  culet::cpu_tile::MenuEntry e = entry_of<K, false>(level);
  e.kernel = [](const CuletHostKernelArgs* x) { tile_gemm<K, Identity>(x); };
  if constexpr (K::columns == Columnwise::prepack)
    e.pack = [](const CuletHostKernelArgs* x, void* packed) { tile_pack<K>(x, packed); };
  return e;
}

template <class K>
constexpr culet::cpu_tile::MenuEntry dot_entry(const char* level) {
  culet::cpu_tile::MenuEntry e = entry_of<K, true>(level);
  e.kernel = [](const CuletHostKernelArgs* x) { dot_gemm<K, Identity>(x); };
  return e;
}

constexpr int kTiles = 9;
struct Tiles {
  culet::cpu_tile::MenuEntry entries[kTiles];
};

/// The register tiles of one pair of types: 1 x ROW_NV for one row, TM x TV for more.
template <class T, class D, Math math, int ROW_NV, int TM, int TV>
constexpr Tiles tiles(const char* level) {
  constexpr bool copy = math == Math::f32 && sizeof(T) == 2;
  using C = Columnwise;
  return {{
      tile_entry<MenuKernel<T, D, math, 1, ROW_NV, false, false, C::direct, copy, false>>(level),
      tile_entry<MenuKernel<T, D, math, TM, TV, false, false, C::direct, copy, false>>(level),
      tile_entry<MenuKernel<T, D, math, TM, TV, false, false, C::through, copy, false>>(level),
      tile_entry<MenuKernel<T, D, math, TM, TV, false, false, C::prepack, copy, false>>(level),
      tile_entry<MenuKernel<T, D, math, TM, TV, true, false, C::pack, copy, false>>(level),
      tile_entry<MenuKernel<T, D, math, TM, TV, true, false, C::prepack, copy, false>>(level),
      tile_entry<MenuKernel<T, D, math, TM, TV, true, true, C::pack, copy, false>>(level),
      dot_entry<MenuKernel<T, D, math, 1, 4, true, false, C::direct, false, true>>(level),
      dot_entry<MenuKernel<T, D, math, 4, 4, true, false, C::direct, false, true>>(level),
  }};
}

/// The same for matrix tiles, which read panels only.
template <class T, class D>
constexpr Tiles matrix_tiles(const char* level) {
  constexpr Math math = Math::amx;
  using C = Columnwise;
  return {{
      tile_entry<MenuKernel<T, D, math, 16, 4, false, false, C::pack, false, false>>(level),
      tile_entry<MenuKernel<T, D, math, 16, 4, false, false, C::prepack, false, false>>(level),
      tile_entry<MenuKernel<T, D, math, 32, 2, false, false, C::pack, false, false>>(level),
      tile_entry<MenuKernel<T, D, math, 32, 2, false, false, C::prepack, false, false>>(level),
      tile_entry<MenuKernel<T, D, math, 16, 4, true, false, C::prepack, false, false>>(level),
      tile_entry<MenuKernel<T, D, math, 32, 2, true, false, C::pack, false, false>>(level),
      tile_entry<MenuKernel<T, D, math, 32, 2, true, false, C::prepack, false, false>>(level),
      tile_entry<MenuKernel<T, D, math, 32, 2, true, true, C::pack, false, false>>(level),
      tile_entry<MenuKernel<T, D, math, 64, 1, true, true, C::pack, false, false>>(level),
  }};
}

}  // namespace
}  // namespace CULET_CPU_LEVEL
}  // namespace culet_cpu
