// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Seam 2 of 3: how products are summed over k. A consumer warpgroup owns `BlocksM` blocks of 64
// rows; this file turns a stretch of stages into its accumulators. Other ways of summing (promotion
// to a second set of accumulators, scales of blocks of k) are other classes with the same run().
#pragma once
#include "pipeline.cuh"
#include "swizzle.cuh"
#include "wgmma.cuh"

namespace culet::kernels {

/// Sums all of k in the tensor core's f32 accumulators.
template <DType Type, int BlocksM, int TileN, int Stages, int ClusterBlocks>
struct AccumulateF32 {
  static constexpr int kRegisters = TileN / 2;
  static constexpr int kSteps = 4;  ///< a stage is 64 of k, an instruction takes 16
  float values[BlocksM][kRegisters];

  /// `a` and `b` describe this warpgroup's rows of stage 0; stages are `a_bytes` and `b_bytes`
  /// apart. The position moves on by `k_tiles`. `issued()` is called once everything has been
  /// handed to the tensor core, before it has finished.
  template <class Issued>
  CULET_DEVICE void run(const Ring<Stages, ClusterBlocks>& ring, RingPosition<Stages>& at,
                        int k_tiles, u64 a, u64 b, u32 a_bytes, u32 b_bytes, int lane,
                        Issued issued) {
    int previous = 0;
    for (int tile = 0; tile < k_tiles; ++tile) {
      ring.wait_full(at);
      const u64 stage_a = descriptor_at(a, static_cast<u32>(at.stage) * a_bytes);
      const u64 stage_b = descriptor_at(b, static_cast<u32>(at.stage) * b_bytes);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int block = 0; block < BlocksM; ++block) {
          // The first instruction of a tile overwrites, so accumulators are never cleared.
          Wgmma<Type, TileN>::run(values[block],
                                  descriptor_at(stage_a, 8 * kAtomBytes * block + 32 * step),
                                  descriptor_at(stage_b, 32 * step), tile > 0 || step > 0);
        }
      }
      wgmma_commit();
      // One group stays in flight while the one before it is known to be done with its stage.
      wgmma_wait<1>();
      if (tile > 0) ring.release(previous, lane);
      previous = at.stage;
      at.advance();
    }
    issued();
    wgmma_wait<0>();
    pin();
    ring.release(previous, lane);
  }

 private:
  CULET_DEVICE void pin() {
#pragma unroll
    for (int block = 0; block < BlocksM; ++block) pin_registers(values[block]);
  }
};

}  // namespace culet::kernels
