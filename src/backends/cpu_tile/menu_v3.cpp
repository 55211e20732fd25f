// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Precompiled kernels for AVX2 and FMA: f32, and bf16 widened to it.
// cmake/cpu_menu.cmake gives this file its instruction set; nothing in it may run before the CPU
// has been asked.
#include "backends/cpu_tile/menu_level.h"

namespace culet::cpu_tile {

namespace {

using namespace culet_cpu::v3;

constexpr Tiles kMenu[] = {
    tiles<float, float, Math::f32, 8, 4, 2>("v3"),
    tiles<bf16, float, Math::f32, 8, 4, 2>("v3"),
    tiles<bf16, bf16, Math::f32, 8, 4, 2>("v3"),
};

}  // namespace

Menu menu_v3() { return {&kMenu[0].entries[0], kTiles * 3}; }

}  // namespace culet::cpu_tile
