// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Summing the parts of an output tile whose k was split over several blocks. Every warpgroup stores
// its part, in the order its registers stand, and counts itself in; the last one to arrive adds all
// parts in the order of k, so the result does not depend on who was last, and nobody ever waits.
// The last one also sets the counter back to zero for the next run.
#pragma once
#include "ptx.cuh"
#include "split_groups.h"

namespace culet::kernels {

struct SplitWorkspace {
  u32* counters;    ///< one a warpgroup and output tile, zero between runs
  float* partials;  ///< parts, of 4 bytes: [tile][split][warpgroup][register][thread]
};

CULET_DEVICE void load_four_in_order(const float* from, float (&x)[4]) {
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "l"(from)
               : "memory");
}
CULET_DEVICE void load_four_in_order(const i32* from, i32 (&x)[4]) {
  asm volatile("ld.global.v4.s32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "l"(from)
               : "memory");
}

/// `slot` numbers (output tile, warpgroup); `parts` points at this warpgroup's part 0, further
/// parts follow `stride` numbers apart. Sums are float or i32. Returns whether this warpgroup now
/// holds the sum. `Loads` of 16 bytes are in flight at once: one, in program order, where the sum
/// already fills the registers.
template <int Loads = 1, class T, int Blocks, int Registers>
CULET_DEVICE bool sum_splits(T (&values)[Blocks][Registers], u32* counter, T* parts, i64 stride,
                             int split, int splits, int thread, int barrier) {
  static_assert(Registers % 4 == 0, "registers travel in fours");
  struct alignas(16) Four {
    T x[4];
  };
  Four* own = reinterpret_cast<Four*>(parts + split * stride) + thread;
#pragma unroll
  for (int block = 0; block < Blocks; ++block) {
#pragma unroll
    for (int i = 0; i < Registers; i += 4) {
      own[(block * Registers + i) / 4 * 128] = Four{
          {values[block][i], values[block][i + 1], values[block][i + 2], values[block][i + 3]}};
    }
  }
  fence_gpu();
  barrier_sync(barrier, 128);
  bool last = false;
  if (thread == 0) {
    last = atomic_add_gpu(counter, 1) == static_cast<u32>(splits) - 1;
    if (last) *counter = 0;
  }
  last = barrier_any(barrier, 128, last);
  if (!last) return false;
  fence_gpu();
#pragma unroll
  for (int block = 0; block < Blocks; ++block) {
#pragma unroll
    for (int i = 0; i < Registers; ++i) values[block][i] = 0;
  }
  const T* from = parts + 4 * thread;
#pragma unroll 1
  for (int part = 0; part < splits; ++part, from += stride) {
    constexpr int kFours = Blocks * Registers / 4;
#pragma unroll
    for (int first = 0; first < kFours; first += Loads) {
      T x[Loads][4];
#pragma unroll
      for (int i = 0; i < Loads; ++i) {
        if (first + i < kFours) load_four_in_order(from + (first + i) * 512, x[i]);
      }
#pragma unroll
      for (int i = 0; i < Loads; ++i) {
        if (first + i >= kFours) continue;
        const int at = 4 * (first + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) values[at / Registers][at % Registers + j] += x[i][j];
      }
    }
  }
  return true;
}

/// sum_splits() in two steps, see split_group(). `counters`: split_counters() of them. A group's
/// sum takes the place of its first part.
template <int Loads, class T, int Blocks, int Registers>
CULET_DEVICE bool sum_splits_in_groups(T (&values)[Blocks][Registers], u32* counters, T* parts,
                                       i64 stride, int split, int splits, int thread, int barrier) {
  const int size = split_group(splits), group = split / size, first = group * size;
  u32* counter = counters + 1 + group;
  T* from = parts + first * stride;
  int part = split - first, count = smaller(size, splits - first);
#pragma unroll 1
  for (;;) {
    if (count > 1 &&
        !sum_splits<Loads>(values, counter, from, stride, part, count, thread, barrier)) {
      return false;
    }
    if (counter == counters || size == splits) return true;
    counter = counters;
    from = parts;
    stride *= size;
    part = group;
    count = ceil_div(splits, size);
  }
}

}  // namespace culet::kernels
