// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Precompiled kernels for AMX: products of bf16 tiles.
// cmake/cpu_menu.cmake gives this file its instruction set; nothing in it may run before the CPU
// has been asked.
#define CULET_CPU_AMX 1
#include "backends/cpu_tile/menu_level.h"

namespace culet::cpu_tile {

namespace {

using namespace culet_cpu::v4_amx;

constexpr Tiles kMenu[] = {
    matrix_tiles<bf16, float>("v4_amx"),
    matrix_tiles<bf16, bf16>("v4_amx"),
};

}  // namespace

Menu menu_amx() { return {&kMenu[0].entries[0], kTiles * 2}; }

}  // namespace culet::cpu_tile
