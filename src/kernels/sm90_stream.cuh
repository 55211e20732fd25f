// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// D = epilogue(A * B^T) on Hopper for a small m (up to 128): a GEMM whose time is that of reading
// B. A [M, K] and B [N, K] are contiguous in k, 16-bit or 8-bit elements. A block owns `rows` rows
// of B, any multiple of 8, so that the grid fills the device evenly; one warp streams B into a deep
// ring of stages, another one A into a ring of its own: A comes out of L2 and needs fewer stages,
// and what it does not take is there for B.
//
// WGMMA has a side of 64 rows and one of any multiple of 8. With few rows of A, B stands on the
// side of 64 (`wide_b`), else A does: then no row of B is padding, and the tensor core reads less
// shared memory. What lies behind the last row of the wide side is computed and thrown away.
//
// k is split twice: the stages of a block go round its consumer warpgroups, and `cluster` blocks
// take a stretch of k each. The parts meet in shared memory, across the cluster too: no workspace,
// no second kernel, and an order of summing that never changes. `share` neighbours along n may also
// form a cluster, of which each loads its part of A and sends it to all of them.
#pragma once
#include "operands.cuh"
#include "pipeline_position.cuh"
#include "swizzle.cuh"
#include "wgmma.cuh"

namespace culet::kernels {

/// The kernel's run-time arguments.
template <int Operands>
struct StreamArguments {
  void* d;
  i64 ldd, stride_d;
  i32 m, n, k;
  i32 tiles;      ///< of rows of B, a batch entry; a multiple of Config::share
  i32 a_batched;  ///< 0 where one A serves all batches
  i32 b_batched;
  u32 a_bytes;  ///< that the copy engine brings for a stage of A: of rows that exist, if not shared
  OperandPointers<Operands> operands;
};

/// What follows from a Config:
///   struct Config {
///     static constexpr DType a, b, d;     // element types
///     static constexpr int rows;          // of B, a block; a multiple of 8
///     static constexpr int width;         // at least m; a multiple of 8 * share
///     static constexpr bool wide_b;       // B stands on the side of 64 rows, else A
///     static constexpr int boxes;         // of 128 bytes of k, a stage
///     static constexpr int stages;        // of B; a multiple of groups, at least two a group
///     static constexpr int a_stages;      // of A; likewise
///     static constexpr int groups;        // consumer warpgroups
///     static constexpr int cluster;       // blocks that split k
///     static constexpr int share;         // blocks that share A
///     static constexpr bool promote;      // 8-bit floats: every 128 of k are added up in f32
///     static constexpr int d_vector;      // elements in a store to D: 1, 2 or 4
///     static constexpr bool constant_b;   // B may be read before earlier kernels have finished
///   };
template <class Config>
struct StreamShape {
  using Sum = typename WgmmaSum<Config::a>::Accumulator;
  static constexpr bool kIntegers = Config::a == DType::s8 || Config::a == DType::u8;
  static constexpr DType kSumType = kIntegers ? DType::s32 : DType::f32;
  static constexpr int kWide = Config::wide_b ? Config::rows : Config::width;
  static constexpr int kNarrow = Config::wide_b ? Config::width : Config::rows;
  static constexpr int kBlocks = ceil_div(kWide, 64);
  static constexpr int kRegisters = kNarrow / 2;  ///< of a block of 64 rows, a thread
  static constexpr int kConsumers = 128 * Config::groups;
  static constexpr int kThreads = kConsumers + 64;
  static constexpr int kClusterBlocks = Config::cluster * Config::share;
  static constexpr int kBoxK = 128 / size_of(Config::a);  ///< elements
  static constexpr u32 kBoxA = Config::width * 128;
  static constexpr u32 kBoxB = Config::rows * 128;
  static constexpr u32 kStageA = Config::boxes * kBoxA;
  static constexpr u32 kStageB = Config::boxes * kBoxB;
  static constexpr u32 kRingA = Config::a_stages * kStageA;
  static constexpr u32 kRingB = Config::stages * kStageB;
  /// Offsets in shared memory. The wide side comes first, because its last block of 64 rows reads
  /// beyond it, and that memory must exist.
  static constexpr u32 kA = Config::wide_b ? kRingB : 0;
  static constexpr u32 kB = Config::wide_b ? 0 : kRingA;
  static constexpr u32 kOverread =
      (Config::wide_b ? kRingB : kRingA) + (kBlocks * 64 - kWide) * 128;
  /// The warpgroups' sums take the place of the rings: [m][n] of 4 bytes. The padding spreads a
  /// fragment over all banks.
  static constexpr int kPadding = Config::wide_b ? 4 : Config::rows % 16 == 0 ? 8 : 0;
  static constexpr int kPartStride = Config::rows + kPadding;
  static constexpr u32 kPartBytes = Config::width * kPartStride * 4;
  static constexpr u32 kBarriers =
      larger(larger(kRingA + kRingB, kOverread), Config::groups* kPartBytes);
  static constexpr u32 kBarriersA = kBarriers + 2 * 8 * Config::stages;
  static constexpr u32 kSharedBytes = kBarriersA + 2 * 8 * Config::a_stages;
  /// Rows of the sum that a block of the cluster finishes; in fours, which are stored together.
  static constexpr int kSlice = ceil_div(ceil_div(Config::rows, Config::cluster), 4) * 4;
  static_assert(Config::rows % 8 == 0 && Config::width % (8 * Config::share) == 0);
  static_assert(Config::stages % Config::groups == 0 && Config::a_stages % Config::groups == 0);
  /// A group gives a stage back when it has issued its next one: with a single stage it would wait
  /// for itself.
  static_assert(Config::stages >= 2 * Config::groups && Config::a_stages >= 2 * Config::groups);
};

/// A stretch of k in stages: this block's share.
struct StreamShare {
  i32 first, count;
};

CULET_HD constexpr StreamShare stream_share(i32 stages_of_k, int cluster, int rank) {
  const i32 first = static_cast<i32>(static_cast<i64>(stages_of_k) * rank / cluster);
  return {first, static_cast<i32>(static_cast<i64>(stages_of_k) * (rank + 1) / cluster) - first};
}

/// The barriers of a ring: `Stages` full ones, then as many empty ones. By a whole warp, of which
/// one lane does it: see Ring::init() in pipeline.cuh.
template <int Stages>
CULET_DEVICE void init_ring(u32 full, u32 releases) {
  if (elect_one()) {
#pragma unroll
    for (int i = 0; i < Stages; ++i) {
      mbarrier_init(full + 8 * i, 1);
      mbarrier_init(full + 8 * (Stages + i), releases);
    }
    fence_mbarrier_init();
  }
  __syncwarp();
}

/// Fills the ring of B: rows from `row` on.
template <class Config>
CULET_DEVICE void stream_b(const TensorMap* map, u32 ring, u32 full, const StreamShare& share,
                           i32 row, i32 batch) {
  using Shape = StreamShape<Config>;
  RingPosition<Config::stages> at;
  for (i32 i = 0; i < share.count; ++i) {
    mbarrier_wait(full + 8 * (Config::stages + at.stage), at.parity ^ 1);
    const u32 barrier = full + 8 * at.stage;
    mbarrier_arrive_expect(barrier, Shape::kStageB);
    const u32 stage = ring + static_cast<u32>(at.stage) * Shape::kStageB;
#pragma unroll
    for (int box = 0; box < Config::boxes; ++box) {
      const i32 k = ((share.first + i) * Config::boxes + box) * Shape::kBoxK;
      tma_load_once(stage + box * Shape::kBoxB, map, barrier, k, row, batch);
    }
    at.advance();
  }
}

/// Fills the ring of A: of blocks that share it each loads an equal part and sends it to all.
template <class Config>
CULET_DEVICE void stream_a(const TensorMap* map, u32 ring, u32 full, const StreamShare& share,
                           u32 rank, i32 batch, u32 stage_bytes) {
  using Shape = StreamShape<Config>;
  constexpr i32 kRows = Config::width / Config::share;
  const i32 row = static_cast<i32>(rank) / Config::cluster * kRows;
  u16 sharers = 0;
#pragma unroll
  for (int i = 0; i < Config::share; ++i) {
    sharers = static_cast<u16>(sharers | (1 << (i * Config::cluster + rank % Config::cluster)));
  }
  RingPosition<Config::a_stages> at;
  for (i32 i = 0; i < share.count; ++i) {
    mbarrier_wait(full + 8 * (Config::a_stages + at.stage), at.parity ^ 1);
    const u32 barrier = full + 8 * at.stage;
    mbarrier_arrive_expect(barrier, stage_bytes);
    const u32 stage = ring + static_cast<u32>(at.stage) * Shape::kStageA + row * 128;
#pragma unroll
    for (int box = 0; box < Config::boxes; ++box) {
      const i32 k = ((share.first + i) * Config::boxes + box) * Shape::kBoxK;
      if constexpr (Config::share > 1) {
        tma_load_multicast(stage + box * Shape::kBoxA, map, barrier, sharers, k, row, batch);
      } else {
        tma_load(stage + box * Shape::kBoxA, map, barrier, k, row, batch);
      }
    }
    at.advance();
  }
}

/// A consumer warpgroup: stages group, group + groups, ... of the share into accumulators.
template <class Config>
class StreamConsumer {
 public:
  using Shape = StreamShape<Config>;
  using Sum = typename Shape::Sum;

  CULET_DEVICE StreamConsumer(u32 shared, u32 rank, int thread)
      : shared_(shared), rank_(rank), thread_(thread) {
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < Shape::kRegisters; ++i) sums_[block][i] = 0;
    }
  }

  CULET_DEVICE void run(const StreamShare& share, int group) {
    const u32 full_b = shared_ + Shape::kBarriers;
    const u32 full_a = shared_ + Shape::kBarriersA;
    RingPosition<Config::stages> at_b;
    RingPosition<Config::a_stages> at_a;
    at_b.skip(static_cast<u32>(group));
    at_a.skip(static_cast<u32>(group));
    int previous_a = 0, previous_b = 0;
    for (i32 i = group; i < share.count; i += Config::groups) {
      mbarrier_wait(full_a + 8 * at_a.stage, at_a.parity);
      mbarrier_wait(full_b + 8 * at_b.stage, at_b.parity);
      const u32 a = Shape::kA + static_cast<u32>(at_a.stage) * Shape::kStageA;
      const u32 b = Shape::kB + static_cast<u32>(at_b.stage) * Shape::kStageB;
      if constexpr (Config::promote) {
        multiply_promoted(a, b);
        release(at_a.stage, at_b.stage);
      } else {
        wgmma_fence();
#pragma unroll
        for (int box = 0; box < Config::boxes; ++box) multiply(sums_, a, b, box, true);
        wgmma_commit();
        // One group of instructions stays in flight while the one before it is known to be done.
        wgmma_wait<1>();
        if (i != group) release(previous_a, previous_b);
        previous_a = at_a.stage;
        previous_b = at_b.stage;
      }
      at_a.skip(Config::groups);
      at_b.skip(Config::groups);
    }
    wgmma_wait<0>();
    pin(sums_);
  }

  /// The sums to the warpgroup's part in shared memory.
  CULET_DEVICE void store(Sum* part) const {
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < Shape::kRegisters; i += 2) {
        const int wide = 64 * block + fragment_row(thread_, i);
        const int narrow = fragment_column(thread_, i);
        if (wide >= Shape::kWide) continue;
        if constexpr (Config::wide_b) {
          part[narrow * Shape::kPartStride + wide] = sums_[block][i];
          part[(narrow + 1) * Shape::kPartStride + wide] = sums_[block][i + 1];
        } else {
          struct alignas(8) Pair {
            Sum first, second;
          };
          *reinterpret_cast<Pair*>(part + wide * Shape::kPartStride + narrow) =
              Pair{sums_[block][i], sums_[block][i + 1]};
        }
      }
    }
  }

 private:
  using Sums = Sum[Shape::kBlocks][Shape::kRegisters];

  /// Issues one box of 128 bytes of k; offsets are of the stages.
  CULET_DEVICE void multiply(Sums& sums, u32 a, u32 b, int box, bool keep) const {
    const u64 wide = k_major_descriptor(
        shared_ + (Config::wide_b ? b + box * Shape::kBoxB : a + box * Shape::kBoxA));
    const u64 narrow = k_major_descriptor(
        shared_ + (Config::wide_b ? a + box * Shape::kBoxA : b + box * Shape::kBoxB));
    constexpr DType kWideType = Config::wide_b ? Config::b : Config::a;
    constexpr DType kNarrowType = Config::wide_b ? Config::a : Config::b;
#pragma unroll
    for (int step = 0; step < 128 / kWgmmaBytesOfK; ++step) {
#pragma unroll
      for (int block = 0; block < Shape::kBlocks; ++block) {
        Wgmma<kWideType, Shape::kNarrow, kNarrowType>::run(
            sums[block], descriptor_at(wide, 8 * kAtomBytes * block + kWgmmaBytesOfK * step),
            descriptor_at(narrow, kWgmmaBytesOfK * step), keep || step > 0);
      }
    }
  }

  /// The tensor core adds up 8-bit floats with fewer bits than an f32 has: each box is summed there
  /// and then added in f32, where registers allow it while the next one is multiplied.
  CULET_DEVICE void multiply_promoted(u32 a, u32 b) {
    // Four groups are 576 threads of at most 96 registers.
    constexpr int kMost = Config::groups < 4 ? 32 : 28;
    constexpr int kSets =
        Config::boxes > 1 && Shape::kBlocks == 1 && Shape::kRegisters <= kMost ? 2 : 1;
    Sums sets[kSets];
#pragma unroll
    for (int box = 0; box < Config::boxes + kSets - 1; ++box) {
      if (box < Config::boxes) {
        wgmma_fence();
        multiply(sets[box % kSets], a, b, box, false);
        wgmma_commit();
      }
      const int done = box - (kSets - 1);
      if (done < 0) continue;
      if (box < Config::boxes) {
        wgmma_wait<kSets - 1>();
      } else {
        wgmma_wait<0>();
      }
      Sums& box_sums = sets[done % kSets];
      pin(box_sums);
#pragma unroll
      for (int block = 0; block < Shape::kBlocks; ++block) {
#pragma unroll
        for (int i = 0; i < Shape::kRegisters; ++i) sums_[block][i] += box_sums[block][i];
      }
    }
  }

  CULET_DEVICE void release(int stage_a, int stage_b) const {
    const u32 empty_b = shared_ + Shape::kBarriers + 8 * Config::stages;
    const u32 empty_a = shared_ + Shape::kBarriersA + 8 * Config::a_stages;
    const int lane = thread_ % 32;
    if (lane == 0) mbarrier_arrive(empty_b + 8 * stage_b);
    if constexpr (Config::share > 1) {
      if (lane < Config::share) {
        mbarrier_arrive_cluster(empty_a + 8 * stage_a,
                                static_cast<u32>(lane) * Config::cluster + rank_ % Config::cluster);
      }
    } else {
      if (lane == 0) mbarrier_arrive(empty_a + 8 * stage_a);
    }
  }

  static CULET_DEVICE void pin(Sums& sums) {
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) pin_registers(sums[block]);
  }

  u32 shared_;
  u32 rank_;
  int thread_;
  Sums sums_;
};

template <class T>
struct alignas(16) Four {
  T x[4];
};

/// Four sums from the same place in another block of the cluster.
template <DType Type, class T>
CULET_DEVICE Four<T> load_from_block(u32 shared, u32 rank) {
  u32 word[4];
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %4, %5;"
      " ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [remote]; }"
      : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
      : "r"(shared), "r"(rank)
      : "memory");
  return {{decode<T, Type>(word[0]), decode<T, Type>(word[1]), decode<T, Type>(word[2]),
           decode<T, Type>(word[3])}};
}

/// The groups' parts into the first of them, so that other blocks read one instead of all.
template <class Config>
CULET_DEVICE void stream_join_groups(typename StreamShape<Config>::Sum* parts, i32 m, int thread) {
  using Shape = StreamShape<Config>;
  using Quad = Four<typename Shape::Sum>;
  constexpr int kQuads = Config::rows / 4;
  for (int i = thread; i < m * kQuads; i += Shape::kConsumers) {
    auto* place = parts + i / kQuads * Shape::kPartStride + i % kQuads * 4;
    Quad sum = *reinterpret_cast<Quad*>(place);
#pragma unroll
    for (int group = 1; group < Config::groups; ++group) {
      const Quad part = *reinterpret_cast<Quad*>(place + group * (Shape::kPartBytes / 4));
#pragma unroll
      for (int j = 0; j < 4; ++j) sum.x[j] += part.x[j];
    }
    *reinterpret_cast<Quad*>(place) = sum;
  }
}

/// Neighbours in D, from `offset` on, in one store.
template <DType D, int Count, class T>
CULET_DEVICE void store_neighbours(void* d, i64 offset, const T* x) {
  if constexpr (Count == 1) {
    store_element<D>(d, offset, x[0]);
  } else {
    constexpr int kWords = Count * size_of(D) / 4;
    struct alignas(4 * kWords) Words {
      u32 word[kWords];
    } words;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (size_of(D) == 2) {
        words.word[i] =
            pack_pair<D>(static_cast<float>(x[2 * i]), static_cast<float>(x[2 * i + 1]));
      } else {
        words.word[i] = encode<D>(x[i]);
      }
    }
    *reinterpret_cast<Words*>(static_cast<StoredType<D>*>(d) + offset) = words;
  }
}

/// What an epilogue of sums of type T is computed in: nothing is lost where it does nothing.
template <bool Identity, class T>
struct EpilogueValue {
  using Type = float;
};
template <class T>
struct EpilogueValue<true, T> {
  using Type = T;
};

/// The epilogue of four neighbours, and their stores.
template <class Config, class Epilogue, class T>
CULET_DEVICE void finish_four(const StreamArguments<Epilogue::Operands::count>& args,
                              const Four<T>& sum, i32 m, i32 n, i32 batch) {
  const i64 offset = batch * args.stride_d + m * args.ldd + n;
  using Value = typename EpilogueValue<Epilogue::identity, T>::Type;
  Value value[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    value[j] = static_cast<Value>(sum.x[j]);
    if constexpr (!Epilogue::identity) {
      if (n + j < args.n) {
        value[j] =
            evaluate_element<Epilogue>(value[j], args.operands.pointer, m, n + j, offset + j);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < 4; j += Config::d_vector) {
    if (n + j + Config::d_vector <= args.n) {
      store_neighbours<Config::d, Config::d_vector>(args.d, offset + j, value + j);
    } else {
#pragma unroll
      for (int i = j; i < j + Config::d_vector; ++i) {
        if (n + i < args.n) store_element<Config::d>(args.d, offset + i, value[i]);
      }
    }
  }
}

/// Sums all parts of this block's slice of rows, in a fixed order, and stores the epilogue of them.
template <class Config, class Epilogue>
CULET_DEVICE void stream_finish(const StreamArguments<Epilogue::Operands::count>& args,
                                const void* shared_memory, u32 rank, i32 first_row, i32 batch,
                                int thread) {
  using Shape = StreamShape<Config>;
  using Quad = Four<typename Shape::Sum>;
  constexpr int kQuads = Shape::kSlice / 4;
  constexpr int kParts = Config::cluster > 1 ? Config::cluster : Config::groups;
  constexpr int kItems = ceil_div(Config::width * kQuads, Shape::kConsumers);
  // Loads from other blocks take long: those of several items are in flight together.
  constexpr int kAtOnce = kParts >= 8 ? 1 : smaller(8 / kParts, kItems);
  const int slice = static_cast<int>(rank % Config::cluster) * Shape::kSlice;
  const u32 first_sharer = rank / Config::cluster * Config::cluster;
#pragma unroll 1
  for (int first = 0; first < kItems; first += kAtOnce) {
    Quad part[kAtOnce][kParts];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int item = thread + (first + u) * Shape::kConsumers;
      const int m = item / kQuads;
      const int row = slice + item % kQuads * 4;
      const u32 place = static_cast<u32>(m * Shape::kPartStride + row) * 4;
      const bool inside = m < args.m && row < Config::rows;
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        if (!inside) continue;
        if constexpr (Config::cluster > 1) {
          part[u][i] = load_from_block<Shape::kSumType, typename Shape::Sum>(
              shared_address(shared_memory) + place, first_sharer + i);
        } else {
          part[u][i] = *reinterpret_cast<const Quad*>(static_cast<const char*>(shared_memory) +
                                                      place + i * Shape::kPartBytes);
        }
      }
    }
    // From here on this block reads nobody's shared memory.
    if constexpr (Shape::kClusterBlocks > 1) {
      if (first + kAtOnce >= kItems) cluster_arrive();
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int item = thread + (first + u) * Shape::kConsumers;
      const int m = item / kQuads;
      const int row = slice + item % kQuads * 4;
      if (m >= args.m || row >= Config::rows) continue;
#pragma unroll
      for (int i = 1; i < kParts; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) part[u][0].x[j] += part[u][i].x[j];
      }
      finish_four<Config, Epilogue>(args, part[u][0], m, first_row + row, batch);
    }
  }
}

/// The consumer warpgroups, from the first stage to D.
template <class Config, class Epilogue>
CULET_DEVICE void stream_consume(const StreamArguments<Epilogue::Operands::count>& args,
                                 void* shared_memory, const StreamShare& share, u32 rank,
                                 i32 first_row, i32 batch, int thread) {
  using Shape = StreamShape<Config>;
  using Sum = typename Shape::Sum;
  const int group = __shfl_sync(0xFFFFFFFF, thread / 128, 0);
  Sum* parts = static_cast<Sum*>(shared_memory);
  StreamConsumer<Config> consumer(shared_address(shared_memory), rank, thread % 128);
  consumer.run(share, group);
  barrier_sync(1, Shape::kConsumers);  // the parts take the place of the stages
  consumer.store(parts + group * (Shape::kPartBytes / 4));
  if constexpr (Config::cluster > 1) {
    if constexpr (Config::groups > 1) {
      barrier_sync(1, Shape::kConsumers);
      stream_join_groups<Config>(parts, args.m, thread);
    }
    cluster_sync();
  } else {
    barrier_sync(1, Shape::kConsumers);
  }
  wait_for_earlier_kernels();  // operands of the epilogue may be an earlier kernel's, and so may
                               // D's last readers
  stream_finish<Config, Epilogue>(args, shared_memory, rank, first_row, batch, thread);
}

/// The whole kernel; `shared_memory` is its dynamic shared memory, aligned to 1024 bytes. Grid:
/// tiles * batch * cluster.
template <class Config, class Epilogue>
CULET_DEVICE void stream_kernel(const TensorMap* a_map, const TensorMap* b_map,
                                const StreamArguments<Epilogue::Operands::count>& args,
                                void* shared_memory) {
  using Shape = StreamShape<Config>;
  constexpr int kStart = 2;  ///< named barrier: the barriers of the rings are there
  const u32 shared = shared_address(shared_memory);
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = __shfl_sync(0xFFFFFFFF, thread / 32, 0);
  const u32 rank = Shape::kClusterBlocks > 1 ? cluster_rank() : 0;
  const i32 place = static_cast<i32>(blockIdx.x) / Config::cluster;
  const i32 batch = place / args.tiles;
  const i32 first_row = (place - batch * args.tiles) * Config::rows;
  const i32 stages_of_k = ceil_div(args.k, Shape::kBoxK * Config::boxes);
  const StreamShare share =
      stream_share(stages_of_k, Config::cluster, static_cast<int>(rank % Config::cluster));
  // A producer sets up its own ring, and starts without waiting for anybody.
  if (warp == 4 * Config::groups) {
    if (elect_one()) prefetch_map(b_map);
    init_ring<Config::stages>(shared + Shape::kBarriers, 4);
    barrier_arrive(kStart, Shape::kThreads);
    if constexpr (Config::share > 1) cluster_arrive();
    if (elect_one()) {
      if (!Config::constant_b) wait_for_earlier_kernels();
      stream_b<Config>(b_map, shared + Shape::kB, shared + Shape::kBarriers, share, first_row,
                       batch * args.b_batched);
    }
    __syncwarp();
    if constexpr (Config::share > 1) cluster_wait();
  } else if (warp == 4 * Config::groups + 1) {
    if (elect_one()) prefetch_map(a_map);
    init_ring<Config::a_stages>(shared + Shape::kBarriersA, 4 * Config::share);
    barrier_arrive(kStart, Shape::kThreads);
    // Another block's copies must not arrive at barriers that are not there yet.
    if constexpr (Config::share > 1) cluster_sync();
    if (elect_one()) {
      wait_for_earlier_kernels();
      let_later_kernels_start();
      stream_a<Config>(a_map, shared + Shape::kA, shared + Shape::kBarriersA, share, rank,
                       batch * args.a_batched, args.a_bytes);
    }
    __syncwarp();
  } else {
    barrier_sync(kStart, Shape::kThreads);
    if constexpr (Config::share > 1) cluster_sync();
    stream_consume<Config, Epilogue>(args, shared_memory, share, rank, first_row, batch, thread);
  }
  if constexpr (Shape::kClusterBlocks > 1) {
    // The consumers have arrived in between.
    if (warp >= 4 * Config::groups) {
      if constexpr (Config::cluster > 1) cluster_sync();
      cluster_arrive();
    }
    // A block must not leave while another still reads its parts or sends to it.
    cluster_wait();
  }
}

}  // namespace culet::kernels
