// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Where a producer or consumer is in the ring of stages; apart from pipeline.cuh so that host tests
// can include it.
#pragma once
#include "base.cuh"

namespace culet::kernels {

/// A place in the ring: a stage and the parity of its phase. Producer and consumers walk it alike.
template <int Stages>
struct RingPosition {
  int stage = 0;
  u32 parity = 0;

  CULET_HD constexpr void advance() {
    if (++stage == Stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  /// As `count` times advance(): for stages that another warpgroup works on.
  CULET_HD constexpr void skip(u32 count) {
    const u32 place = static_cast<u32>(stage) + count;
    stage = static_cast<int>(place % Stages);
    parity ^= (place / Stages) & 1;
  }
};

}  // namespace culet::kernels
