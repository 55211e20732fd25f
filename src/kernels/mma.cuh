// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// D = epilogue(A * B) on the tensor cores of any part from sm_80 on, for every layout, leading
// dimension and alignment: what TMA's rules exclude on Hopper, and everything on other parts. A
// block computes a tile of D. All its threads bring tiles of A and B into a ring of shared-memory
// stages, each operand in the way it allows (mma_load.cuh), while all its warps multiply, each its
// own part of the tile, with ldmatrix and mma.sync.
//
// 8-bit floats become f16, which is exact, and are multiplied as such: sums are as good as those of
// 16-bit operands, and parts older than sm_89 can do it. (A Hopper multiprocessor has no mma.sync
// for 8-bit floats either: the instruction is compiled to the same conversions.)
//
// The generated translation unit holds this file, a struct with the constants below, the epilogue
// and an entry point that calls mma_kernel.
#pragma once
#include "mma_epilogue.cuh"
#include "mma_load.cuh"
#include "scheduler.cuh"
#include "split_k.cuh"

namespace culet::kernels {

/// The kernel's run-time arguments.
template <int Operands>
struct MmaArguments {
  const void* a;
  const void* b;
  i64 lda, ldb;
  i64 stride_a, stride_b;
  i32 k;
  Output output;
  OperandPointers<Operands> operands;
  SplitWorkspace split;
  TileGrid grid;
};

template <DType Type>
struct MmaSum {
  using T = float;
};
template <>
struct MmaSum<DType::s8> {
  using T = i32;
};
template <>
struct MmaSum<DType::u8> {
  using T = i32;
};

CULET_HD constexpr bool is_float8(DType type) { return type == DType::e4m3 || type == DType::e5m2; }

template <DType A, DType B>
CULET_DEVICE void multiply_fragments(typename MmaSum<A>::T* d, const u32* a, const u32* b) {
  if constexpr (A == DType::bf16) {
    mma_bf16(d, a, b);
  } else if constexpr (A == DType::f16 || is_float8(A)) {
    mma_f16(d, a, b);
  } else if constexpr (A == DType::s8) {
    B == DType::s8 ? mma_s8_s8(d, a, b) : mma_s8_u8(d, a, b);
  } else {
    B == DType::s8 ? mma_u8_s8(d, a, b) : mma_u8_u8(d, a, b);
  }
}

/// An operand's way into shared memory and from there to fragments.
///   KFast: contiguous in k in memory.   Bytes: of an asynchronous copy; less than 4 where lines
///   are not aligned enough.
template <DType Type, bool KFast, int Bytes, int Lines, int TileK, int Threads>
struct MmaOperand {
  static constexpr int kSize = size_of(Type);
  static constexpr bool kTransposes = kSize == 1 && !KFast;
  static constexpr bool kThroughRegisters = kTransposes || Bytes < 4;
  using Tile = MmaTile<KFast || kTransposes, Lines, TileK, kSize>;

  template <bool Transposes, bool Shifts, class Unused = void>
  struct Choose {
    using Loader = AsyncLoader<Tile, Bytes, Threads>;
  };
  template <class Unused>
  struct Choose<false, true, Unused> {
    using Loader = ShiftLoader<Tile, Threads>;
  };
  template <bool Shifts, class Unused>
  struct Choose<true, Shifts, Unused> {
    using Loader = TransposeLoader<Tile, (Bytes >= 4), Threads>;
  };
  using Loader = typename Choose<kTransposes, (Bytes < 4)>::Loader;
};

/// Reads fragments of 16 lines times 32 bytes of k; `Count` of them, one below the other.
template <class Tile, int Count>
class FragmentReader {
 public:
  CULET_DEVICE FragmentReader(int first_line, int lane) {
    const int line = first_line + matrix_line<Tile::kKFast>(lane);
    const int k = matrix_k16<Tile::kKFast>(lane) * 2 / Tile::kSize;
#pragma unroll
    for (int i = 0; i < kKept; ++i) at_[i] = Tile::element(line + 16 * i, k);
  }
  /// Fragment `i` of step `step` of k.
  CULET_DEVICE void read(u32 shared, int i, int step, u32 (&x)[4]) const {
    if constexpr (Tile::kKFast) {
      // Steps differ in bits that only the swizzle changes, so they can be changed after it.
      load_matrices<false>(shared + (at_[0] ^ (32 * step)) + 16 * Tile::kSpan * i, x);
    } else {
      load_matrices<true>(shared + at_[i] + 16 * Tile::kSpan * step, x);
    }
  }

 private:
  static constexpr int kKept = Tile::kKFast ? 1 : Count;
  u32 at_[kKept];
};

/// What follows from a Config:
///   struct Config {
///     static constexpr DType a, b, d;
///     static constexpr bool a_k_fast, b_k_fast;
///     static constexpr int a_bytes, b_bytes;           // of an asynchronous copy, see MmaOperand
///     static constexpr int tile_m, tile_n, tile_k;     // of a block
///     static constexpr int warps_m, warps_n, stages;
///     static constexpr bool d_pairs;                   // D takes stores of two neighbours
///   };
template <class Config>
struct MmaShape {
  static constexpr int kThreads = 32 * Config::warps_m * Config::warps_n;
  static constexpr int kWarpM = Config::tile_m / Config::warps_m;
  static constexpr int kWarpN = Config::tile_n / Config::warps_n;
  static constexpr int kBlocksM = kWarpM / 16;  ///< of a warp
  static constexpr int kBlocksN = kWarpN / 8;
  using Sum = typename MmaSum<Config::a>::T;
  using A = MmaOperand<Config::a, Config::a_k_fast, Config::a_bytes, Config::tile_m, Config::tile_k,
                       kThreads>;
  using B = MmaOperand<Config::b, Config::b_k_fast, Config::b_bytes, Config::tile_n, Config::tile_k,
                       kThreads>;
  static constexpr int kSteps = Config::tile_k * A::kSize / 32;  ///< of k, 32 bytes each
  static constexpr u32 kStageBytes = A::Tile::kBytes + B::Tile::kBytes;
  static constexpr u32 kSharedBytes = Config::stages * kStageBytes;
  static constexpr int kSums = kBlocksM * kBlocksN * 4;  ///< of a thread
  /// Warps of 64x64 have no registers left to sum parts.
  static constexpr bool kSplits = kSums < 128;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && kThreads % 128 == 0);
};

/// Multiplies one stage into the warp's sums.
template <class Config>
class WarpProduct {
  using Shape = MmaShape<Config>;
  using Sum = typename Shape::Sum;
  static constexpr int kM = Shape::kBlocksM, kN = Shape::kBlocksN;
  static constexpr bool kFloat8 = is_float8(Config::a);

 public:
  CULET_DEVICE WarpProduct(int warp, int lane)
      : a_(warp / Config::warps_n * Shape::kWarpM, lane),
        b_(warp % Config::warps_n * Shape::kWarpN, lane) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int i = 0; i < 4 * kN; ++i) sums[m][i] = 0;
    }
  }

  CULET_DEVICE void run(u32 shared) {
    // The fragments of a step are read while the one before is multiplied, if registers suffice.
    constexpr bool kRoom =
        Shape::kSums < 128 && !Shape::A::kThroughRegisters && !Shape::B::kThroughRegisters;
    constexpr int kBuffers = kRoom ? 2 : 1;
    u32 a[kBuffers][kM][4], b[kBuffers][kN / 2][4];
    read(shared, 0, a[0], b[0]);
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      const int now = step % kBuffers, next = (step + 1) % kBuffers;
      const bool more = step + 1 < Shape::kSteps;
      if (kBuffers > 1 && more) read(shared, step + 1, a[next], b[next]);
      if constexpr (kFloat8) {
        multiply_float8(a[now], b[now]);
      } else {
        multiply(a[now], b[now]);
      }
      if (kBuffers == 1 && more) read(shared, step + 1, a[next], b[next]);
    }
  }

  Sum sums[kM][4 * kN];

 private:
  CULET_DEVICE void read(u32 shared, int step, u32 (&a)[kM][4], u32 (&b)[kN / 2][4]) const {
#pragma unroll
    for (int m = 0; m < kM; ++m) a_.read(shared, m, step, a[m]);
#pragma unroll
    for (int n = 0; n < kN / 2; ++n) b_.read(shared + Shape::A::Tile::kBytes, n, step, b[n]);
  }

  CULET_DEVICE void multiply(const u32 (&a)[kM][4], const u32 (&b)[kN / 2][4]) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        const u32 columns[2] = {b[n / 2][n % 2], b[n / 2][n % 2 + 2]};
        multiply_fragments<Config::a, Config::b>(&sums[m][4 * n], a[m], columns);
      }
    }
  }

  /// A fragment of 32 k in bytes is two fragments of 16 k in f16: registers 0 and 1 of it, then 2
  /// and 3. Which k stands where does not matter as long as it is the same for A and B.
  CULET_DEVICE void multiply_float8(const u32 (&a)[kM][4], const u32 (&b)[kN / 2][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      u32 rows[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          rows[m][i] = halves_of<Config::a>(a[m][2 * half + i % 2], i >= 2);
        }
      }
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        const u32 word = b[n / 2][n % 2 + 2 * half];
        const u32 columns[2] = {halves_of<Config::b>(word, false),
                                halves_of<Config::b>(word, true)};
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          multiply_fragments<Config::a, Config::b>(&sums[m][4 * n], rows[m], columns);
        }
      }
    }
  }

  FragmentReader<typename Shape::A::Tile, kM> a_;
  FragmentReader<typename Shape::B::Tile, kN / 2> b_;
};

/// Sums all of a piece's k. Stages are filled `stages - 1` tiles ahead: by copies that are under
/// way while the tiles before are multiplied, or through registers, read before and stored after
/// the product of a stage.
template <class Config>
CULET_DEVICE void accumulate_piece(const MmaSource& source_a, const MmaSource& source_b, i32 k,
                                   i32 k_tiles, u32 shared, WarpProduct<Config>& product) {
  using Shape = MmaShape<Config>;
  constexpr int kAhead = Config::stages - 1;
  typename Shape::A::Loader a(source_a);
  typename Shape::B::Loader b(source_b);
  i32 k_left = k - source_a.k;
  const auto load = [&](u32 stage) {
    a.load(stage, k_left);
    b.load(stage + Shape::A::Tile::kBytes, k_left);
    k_left -= Config::tile_k;
  };
  const auto store = [&](u32 stage) {
    a.store(stage);
    b.store(stage + Shape::A::Tile::kBytes);
  };
#pragma unroll
  for (int stage = 0; stage < kAhead; ++stage) {
    if (stage < k_tiles) {
      load(shared + stage * Shape::kStageBytes);
      store(shared + stage * Shape::kStageBytes);
    }
    copy_async_commit();
  }
  u32 reading = shared;
  u32 writing = shared + kAhead * Shape::kStageBytes;
  const u32 end = shared + Config::stages * Shape::kStageBytes;
#pragma unroll 1
  for (i32 tile = 0; tile < k_tiles; ++tile) {
    copy_async_wait<kAhead - 1>();
    // What this thread has is there; now that of all. And the stage before has been read.
    __syncthreads();
    const bool more = tile + kAhead < k_tiles;
    if (more) load(writing);
    copy_async_commit();
    product.run(reading);
    if (more) store(writing);
    reading += Shape::kStageBytes;
    if (reading == end) reading = shared;
    writing += Shape::kStageBytes;
    if (writing == end) writing = shared;
  }
}

/// The whole kernel; `shared_memory` is its dynamic shared memory, aligned to 1024 bytes. A block a
/// piece of work.
template <class Config, class Epilogue>
CULET_DEVICE void mma_kernel(const MmaArguments<Epilogue::Operands::count>& args,
                             void* shared_memory) {
  using Shape = MmaShape<Config>;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = __shfl_sync(0xFFFFFFFF, thread / 32, 0);
  const int lane = thread % 32;
  const Piece piece = piece_at(args.grid, blockIdx.x);
  const i32 m = piece.tile_m * Config::tile_m, n = piece.tile_n * Config::tile_n;
  const i32 first_k = piece.k_begin * Config::tile_k;
  wait_for_earlier_kernels();
  let_later_kernels_start();
  const MmaSource a{static_cast<const u8*>(args.a) + piece.batch * args.stride_a * Shape::A::kSize,
                    args.lda, m, args.output.m, first_k};
  const MmaSource b{static_cast<const u8*>(args.b) + piece.batch * args.stride_b * Shape::B::kSize,
                    args.ldb, n, args.output.n, first_k};
  WarpProduct<Config> product(warp, lane);
  accumulate_piece<Config>(a, b, args.k, piece.k_count, shared_address(shared_memory), product);
  if (Shape::kSplits && args.grid.splits > 1) {
    // Every 128 threads sum their parts by themselves.
    constexpr int kGroups = Shape::kThreads / 128;
    constexpr i64 kPart = 128 * Shape::kSums;
    const int group = warp / 4;
    const u32 slot = piece.tile * kGroups + static_cast<u32>(group);
    auto* parts = reinterpret_cast<typename Shape::Sum*>(args.split.partials) +
                  static_cast<i64>(slot) * args.grid.splits * kPart;
    if (!sum_splits(product.sums, args.split.counters + slot, parts, kPart, piece.split,
                    args.grid.splits, thread % 128, 1 + group)) {
      return;
    }
  }
  WarpEpilogue<Config, Epilogue, typename Shape::Sum> epilogue(args.output, args.operands, lane);
  epilogue.begin(m + warp / Config::warps_n * Shape::kWarpM,
                 n + warp % Config::warps_n * Shape::kWarpN, piece.batch);
#pragma unroll
  for (int block = 0; block < Shape::kBlocksM; ++block) {
    epilogue.visit(block, product.sums[block]);
  }
  epilogue.end();
}

}  // namespace culet::kernels
