// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The ring of shared-memory stages between the producer, which asks the copy engine to fill them,
// and the consumers, which multiply from them. A stage has two barriers: full (its bytes have
// arrived) and empty (every consumer of every block that reads it is done).
#pragma once
#include "pipeline_position.cuh"
#include "ptx.cuh"

namespace culet::kernels {

template <int Stages, int ClusterBlocks>
struct Ring {
  u32 full = 0;   ///< shared address of the full barriers, 8 bytes each
  u32 empty = 0;  ///< of the empty barriers
  u32 first_rank =
      0;  ///< in the cluster, of the ClusterBlocks blocks that fill each other's stages
  static constexpr int kBytes = 2 * 8 * Stages;

  CULET_DEVICE explicit Ring(u32 shared, u32 first = 0)
      : full(shared), empty(shared + 8 * Stages), first_rank(first) {}

  /// By one elected thread, before fence_mbarrier_init() and a barrier of block or cluster. Not
  /// lane by lane: ptxas turns that into a loop over lanes with a fence in each round, 900 clocks
  /// for 16 barriers (H200, 2026-11-30).
  CULET_DEVICE void init(u32 consumer_warps) const {
#pragma unroll
    for (int i = 0; i < Stages; ++i) {
      mbarrier_init(full + 8 * i, 1);
      mbarrier_init(empty + 8 * i, consumer_warps * ClusterBlocks);
    }
  }

  /// Producer: waits for the stage to be free in every block, then announces `bytes`.
  CULET_DEVICE u32 acquire(const RingPosition<Stages>& at, u32 bytes) const {
    mbarrier_wait(empty + 8 * at.stage, at.parity ^ 1);
    const u32 barrier = full + 8 * at.stage;
    mbarrier_arrive_expect(barrier, bytes);
    return barrier;
  }
  /// Producer, after its last stage: waits until every block's consumers have given back all
  /// stages. Only then may the block leave, for they arrive at its barriers.
  CULET_DEVICE void drain(RingPosition<Stages> at) const {
    for (int i = 0; i < Stages; ++i) {
      mbarrier_wait(empty + 8 * at.stage, at.parity ^ 1);
      at.advance();
    }
  }
  /// Consumer: waits for the stage's bytes.
  CULET_DEVICE void wait_full(const RingPosition<Stages>& at) const {
    mbarrier_wait(full + 8 * at.stage, at.parity);
  }
  /// Consumer: one call by every lane of a warp that is done with the stage; a lane for each block
  /// tells that block, because blocks fill each other's stages.
  CULET_DEVICE void release(int stage, int lane) const {
    if constexpr (ClusterBlocks > 1) {
      if (lane < ClusterBlocks) mbarrier_arrive_cluster(empty + 8 * stage, first_rank + lane);
    } else {
      if (lane == 0) mbarrier_arrive(empty + 8 * stage);
    }
  }
};

}  // namespace culet::kernels
