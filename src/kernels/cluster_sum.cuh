// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Summing the parts of an output tile whose k was split over the blocks of a cluster. Every block
// finishes some of the tile's columns: each part of these goes to its shared memory, its own too,
// and it adds them in the order of k. No workspace, no counters; everybody waits, at two barriers
// of the cluster, so a block computes one tile only.
#pragma once
#include "ptx.cuh"

namespace culet::kernels {

CULET_DEVICE float sum_of(float x, float y) { return x + y; }
/// Wraps around, as WGMMA does.
CULET_DEVICE i32 sum_of(i32 x, i32 y) {
  return static_cast<i32>(static_cast<u32>(x) + static_cast<u32>(y));
}

/// Parts in shared memory, from `shared` on: of each block that splits k, Consumers warpgroups.
template <class T, int Parts, int Consumers, int Blocks, int Registers>
struct ClusterSum {
  static constexpr int kMine = Registers / Parts;  ///< registers of the columns a block finishes
  static constexpr u32 kPartBytes = Consumers * Blocks * kMine * 128 * 4;
  static_assert(Registers % (4 * Parts) == 0, "columns travel in groups of eight");

  u32 shared;
  int consumer, thread;

  /// Of part 0, four registers of a thread together.
  CULET_DEVICE u32 place() const {
    return shared + static_cast<u32>(consumer * Blocks * (kMine / 4)) * 2048 +
           static_cast<u32>(thread) * 16;
  }

  /// `part`: this block's place in k; part p has cluster rank first_rank + p * rank_step. Between
  /// two barriers of the cluster: the first says that stages are free to be written to.
  CULET_DEVICE void send(const T (&values)[Blocks][Registers], int part, u32 first_rank,
                         u32 rank_step) const {
    const u32 own = place() + static_cast<u32>(part) * kPartBytes;
#pragma unroll
    for (int to = 0; to < Parts; ++to) {
      const u32 remote = address_in_block(own, first_rank + static_cast<u32>(to) * rank_step);
#pragma unroll
      for (int block = 0; block < Blocks; ++block) {
#pragma unroll
        for (int i = 0; i < kMine; i += 4) {
          const T* x = &values[block][to * kMine + i];
          store_in_block(remote + static_cast<u32>(block * (kMine / 4) + i / 4) * 2048, x[0], x[1],
                         x[2], x[3]);
        }
      }
    }
  }

  /// After the second barrier.
  CULET_DEVICE void sum(T (&mine)[Blocks][kMine]) const {
    u32 from = place();
#pragma unroll
    for (int block = 0; block < Blocks; ++block) {
#pragma unroll
      for (int i = 0; i < kMine; ++i) mine[block][i] = 0;
    }
#pragma unroll 1
    for (int part = 0; part < Parts; ++part, from += kPartBytes) {
#pragma unroll
      for (int block = 0; block < Blocks; ++block) {
#pragma unroll
        for (int i = 0; i < kMine; i += 4) {
          T x[4];
          load_shared(from + static_cast<u32>(block * (kMine / 4) + i / 4) * 2048, x);
#pragma unroll
          for (int j = 0; j < 4; ++j) mine[block][i + j] = sum_of(mine[block][i + j], x[j]);
        }
      }
    }
  }

 private:
  static CULET_DEVICE u32 address_in_block(u32 address, u32 rank) {
    u32 remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    return remote;
  }
  // Of the sums' own type: as words, ptxas would copy them while the tensor core still adds.
  static CULET_DEVICE void store_in_block(u32 address, float a, float b, float c, float d) {
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(a), "f"(b),
                 "f"(c), "f"(d)
                 : "memory");
  }
  static CULET_DEVICE void store_in_block(u32 address, i32 a, i32 b, i32 c, i32 d) {
    asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
                 "r"(c), "r"(d)
                 : "memory");
  }
  static CULET_DEVICE void load_shared(u32 address, float (&x)[4]) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "r"(address)
                 : "memory");
  }
  static CULET_DEVICE void load_shared(u32 address, i32 (&x)[4]) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
  }
};

}  // namespace culet::kernels
