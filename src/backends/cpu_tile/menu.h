// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The precompiled kernels, a table for each instruction-set level: data only, so asking for one
// runs nothing the CPU might not know.
#pragma once

#include "culet/host_kernel.h"

namespace culet::cpu_tile {

struct MenuEntry {
  const char* level;
  bool bf16, bf16_out;  ///< A and B; D. f32 otherwise
  bool tn, dot, swap, copy;
  int math, columns;  ///< Math, Columnwise
  int mr, nv;         ///< nv: vectors; dot products: columns
  CuletHostKernel kernel;
  CuletHostPack pack;
};

struct Menu {
  const MenuEntry* entries;
  int count;
};

Menu menu_v3();
Menu menu_v4();
Menu menu_v4bf16();
Menu menu_amx();

}  // namespace culet::cpu_tile
