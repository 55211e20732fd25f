// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Summing the parts of an output tile whose k was split over the blocks of a cluster. Every block
// finishes some of the tile's columns: the other blocks send it their parts of these, each to a
// place of its own in shared memory, and it adds all in a fixed order. No workspace, no counters
// and no barrier of the cluster: a barrier in the receiver's shared memory counts the bytes. It
// does so once, so a block computes one tile only.
#pragma once
#include "ptx.cuh"

namespace culet::kernels {

CULET_DEVICE float sum_of(float x, float y) { return x + y; }
/// Wraps around, as WGMMA does.
CULET_DEVICE i32 sum_of(i32 x, i32 y) {
  return static_cast<i32>(static_cast<u32>(x) + static_cast<u32>(y));
}

/// What one consumer warpgroup of `Blocks` blocks of 64 rows exchanges with those that compute the
/// other `Parts` of k.
template <class T, int Parts, int Blocks, int Registers>
struct ClusterSum {
  static constexpr int kMine = Registers / Parts;  ///< registers of the columns a block finishes
  static constexpr int kFours = Blocks * (kMine / 4);
  static constexpr u32 kPartBytes = kFours * 4 * 128 * 4;
  static constexpr u32 kBytes = (Parts - 1) * kPartBytes;  ///< received, and of shared memory
  static_assert(Registers % (4 * Parts) == 0, "columns travel in groups of eight");

  u32 shared;   ///< of kBytes
  u32 barrier;  ///< prepared by init()
  int thread;   ///< of the warpgroup

  /// By one thread, before a barrier of the cluster.
  static CULET_DEVICE void init(u32 barrier) {
    mbarrier_init(barrier, 1);
    mbarrier_arrive_expect(barrier, kBytes);
  }

  /// `part`: this block's place in k; part p has cluster rank first_rank + p * rank_step. On return
  /// `mine` is the sum of this block's columns, in the order of k whoever adds.
  CULET_DEVICE void exchange(const T (&values)[Blocks][Registers], int part, u32 first_rank,
                             u32 rank_step, T (&mine)[Blocks][kMine]) const {
    // A branch for each place, so that which registers are kept is known to the compiler.
#pragma unroll
    for (int place = 0; place < Parts; ++place) {
      if (place != part) continue;
#pragma unroll
      for (int to = 0; to < Parts; ++to) {
        if (to == place) continue;
        send(values, to, place < to ? place : place - 1,
             first_rank + static_cast<u32>(to) * rank_step);
      }
      mbarrier_wait(barrier, 0);
      add_received(values, place, mine);
    }
  }

 private:
  CULET_DEVICE u32 received(int slot, int four) const {
    return shared + static_cast<u32>(slot) * kPartBytes + static_cast<u32>(four) * 2048 +
           static_cast<u32>(thread) * 16;
  }
  /// The columns that block `rank`, part `to` of k, finishes.
  CULET_DEVICE void send(const T (&values)[Blocks][Registers], int to, int slot, u32 rank) const {
    const u32 remote = address_in_block(received(slot, 0), rank);
    const u32 remote_barrier = address_in_block(barrier, rank);
#pragma unroll
    for (int four = 0; four < kFours; ++four) {
      const T* x = &values[four / (kMine / 4)][to * kMine + four % (kMine / 4) * 4];
      store_in_block(remote + static_cast<u32>(four) * 2048, remote_barrier, x[0], x[1], x[2],
                     x[3]);
    }
  }
  CULET_DEVICE void add_received(const T (&values)[Blocks][Registers], int place,
                                 T (&mine)[Blocks][kMine]) const {
#pragma unroll
    for (int four = 0; four < kFours; ++four) {
      const int block = four / (kMine / 4), first = four % (kMine / 4) * 4;
      T sum[4];
#pragma unroll
      for (int part = 0; part < Parts; ++part) {
        T x[4];
        if (part != place) load_shared(received(part < place ? part : part - 1, four), x);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const T y = part == place ? values[block][place * kMine + first + j] : x[j];
          sum[j] = part == 0 ? y : sum_of(sum[j], y);
        }
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) mine[block][first + j] = sum[j];
    }
  }

  static CULET_DEVICE u32 address_in_block(u32 address, u32 rank) {
    u32 remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    return remote;
  }
  // Of the sums' own type: as words, ptxas would copy them while the tensor core still adds.
  static CULET_DEVICE void store_in_block(u32 address, u32 barrier, float a, float b, float c,
                                          float d) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
        " [%0], {%2, %3, %4, %5}, [%1];" ::"r"(address),
        "r"(barrier), "f"(a), "f"(b), "f"(c), "f"(d)
        : "memory");
  }
  static CULET_DEVICE void store_in_block(u32 address, u32 barrier, i32 a, i32 b, i32 c, i32 d) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.s32"
        " [%0], {%2, %3, %4, %5}, [%1];" ::"r"(address),
        "r"(barrier), "r"(a), "r"(b), "r"(c), "r"(d)
        : "memory");
  }
};

}  // namespace culet::kernels
