// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Precompiled kernels for AVX512_BF16: products of bf16 pairs.
// cmake/cpu_menu.cmake gives this file its instruction set; nothing in it may run before the CPU
// has been asked.
#include "backends/cpu_tile/menu_level.h"

namespace culet::cpu_tile {

namespace {

using namespace culet_cpu::v4_bf16;

constexpr Tiles kMenu[] = {
    tiles<bf16, float, Math::dot, 16, 6, 4>("v4_bf16"),
    tiles<bf16, bf16, Math::dot, 16, 6, 4>("v4_bf16"),
};

}  // namespace

Menu menu_v4bf16() { return {&kMenu[0].entries[0], kTiles * 2}; }

}  // namespace culet::cpu_tile
