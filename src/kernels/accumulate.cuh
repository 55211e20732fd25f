// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Seam 2 of 3: how products are summed over k. A consumer warpgroup owns `BlocksM` blocks of 64
// rows; this file turns a stretch of stages into its accumulators: all of k in the tensor core, or
// promoted stage by stage to f32 registers. Other ways of summing (scales of blocks of k) are other
// classes with the same run().
#pragma once
#include "pipeline.cuh"
#include "stage_layout.cuh"
#include "wgmma.cuh"

namespace culet::kernels {

/// Multiplies a stage: `LayoutA` and `LayoutB` are the StageLayouts of a block's whole tiles.
template <DType A, DType B, int TileN, bool AcrossA, bool AcrossB, class LayoutA, class LayoutB>
struct StageProduct {
  using Value = typename Wgmma<A, TileN, B>::Accumulator;
  static constexpr int kRegisters = TileN / 2;
  static constexpr int kSteps = kStageBytesOfK / kWgmmaBytesOfK;
  static constexpr u32 kBytesA = LayoutA::kBytes;
  static constexpr u32 kBytesB = LayoutB::kBytes;

  /// Hands one instruction to the tensor core: step `step` of k for 64-row block `block`.
  static CULET_DEVICE void run(Value (&values)[kRegisters], u64 a, u64 b, int block, int step,
                               int keep) {
    Wgmma<A, TileN, B>::template run<AcrossA, AcrossB>(
        values, descriptor_at(a, LayoutA::kBlockBytes * block + LayoutA::kStepBytes * step),
        descriptor_at(b, LayoutB::kStepBytes * step), keep);
  }
};

/// Sums all of k in the tensor core's accumulators: exact for integers, in f32 for 16-bit floats,
/// with about 14 bits for 8-bit floats.
template <class Product, int BlocksM, int Stages, int ClusterBlocks>
struct AccumulateInPlace {
  using Value = typename Product::Value;
  Value values[BlocksM][Product::kRegisters];

  /// `a` and `b` describe this warpgroup's rows of stage 0. The position moves on by `k_tiles`.
  /// `issued()` is called once everything has been handed to the tensor core, before it has
  /// finished.
  template <class Issued>
  CULET_DEVICE void run(const Ring<Stages, ClusterBlocks>& ring, RingPosition<Stages>& at,
                        int k_tiles, u64 a, u64 b, int lane, Issued issued) {
    int previous = 0;
    for (int tile = 0; tile < k_tiles; ++tile) {
      ring.wait_full(at);
      const u64 stage_a = descriptor_at(a, static_cast<u32>(at.stage) * Product::kBytesA);
      const u64 stage_b = descriptor_at(b, static_cast<u32>(at.stage) * Product::kBytesB);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < Product::kSteps; ++step) {
#pragma unroll
        for (int block = 0; block < BlocksM; ++block) {
          // The first instruction of a tile overwrites, so accumulators are never cleared.
          Product::run(values[block], stage_a, stage_b, block, step, tile > 0 || step > 0);
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

/// Sums a stage, 128 products of 8-bit floats, in the tensor core and adds that to f32 registers:
/// the tensor core aligns what it adds to the largest term and keeps some 14 bits, which over all
/// of k would lose small terms. With two `Parts`, one is added while the other is multiplied; where
/// registers do not allow it, there is one, and other warpgroups multiply meanwhile.
template <class Product, int BlocksM, int Parts, int Stages, int ClusterBlocks>
struct AccumulatePromoted {
  static_assert(Parts == 1 || BlocksM == 1, "with more blocks ptxas serialises everything (C7514)");
  using Value = float;
  float values[BlocksM][Product::kRegisters];

  template <class Issued>
  CULET_DEVICE void run(const Ring<Stages, ClusterBlocks>& ring, RingPosition<Stages>& at,
                        int k_tiles, u64 a, u64 b, int lane, Issued issued) {
#pragma unroll
    for (int block = 0; block < BlocksM; ++block) clear(values[block]);
    if constexpr (Parts == 1) {
      run_one(ring, at, k_tiles, a, b, lane, issued);
    } else {
      run_two(ring, at, k_tiles, a, b, lane, issued);
    }
  }

 private:
  using Part = float[Product::kRegisters];

  static CULET_DEVICE void clear(Part& part) {
#pragma unroll
    for (int i = 0; i < Product::kRegisters; ++i) part[i] = 0;
  }
  static CULET_DEVICE void add(Part& sum, const Part& part) {
#pragma unroll
    for (int i = 0; i < Product::kRegisters; ++i) sum[i] += part[i];
  }
  /// Hands a block's stage to the tensor core.
  static CULET_DEVICE void issue(Part& part, const RingPosition<Stages>& at, u64 a, u64 b,
                                 int block) {
    const u64 stage_a = descriptor_at(a, static_cast<u32>(at.stage) * Product::kBytesA);
    const u64 stage_b = descriptor_at(b, static_cast<u32>(at.stage) * Product::kBytesB);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < Product::kSteps; ++step) {
      Product::run(part, stage_a, stage_b, block, step, step > 0);
    }
    wgmma_commit();
  }

  template <class Issued>
  CULET_DEVICE void run_one(const Ring<Stages, ClusterBlocks>& ring, RingPosition<Stages>& at,
                            int k_tiles, u64 a, u64 b, int lane, Issued issued) {
    for (int tile = 0; tile < k_tiles; ++tile) {
      ring.wait_full(at);
#pragma unroll
      for (int block = 0; block < BlocksM; ++block) {
        Part part;
        issue(part, at, a, b, block);
        if (block == BlocksM - 1 && tile == k_tiles - 1) issued();
        wgmma_wait<0>();
        pin_registers(part);
        if (block == BlocksM - 1) ring.release(at.stage, lane);
        add(values[block], part);
      }
      at.advance();
    }
  }

  /// Issues `next`, and while that runs adds `last`. `release`: there is a `last`, which has read
  /// its stage to the end.
  CULET_DEVICE void step(Part& next, Part& last, const Ring<Stages, ClusterBlocks>& ring,
                         RingPosition<Stages>& at, int& previous, bool release, u64 a, u64 b,
                         int lane) {
    ring.wait_full(at);
    issue(next, at, a, b, 0);
    wgmma_wait<1>();
    pin_registers(last);
    if (release) ring.release(previous, lane);
    add(values[0], last);
    previous = at.stage;
    at.advance();
  }

  template <class Issued>
  CULET_DEVICE void run_two(const Ring<Stages, ClusterBlocks>& ring, RingPosition<Stages>& at,
                            int k_tiles, u64 a, u64 b, int lane, Issued issued) {
    Part even, odd;
    clear(odd);  // what is added before anything has been multiplied
    int previous = 0;
    int tile = 0;
    for (; tile + 2 <= k_tiles; tile += 2) {
      step(even, odd, ring, at, previous, tile > 0, a, b, lane);
      step(odd, even, ring, at, previous, true, a, b, lane);
    }
    if (tile < k_tiles) {
      step(even, odd, ring, at, previous, tile > 0, a, b, lane);
      issued();
      wgmma_wait<0>();
      pin_registers(even);
      add(values[0], even);
    } else {
      issued();
      wgmma_wait<0>();
      pin_registers(odd);
      add(values[0], odd);
    }
    ring.release(previous, lane);
  }
};

}  // namespace culet::kernels
