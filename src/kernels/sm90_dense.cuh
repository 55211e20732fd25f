// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// D = epilogue(A * B) on Hopper, for every type and layout that WGMMA multiplies from shared
// memory: 16-bit floats contiguous along either dimension, 8-bit floats and integers contiguous in
// k. The copy engine fills a ring of shared-memory stages, warpgroups multiply from it. One warp of
// the first warpgroup produces, the others consume; blocks are persistent and walk pieces of work
// by scheduler.cuh. In a cluster the blocks of a column share B, those of a row share A: each loads
// its share and sends it to all of them.
//
// Schedules: cooperative, where the consumers split a tile's rows, or ping-pong, where each of two
// consumers owns whole tiles, so that one multiplies while the other stores.
//
// The generated translation unit holds this file, a struct with the constants below, the epilogue
// and an entry point that calls dense_kernel.
#pragma once
#include "accumulate.cuh"
#include "cluster_sum.cuh"
#include "epilogue.cuh"
#include "epilogue_turned.cuh"
#include "scheduler.cuh"
#include "split_k.cuh"

namespace culet::kernels {

/// The kernel's run-time arguments. `Grid` is the scheduler: pieces() and piece_at(grid, index).
template <int Operands, class Grid = TileGrid>
struct DenseArguments {
  Output output;
  OperandPointers<Operands> operands;
  SplitWorkspace split;
  Grid grid;
  /// Within how many lines of A (rows) and B (columns) tiles shall lie, see first_line().
  i32 a_lines;
  i32 b_lines;
  i32 a_batched;  ///< 0 where one A serves all batches
  i32 b_batched;
  /// What the copy engine brings for a stage: less than a full one where A has fewer rows or B
  /// fewer columns than a tile and is read in boxes of as many (what then is missing holds
  /// anything; so do its results, which are not stored), more where shares of a tile overlap.
  u32 stage_bytes;
};

/// What follows from a Config:
///   struct Config {
///     static constexpr DType a, b, d;
///     static constexpr bool across_a, across_b;  // A contiguous in m; B in n
///     static constexpr int promote;              // 8-bit floats: stages are summed in so many
///                                                // sets of registers and added to f32; else 0
///     static constexpr int tile_m, tile_n;       // of a block
///     static constexpr int cluster_m, cluster_n, stages, occupancy;
///     static constexpr int cluster_k;            // blocks of a cluster that split k of a tile
///     static constexpr bool pingpong, tma_store, d_pairs;
///     static constexpr int slab_n, slab_buffers; // of the epilogue's shared memory
///     static constexpr bool load_ahead;          // the epilogue's operands, a strip ahead
///   };
template <class Config>
struct DenseShape {
  static constexpr int kConsumers = Config::pingpong        ? 2
                                    : Config::tile_m == 64  ? 1
                                    : Config::tile_m == 192 ? 3
                                                            : 2;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kRows = Config::pingpong ? Config::tile_m : Config::tile_m / kConsumers;
  static constexpr int kBlocks = kRows / 64;  ///< of 64 rows, of one consumer
  /// Blocks that share operands; these times those that split k are a cluster.
  static constexpr int kSharers = Config::cluster_m * Config::cluster_n;
  static constexpr int kClusterBlocks = kSharers * Config::cluster_k;
  using StageA = StageLayout<Config::a, Config::tile_m, Config::across_a, Config::cluster_n>;
  using StageB = StageLayout<Config::b, Config::tile_n, Config::across_b, Config::cluster_m>;
  using Product = StageProduct<Config::a, Config::b, Config::tile_n, Config::across_a,
                               Config::across_b, StageA, StageB>;
  using Accumulator = typename Choice<
      Config::promote != 0,
      AccumulatePromoted<Product, kBlocks, Config::promote, Config::stages, kSharers>,
      AccumulateInPlace<Product, kBlocks, Config::stages, kSharers>>::Type;
  using RingOfStages = Ring<Config::stages, kSharers>;
  static constexpr u32 kABytes = StageA::kBytes;
  static constexpr u32 kBBytes = StageB::kBytes;
  static constexpr u32 kSlabBytes =
      Config::tma_store ? 64 * Config::slab_n * size_of(Config::d) * Config::slab_buffers : 0;
  static constexpr u32 kB = Config::stages * kABytes;  ///< offsets in shared memory
  static constexpr u32 kSlabs = kB + Config::stages * kBBytes;
  /// With k split in the cluster: what the other blocks of a tile send a consumer.
  using Parts =
      ClusterSum<typename Accumulator::Value, Config::cluster_k, kBlocks, Config::tile_n / 2>;
  static constexpr u32 kReceived = kSlabs + kConsumers * kSlabBytes;
  static constexpr u32 kBarriers = kReceived + kConsumers * Parts::kBytes;
  /// After those of the stages: the turns of two consumers, or what each of up to three receives.
  static constexpr u32 kTurns = kBarriers + 2 * 8 * Config::stages;
  static constexpr u32 kSharedBytes = kTurns + 8 * 3;
  /// Registers a thread: the producer needs few; consumers take what is left of the block's
  /// registers at launch, in steps of 8 (asking for more than that waits for ever). With one
  /// consumer and one block a multiprocessor nothing is gained by moving them.
  static constexpr int kAtLaunch = 65536 / Config::occupancy / kThreads / 8 * 8;
  static constexpr bool kMoveRegisters = kConsumers > 1 || Config::occupancy > 1;
  static constexpr int kAccumulators = kBlocks * Config::tile_n / 2;
  /// With what sums of stages take. What few of them leave room for: keeping through the main loop
  /// what is needed after it, and in the epilogue wide strips and stores of the threads' own.
  static constexpr int kSums = kAccumulators + Config::promote * Config::tile_n / 2;
  static constexpr bool kRoomy = kSums <= (kConsumers == 3 ? 48 : 96);
  static constexpr bool kWideStrips = kSums <= (kConsumers == 3 ? 48 : 128);
  /// Tiles so large that their sum fills the registers do not split k, which would spill.
  static constexpr bool kSplits = kAccumulators < 192;
  static constexpr int kProducerRegisters = 40;
  static constexpr int kConsumerRegisters =
      smaller((kAtLaunch * (1 + kConsumers) - kProducerRegisters) / kConsumers / 8 * 8, 240);
  static_assert(kRows % 64 == 0 && Config::tile_n % 8 == 0 && Config::tile_n <= 256);
  static_assert(!Config::tma_store ||
                (Config::tile_n / Config::cluster_k >= Config::slab_n && Config::slab_n % 16 == 0));
};

/// What the epilogue knows of a Config. The columns that a block stores: of a tile whose k is split
/// over a cluster, its share.
template <class Config>
struct StoredPart : Config {
  static constexpr int tile_n = Config::tile_n / Config::cluster_k;
  static constexpr bool roomy = DenseShape<Config>::kRoomy;
  static constexpr bool wide_strips = DenseShape<Config>::kWideStrips;
};

/// Where a block is in its cluster.
struct ClusterPlace {
  i32 m, n, k;
  u32 first_rank;  ///< of the blocks with its k
};
template <class Config>
CULET_DEVICE ClusterPlace cluster_place() {
  const i32 rank = DenseShape<Config>::kClusterBlocks > 1 ? static_cast<i32>(cluster_rank()) : 0;
  constexpr i32 kSharers = Config::cluster_m * Config::cluster_n;
  const i32 k = Config::cluster_k > 1 ? rank / kSharers : 0;
  const i32 within = rank - k * kSharers;
  return {Config::cluster_m > 1 ? within / Config::cluster_n : 0,
          Config::cluster_n > 1 ? within % Config::cluster_n : 0, k,
          static_cast<u32>(k * kSharers)};
}
/// A block's stretch of a piece's k.
template <class Config>
CULET_DEVICE void take_share_of_k(Piece& piece, i32 part) {
  if constexpr (Config::cluster_k > 1) {
    const i32 begin = piece.k_count * part / Config::cluster_k;
    const i32 end = piece.k_count * (part + 1) / Config::cluster_k;
    piece.k_begin += begin;
    piece.k_count = end - begin;
  }
}

/// Of the block's tile in the piece.
template <class Config>
CULET_DEVICE i32 first_row(const Piece& piece, const ClusterPlace& place, i32 lines) {
  return first_line<Config::across_a>(
      piece.first_row + (piece.tile_m * Config::cluster_m + place.m) * Config::tile_m, lines,
      Config::tile_m);
}
template <class Config>
CULET_DEVICE i32 first_column(const Piece& piece, const ClusterPlace& place, i32 lines) {
  return first_line<Config::across_b>((piece.tile_n * Config::cluster_n + place.n) * Config::tile_n,
                                      lines, Config::tile_n);
}

/// Named barriers; 0 is __syncthreads().
constexpr int kConsumerBarrier = 1;  ///< and one more for each further consumer

constexpr int kProducerWarp = 1;  ///< of the first warpgroup

/// A block's share of the tile of one operand, to the blocks of the cluster in `mask`: `place` is
/// the tile's shared address, `line` its first line. Rank: among the blocks that share it.
template <class Stage, int Sharers, bool Across>
CULET_DEVICE void load_share(u32 place, const TensorMap* map, u32 barrier, u16 mask, i32 rank,
                             i32 k, i32 line, i32 batch) {
  k += Stage::share_k(rank);
  line += Stage::share_line(rank);
  place += Stage::share_bytes(rank);
#pragma unroll
  for (int chunk = 0; chunk < Stage::kChunks; ++chunk) {
    const i32 at = line + chunk * Stage::kChunkLines;
    const i32 x = Across ? at : k, y = Across ? k : at;
    if constexpr (Sharers > 1) {
      tma_load_multicast(place + chunk * Stage::kChunkBytes, map, barrier, mask, x, y, batch);
    } else {
      tma_load(place + chunk * Stage::kChunkBytes, map, barrier, x, y, batch);
    }
  }
}

template <class Config, class Grid, int Operands>
CULET_DEVICE void produce(const TensorMap* a_map, const TensorMap* b_map,
                          const DenseArguments<Operands, Grid>& args, u32 shared,
                          const typename DenseShape<Config>::RingOfStages& ring, Piece piece) {
  using Shape = DenseShape<Config>;
  const ClusterPlace place = cluster_place<Config>();
  const u16 same_row = static_cast<u16>(((1 << Config::cluster_n) - 1)
                                        << (place.first_rank + place.m * Config::cluster_n));
  u16 same_column = 0;
  for (int i = 0; i < Config::cluster_m; ++i) {
    same_column =
        static_cast<u16>(same_column | (1 << (place.first_rank + i * Config::cluster_n + place.n)));
  }
  RingPosition<Config::stages> at;
  const u32 pieces = args.grid.pieces();
  const u32 workers = gridDim.x / Shape::kClusterBlocks;
  u32 index = blockIdx.x / Shape::kClusterBlocks;
  while (index < pieces) {
    take_share_of_k<Config>(piece, place.k);
    const i32 m = first_row<Config>(piece, place, args.a_lines);
    const i32 n = first_column<Config>(piece, place, args.b_lines);
    const i32 batch_a = piece.batch * args.a_batched;
    const i32 batch_b = piece.batch * args.b_batched;
    // In larger clusters, whose shares take more to work out, not unrolled: it would spill.
    constexpr int kUnroll = Shape::kSharers > 2 ? 1 : 4;
#pragma unroll kUnroll
    for (i32 tile = piece.k_begin; tile < piece.k_begin + piece.k_count; ++tile) {
      const u32 barrier = ring.acquire(at, args.stage_bytes);
      const i32 k = tile * Shape::StageA::kK;
      load_share<typename Shape::StageA, Config::cluster_n, Config::across_a>(
          shared + at.stage * Shape::kABytes, a_map, barrier, same_row, place.n, k, m, batch_a);
      load_share<typename Shape::StageB, Config::cluster_m, Config::across_b>(
          shared + Shape::kB + at.stage * Shape::kBBytes, b_map, barrier, same_column, place.m, k,
          n, batch_b);
      at.advance();
    }
    index += workers;
    piece = piece_at(args.grid, index);
  }
  if constexpr (Shape::kSharers > 1) ring.drain(at);
}

/// Turns of the two ping-pong consumers at the tensor core: a barrier each, at which the other one
/// arrives when it has issued all of its tile. The first turn of consumer 0 is free.
struct Turns {
  u32 barriers;
  int consumer;
  u32 count = 0;

  CULET_DEVICE void wait() {
    mbarrier_wait(barriers + 8 * consumer, (count & 1) ^ (consumer == 0 ? 1 : 0));
    ++count;
  }
  CULET_DEVICE void pass_on(int lane) const {
    if (lane == 0) mbarrier_arrive(barriers + 8 * (1 - consumer));
  }
};

/// Tells the epilogue which tile comes: the consumer's first row in the block's is `own_row`.
/// `free_stages`: 0, or the consumer's own part of the first stage, if no stage is needed again.
template <class Config, class Seam, class Arguments>
CULET_DEVICE void begin_tile(Seam& epilogue, const Arguments& args, const Piece& piece, i32 own_row,
                             u32 free_stages) {
  const ClusterPlace place = cluster_place<Config>();
  epilogue.begin(first_row<Config>(piece, place, args.a_lines) + own_row,
                 first_column<Config>(piece, place, args.b_lines) +
                     place.k * (Config::tile_n / Config::cluster_k),
                 piece.batch, piece.rows_end, DenseShape<Config>::kWideStrips ? free_stages : 0);
}

template <class Config, class Seam, class Grid, int Operands>
CULET_DEVICE void consume(const DenseArguments<Operands, Grid>& args, const TensorMap* d_map,
                          u32 shared, int consumer, int thread,
                          const typename DenseShape<Config>::RingOfStages& ring) {
  using Shape = DenseShape<Config>;
  const int lane = thread % 32;
  const int barrier = kConsumerBarrier + consumer;
  const i32 own_row = Config::pingpong ? 0 : consumer * Shape::kRows;
  const u32 own_stage = shared + static_cast<u32>(own_row / 64) * Shape::StageA::kBlockBytes;
  const u64 a = Shape::StageA::descriptor(own_stage);
  const u64 b = Shape::StageB::descriptor(shared + Shape::kB);
  Seam epilogue(args.output, args.operands, d_map,
                shared + Shape::kSlabs + consumer * Shape::kSlabBytes, barrier, thread);
  typename Shape::Accumulator accumulator;
  using Sum = typename Shape::Accumulator::Value;
  Turns turns{shared + Shape::kTurns, consumer};
  RingPosition<Config::stages> at;
  const u32 pieces = args.grid.pieces();
  const u32 workers = gridDim.x / Shape::kClusterBlocks;
  u32 turn = 0;
  const auto begin_epilogue = [&](const Piece& piece, u32 index) {
    // After the last piece the stages are free; in ping-pong, if this tile has been through all of
    // them: else the other consumer may still multiply from one.
    const bool free =
        index + workers >= pieces && (!Config::pingpong || piece.k_count >= Config::stages);
    begin_tile<Config>(epilogue, args, piece, own_row, free ? own_stage : 0);
  };
  for (u32 index = blockIdx.x / Shape::kClusterBlocks; index < pieces; index += workers, ++turn) {
    Piece piece = piece_at(args.grid, index);
    if constexpr (Config::pingpong) {
      if ((turn & 1) != static_cast<u32>(consumer)) {
        at.skip(static_cast<u32>(piece.k_count));
        continue;
      }
    }
    // As early as registers allow: the first stage takes longer to arrive than this to work out.
    if constexpr (Shape::kRoomy) begin_epilogue(piece, index);
    if constexpr (Config::pingpong) turns.wait();
    accumulator.run(ring, at, piece.k_count, a, b, lane, [&] {
      if constexpr (Config::pingpong) turns.pass_on(lane);
    });
    if constexpr (!Shape::kRoomy) {
      u32 same = index;  // worked out again rather than kept
      asm volatile("" : "+r"(same));
      piece = piece_at(args.grid, same);
    }
    if (Shape::kSplits && args.grid.splits > 1) {
      // Tiles of a cluster have their own places in the workspace.
      const ClusterPlace place = cluster_place<Config>();
      const u32 rank = static_cast<u32>(place.m * Config::cluster_n + place.n);
      const u32 slot = (piece.tile * Shape::kClusterBlocks + rank) * Shape::kConsumers +
                       (Config::pingpong ? 0 : consumer);
      constexpr i64 kPart = 128 * Shape::kAccumulators;
      Sum* parts = reinterpret_cast<Sum*>(args.split.partials) +
                   static_cast<i64>(slot) * args.grid.splits * kPart;
      if (!sum_splits(accumulator.values, args.split.counters + slot, parts, kPart, piece.split,
                      args.grid.splits, thread, barrier)) {
        continue;
      }
    }
    if constexpr (!Shape::kRoomy) begin_epilogue(piece, index);
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
      epilogue.visit(block, accumulator.values[block]);
    }
  }
  epilogue.end();
}

/// The consumer of a block that computes a part of k of one tile, and finishes a part of its
/// columns.
template <class Config, class Seam, class Grid, int Operands>
CULET_DEVICE void consume_part(const DenseArguments<Operands, Grid>& args, const TensorMap* d_map,
                               u32 shared, int consumer, int thread,
                               const typename DenseShape<Config>::RingOfStages& ring) {
  using Shape = DenseShape<Config>;
  using Parts = typename Shape::Parts;
  static_assert(!Config::pingpong, "all consumers work on the one tile");
  const i32 own_row = consumer * Shape::kRows;
  const u32 own_stage = shared + static_cast<u32>(own_row / 64) * Shape::StageA::kBlockBytes;
  const u64 a = Shape::StageA::descriptor(own_stage);
  const u64 b = Shape::StageB::descriptor(shared + Shape::kB);
  Seam epilogue(args.output, args.operands, d_map,
                shared + Shape::kSlabs + consumer * Shape::kSlabBytes, kConsumerBarrier + consumer,
                thread);
  typename Shape::Accumulator accumulator;
  RingPosition<Config::stages> at;
  const u32 pieces = args.grid.pieces();
  const u32 workers = gridDim.x / Shape::kClusterBlocks;
  // Once: there are as many clusters as pieces. As a loop it is compiled like consume().
  for (u32 index = blockIdx.x / Shape::kClusterBlocks; index < pieces; index += workers) {
    Piece piece = piece_at(args.grid, index);
    if constexpr (Shape::kRoomy) begin_tile<Config>(epilogue, args, piece, own_row, own_stage);
    take_share_of_k<Config>(piece, cluster_place<Config>().k);
    accumulator.run(ring, at, piece.k_count, a, b, thread % 32, [] {});
    if constexpr (!Shape::kRoomy) {
      u32 same = index;  // as in consume()
      asm volatile("" : "+r"(same), "+r"(thread));
      begin_tile<Config>(epilogue, args, piece_at(args.grid, same), own_row, own_stage);
    }
    const ClusterPlace place = cluster_place<Config>();
    const Parts parts{shared + Shape::kReceived + consumer * Parts::kBytes,
                      shared + Shape::kTurns + 8 * consumer, thread};
    typename Shape::Accumulator::Value mine[Shape::kBlocks][Parts::kMine];
    parts.exchange(accumulator.values, place.k,
                   static_cast<u32>(place.m * Config::cluster_n + place.n), Shape::kSharers, mine);
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) epilogue.visit(block, mine[block]);
  }
  epilogue.end();
}

/// By one elected thread: all barriers of the block.
template <class Config>
CULET_DEVICE void init_barriers(const typename DenseShape<Config>::RingOfStages& ring, u32 turns) {
  using Shape = DenseShape<Config>;
  ring.init(4 * (Config::pingpong ? 1 : Shape::kConsumers));
  if constexpr (Config::cluster_k > 1) {
#pragma unroll
    for (int i = 0; i < Shape::kConsumers; ++i) Shape::Parts::init(turns + 8 * i);
  } else if constexpr (Config::pingpong) {
    mbarrier_init(turns, 4);
    mbarrier_init(turns + 8, 4);
  }
  fence_mbarrier_init();
}

/// The whole kernel; `shared` is its dynamic shared memory, aligned to 1024 bytes. The scheduler
/// and the epilogue are seams: another Grid, or another Seam (with TileEpilogue's four functions),
/// runs through the same main loop.
template <class Config, class Epilogue, class Seam = TileEpilogue<StoredPart<Config>, Epilogue>,
          class Grid>
CULET_DEVICE void dense_kernel(const TensorMap* a_map, const TensorMap* b_map,
                               const TensorMap* d_map,
                               const DenseArguments<Epilogue::Operands::count, Grid>& args,
                               void* shared_memory) {
  using Shape = DenseShape<Config>;
  const u32 shared = shared_address(shared_memory);
  const int thread = static_cast<int>(threadIdx.x);
  const typename Shape::RingOfStages ring(shared + Shape::kBarriers,
                                          cluster_place<Config>().first_rank);
  // The warp's number must be uniform for the compiler to give each branch its own registers.
  const int warp = __shfl_sync(0xFFFFFFFF, thread / 32, 0);
  // While one warp prepares the barriers, the producer's finds its first piece: the first load is
  // what a launch waits for.
  Piece first;
  if (warp == kProducerWarp) {
    if (elect_one()) {
      prefetch_map(a_map);
      prefetch_map(b_map);
      if constexpr (Config::tma_store) prefetch_map(d_map);
    }
    first = piece_at(args.grid, blockIdx.x / Shape::kClusterBlocks);
    // Now, not after the barrier, which is where the compiler would move it.
    asm volatile(""
                 : "+r"(first.tile_m), "+r"(first.tile_n), "+r"(first.batch), "+r"(first.k_begin),
                   "+r"(first.k_count));
  }
  if (warp == 0 && elect_one()) init_barriers<Config>(ring, shared + Shape::kTurns);
  // A block must not write to another's barriers or stages before they are initialised.
  if constexpr (Shape::kClusterBlocks > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  wait_for_earlier_kernels();
  let_later_kernels_start();
  if (warp < 4) {
    if constexpr (Shape::kMoveRegisters) give_registers<Shape::kProducerRegisters>();
    if (warp == kProducerWarp && elect_one()) {
      produce<Config>(a_map, b_map, args, shared, ring, first);
    }
  } else {
    if constexpr (Shape::kMoveRegisters) take_registers<Shape::kConsumerRegisters>();
    if constexpr (Config::cluster_k > 1) {
      consume_part<Config, Seam>(args, d_map, shared, warp / 4 - 1, thread % 128, ring);
    } else {
      consume<Config, Seam>(args, d_map, shared, warp / 4 - 1, thread % 128, ring);
    }
  }
}

}  // namespace culet::kernels
