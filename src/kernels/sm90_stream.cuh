// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// D = epilogue(A * B^T) on Hopper for a small m (up to 128): a GEMM whose time is that of reading
// B. A [M, K] and B [N, K] are contiguous in k, 16-bit floats. The rows of B stand on WGMMA's
// 64-row side and those of A on its narrow one, so little of the tensor core's work is padding; one
// warp streams B into a deep ring of stages, another one A.
//
// A block owns `rows` rows of B, any multiple of 8, so that the grid fills the device evenly; WGMMA
// still reads blocks of 64 rows, and what lies behind the last row is computed and thrown away. k
// is split twice: the stages of a block go round its consumer warpgroups, and the blocks of a
// cluster take a stretch of k each. The parts meet in shared memory, across the cluster too: no
// workspace, no second kernel, and an order of summing that never changes.
#pragma once
#include "operands.cuh"
#include "pipeline.cuh"
#include "swizzle.cuh"
#include "wgmma.cuh"

namespace culet::kernels {

/// The kernel's run-time arguments.
template <int Operands>
struct StreamArguments {
  void* d;
  i64 ldd, stride_d;
  i32 m, n, k;
  i32 tiles;      ///< of rows of B, a batch entry
  i32 a_batched;  ///< 0 where one A serves all batches
  i32 b_batched;
  OperandPointers<Operands> operands;
};

/// What follows from a Config:
///   struct Config {
///     static constexpr DType type, d;     // of A and B; of D
///     static constexpr int rows;          // of B, a block; a multiple of 8
///     static constexpr int width;         // at least m; a multiple of 8
///     static constexpr int boxes;         // of 64 k, a stage
///     static constexpr int stages;        // a multiple of groups, at least two a group
///     static constexpr int groups;        // consumer warpgroups
///     static constexpr int cluster;       // blocks that split k
///     static constexpr bool d_pairs;      // D takes stores of two neighbours
///     static constexpr bool constant_b;   // B may be read before earlier kernels have finished
///   };
template <class Config>
struct StreamShape {
  static constexpr int kBlocks = (Config::rows + 63) / 64;
  static constexpr int kThreads = 128 * Config::groups + 64;
  static constexpr u32 kBoxB = Config::rows * 128;
  static constexpr u32 kBoxA = Config::width * 128;
  static constexpr u32 kStageB = Config::boxes * kBoxB;
  static constexpr u32 kStageA = Config::boxes * kBoxA;
  static constexpr u32 kA = Config::stages * kStageB;  ///< offsets in shared memory
  static constexpr u32 kPartsAfterA = kA + Config::stages * kStageA;
  /// The last block of 64 rows reads beyond the last stage of B: that memory must exist.
  static constexpr u32 kOverread = kA + (kBlocks * 64 - Config::rows) * 128;
  static constexpr u32 kParts = kPartsAfterA > kOverread ? kPartsAfterA : kOverread;
  static constexpr int kPartStride = Config::rows + 4;  ///< floats; off the banks' period
  static constexpr u32 kPartBytes = Config::width * kPartStride * 4;
  static constexpr u32 kBarriers = kParts + Config::groups * kPartBytes;
  static constexpr u32 kSharedBytes = kBarriers + 2 * 8 * Config::stages;
  /// Rows of the sum that a block of the cluster finishes: even, so that pairs stay together.
  static constexpr int kSlice =
      ((Config::rows + Config::cluster - 1) / Config::cluster + 1) / 2 * 2;
  static_assert(Config::rows % 8 == 0 && Config::width % 8 == 0 &&
                Config::stages % Config::groups == 0);
  /// A group gives a stage back when it has issued its next one: with a single stage it would wait
  /// for itself.
  static_assert(Config::stages >= 2 * Config::groups);
};

/// A stretch of k in stages: this block's share.
struct StreamShare {
  i32 first, count;
};

CULET_HD constexpr StreamShare stream_share(i32 stages_of_k, int cluster, int rank) {
  const i32 first = static_cast<i32>(static_cast<i64>(stages_of_k) * rank / cluster);
  return {first, static_cast<i32>(static_cast<i64>(stages_of_k) * (rank + 1) / cluster) - first};
}

/// Fills one operand's part of every stage: rows from `row` of `map`, `Boxes` boxes of 64 k.
template <class Config, u32 BoxBytes>
CULET_DEVICE void stream_operand(const TensorMap* map, u32 shared, u32 full, u32 empty,
                                 const StreamShare& share, i32 row, i32 batch) {
  RingPosition<Config::stages> at;
  for (i32 i = 0; i < share.count; ++i) {
    mbarrier_wait(empty + 8 * at.stage, at.parity ^ 1);
    const u32 barrier = full + 8 * at.stage;
    mbarrier_arrive_expect(barrier, Config::boxes * BoxBytes);
    const u32 stage = shared + static_cast<u32>(at.stage) * (Config::boxes * BoxBytes);
#pragma unroll
    for (int box = 0; box < Config::boxes; ++box) {
      const i32 k = ((share.first + i) * Config::boxes + box) * 64;
      tma_load(stage + box * BoxBytes, map, barrier, k, row, batch);
    }
    at.advance();
  }
}

/// A consumer warpgroup: stages group, group + groups, ... of the share into accumulators, then to
/// its part in shared memory.
template <class Config>
CULET_DEVICE void stream_consume(u32 shared, float* part, u32 full, u32 empty,
                                 const StreamShare& share, int group, int thread) {
  using Shape = StreamShape<Config>;
  const int lane = thread % 32;
  float values[Shape::kBlocks][Config::width / 2];
#pragma unroll
  for (int block = 0; block < Shape::kBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < Config::width / 2; ++i) values[block][i] = 0;
  }
  const u64 b = k_major_descriptor(shared);
  const u64 a = k_major_descriptor(shared + Shape::kA);
  RingPosition<Config::stages> at;
  at.skip(static_cast<u32>(group));
  int previous = -1;
  for (i32 i = group; i < share.count; i += Config::groups) {
    mbarrier_wait(full + 8 * at.stage, at.parity);
    const u64 stage_b = descriptor_at(b, static_cast<u32>(at.stage) * Shape::kStageB);
    const u64 stage_a = descriptor_at(a, static_cast<u32>(at.stage) * Shape::kStageA);
    wgmma_fence();
#pragma unroll
    for (int box = 0; box < Config::boxes; ++box) {
#pragma unroll
      for (int step = 0; step < 4; ++step) {
#pragma unroll
        for (int block = 0; block < Shape::kBlocks; ++block) {
          Wgmma<Config::type, Config::width>::run(
              values[block],
              descriptor_at(stage_b, box * Shape::kBoxB + 8 * kAtomBytes * block + 32 * step),
              descriptor_at(stage_a, box * Shape::kBoxA + 32 * step), true);
        }
      }
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (previous >= 0 && lane == 0) mbarrier_arrive(empty + 8 * previous);
    previous = at.stage;
    at.skip(Config::groups);
  }
  wgmma_wait<0>();
#pragma unroll
  for (int block = 0; block < Shape::kBlocks; ++block) pin_registers(values[block]);
#pragma unroll
  for (int block = 0; block < Shape::kBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < Config::width / 2; ++i) {
      const int row = 64 * block + fragment_row(thread, i);
      if (row < Config::rows)
        part[fragment_column(thread, i) * Shape::kPartStride + row] = values[block][i];
    }
  }
}

struct alignas(8) FloatPair {
  float first, second;
};

/// Two floats from the same place in another block of the cluster.
CULET_DEVICE FloatPair load_from_block(u32 shared, u32 rank) {
  FloatPair pair;
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %2, %3;"
      " ld.shared::cluster.v2.f32 {%0, %1}, [remote]; }"
      : "=f"(pair.first), "=f"(pair.second)
      : "r"(shared), "r"(rank)
      : "memory");
  return pair;
}

/// Sums all parts of this block's slice of rows, in a fixed order, and stores the epilogue of them.
template <class Config, class Epilogue>
CULET_DEVICE void stream_finish(const StreamArguments<Epilogue::Operands::count>& args, u32 parts,
                                u32 rank, i32 first_row, i32 batch, int thread) {
  using Shape = StreamShape<Config>;
  constexpr int kPairs = Shape::kSlice / 2;
  const int slice = static_cast<int>(rank) * Shape::kSlice;
  for (int i = thread; i < args.m * kPairs; i += 128 * Config::groups) {
    const int m = i / kPairs;
    const int row = slice + i % kPairs * 2;
    const i32 n = first_row + row;
    if (row >= Config::rows || n >= args.n) continue;
    float sum[2] = {0, 0};
    const u32 place = parts + static_cast<u32>(m * Shape::kPartStride + row) * 4;
#pragma unroll
    for (int block = 0; block < Config::cluster; ++block) {
#pragma unroll
      for (int group = 0; group < Config::groups; ++group) {
        const FloatPair pair = load_from_block(place + group * Shape::kPartBytes, block);
        sum[0] += pair.first;
        sum[1] += pair.second;
      }
    }
    const i64 offset = batch * args.stride_d + m * args.ldd + n;
    const float first = evaluate_element<Epilogue>(sum[0], args.operands.pointer, m, n, offset);
    if (n + 1 >= args.n) {
      store_element<Config::d>(args.d, offset, first);
      continue;
    }
    const float second =
        evaluate_element<Epilogue>(sum[1], args.operands.pointer, m, n + 1, offset + 1);
    if constexpr (Config::d_pairs && size_of(Config::d) == 2) {
      *reinterpret_cast<u32*>(static_cast<u16*>(args.d) + offset) =
          pack_pair<Config::d>(first, second);
    } else {
      store_element<Config::d>(args.d, offset, first);
      store_element<Config::d>(args.d, offset + 1, second);
    }
  }
}

/// The whole kernel; `shared_memory` is its dynamic shared memory, aligned to 1024 bytes. Grid:
/// tiles * batch * cluster.
template <class Config, class Epilogue>
CULET_DEVICE void stream_kernel(const TensorMap* a_map, const TensorMap* b_map,
                                const StreamArguments<Epilogue::Operands::count>& args,
                                void* shared_memory) {
  using Shape = StreamShape<Config>;
  const u32 shared = shared_address(shared_memory);
  const u32 full = shared + Shape::kBarriers;
  const u32 empty = full + 8 * Config::stages;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = __shfl_sync(0xFFFFFFFF, thread / 32, 0);
  if (thread == 0) {
    for (int i = 0; i < Config::stages; ++i) {
      mbarrier_init(full + 8 * i, 2);   // one arrival for each operand
      mbarrier_init(empty + 8 * i, 4);  // the warps of the one group that reads the stage
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  const u32 rank = Config::cluster > 1 ? cluster_rank() : 0;
  const i32 place = static_cast<i32>(blockIdx.x) / Config::cluster;
  const i32 batch = place / args.tiles;
  const i32 first_row = (place - batch * args.tiles) * Config::rows;
  const i32 stages_of_k = (args.k + 64 * Config::boxes - 1) / (64 * Config::boxes);
  const StreamShare share = stream_share(stages_of_k, Config::cluster, static_cast<int>(rank));
  const bool consumer = warp < 4 * Config::groups;
  if (warp == 4 * Config::groups) {
    if (thread % 32 == 0) {
      if (!Config::constant_b) wait_for_earlier_kernels();
      stream_operand<Config, Shape::kBoxB>(b_map, shared, full, empty, share, first_row,
                                           batch * args.b_batched);
    }
    __syncwarp();
  } else if (warp == 4 * Config::groups + 1) {
    if (thread % 32 == 0) {
      wait_for_earlier_kernels();
      let_later_kernels_start();
      stream_operand<Config, Shape::kBoxA>(a_map, shared + Shape::kA, full, empty, share, 0,
                                           batch * args.a_batched);
    }
    __syncwarp();
  } else {
    const int group = thread / 128;
    float* part = reinterpret_cast<float*>(static_cast<char*>(shared_memory) + Shape::kParts +
                                           static_cast<u32>(group) * Shape::kPartBytes);
    stream_consume<Config>(shared, part, full, empty, share, group, thread % 128);
  }
  if constexpr (Config::cluster > 1) {
    cluster_sync();
  } else if (consumer) {
    barrier_sync(1, 128 * Config::groups);
  }
  if (consumer) {
    wait_for_earlier_kernels();  // operands of the epilogue may be an earlier kernel's, and so may
                                 // D's last readers
    stream_finish<Config, Epilogue>(args, shared + Shape::kParts, rank, first_row, batch, thread);
  }
  // A block must not leave while another still reads its parts.
  if constexpr (Config::cluster > 1) cluster_sync();
}

}  // namespace culet::kernels
