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
#include "mma_pack.cuh"
#include "scheduler.cuh"
#include "split_k.cuh"

namespace culet::kernels {

/// An operand as the caller has it, and where it is packed. In elements; rows of bytes are packed
/// to whole tiles of k.
struct MmaInput {
  const void* from;
  i64 ld, stride;
  u8* packed;
  i64 packed_ld;
};

/// The kernel's run-time arguments.
template <int Operands>
struct MmaArguments {
  MmaInput a, b;
  i32 k;
  Output output;
  OperandPointers<Operands> operands;
  SplitWorkspace split;  ///< `partials` begin after the packed A, if it is packed
  PackCounters* packing;
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
///   are not aligned enough.   Packed: brought into an order of 16-byte pieces first.
template <DType Type, bool KFast, int GivenBytes, bool Packed, int Lines, int TileK, int Threads>
struct MmaOperand {
  static constexpr int kSize = size_of(Type);
  static constexpr bool kKFast = KFast || kSize == 1;
  static constexpr bool kTransposes = kSize == 1 && !KFast && !Packed;
  static constexpr bool kPadded = Packed && kKFast;  ///< with zeros to whole tiles of k
  static constexpr int Bytes = Packed ? 16 : GivenBytes;
  using Tile = MmaTile<kKFast, Lines, TileK, kSize>;

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

  /// The operand that tiles are loaded from, `packed` or given; of one batch entry.
  static CULET_DEVICE MmaSource source(const MmaInput& input, i32 batch, i32 line, i32 lines,
                                       i32 first_k, i32 k) {
    if constexpr (!Packed) {
      const u8* from = static_cast<const u8*>(input.from) + batch * input.stride * kSize;
      return {from, input.ld, line, lines, first_k, k};
    } else {
      const i64 entry = input.stride == 0 ? 0 : batch * input.packed_ld * (kKFast ? lines : k);
      return {input.packed + entry * kSize, input.packed_ld, line, lines, first_k, k};
    }
  }
  static CULET_DEVICE auto packing(const MmaInput& input, i32 batch, i32 lines, i32 k) {
    if constexpr (!Packed) {
      return PackNothing{};
    } else {
      const PackJob job{static_cast<const u8*>(input.from),
                        input.ld,
                        input.stride,
                        KFast ? lines : k,
                        KFast ? k : lines,
                        input.stride == 0 ? 1 : batch,
                        input.packed,
                        static_cast<i32>(input.packed_ld)};
      if constexpr (KFast == kKFast) {
        return PackRows<kSize, Threads>(job);
      } else {
        return PackTransposed<Threads>(job);
      }
    }
  }
};

/// Reads fragments of 16 lines times 32 bytes of k; `Count` of them, one below the other. `Pairs`:
/// see matrix_line().
template <class Tile, int Count, bool Pairs>
class FragmentReader {
 public:
  CULET_DEVICE FragmentReader(int first_line, int lane) {
    const int line = first_line + matrix_line<Tile::kKFast, Pairs>(lane);
    const int k = matrix_k16<Tile::kKFast, Pairs>(lane) * 2 / Tile::kSize;
#pragma unroll
    for (int i = 0; i < kKept; ++i) at_[i] = Tile::element(line + 16 * i, k);
  }
  /// Fragment `i` of step `step` of k.
  CULET_DEVICE void read(u32 shared, int i, int step, u32 (&x)[4]) const {
    // Steps of rows along k, and fragments of rows across, differ in bits that only the swizzle
    // changes, so that they can be changed after it.
    if constexpr (Tile::kKFast) {
      load_matrices<false>(shared + (at_[0] ^ (32 * step)) + 16 * Tile::kSpan * i, x);
    } else if constexpr (kKept == 1) {
      load_matrices<true>(shared + (at_[0] ^ (32 * i)) + 16 * Tile::kSpan * step, x);
    } else {
      load_matrices<true>(shared + at_[i] + 16 * Tile::kSpan * step, x);
    }
  }

 private:
  /// Of panels, if the warp's part lies in one at a multiple of its own size.
  static constexpr bool kInPanel = (Count & (Count - 1)) == 0 && 16 * Count <= Tile::kPanel;
  static constexpr int kKept = Tile::kKFast || kInPanel ? 1 : Count;

  u32 at_[kKept];
};

/// What follows from a Config:
///   struct Config {
///     static constexpr DType a, b, d;
///     static constexpr bool a_k_fast, b_k_fast;
///     static constexpr int a_bytes, b_bytes;           // of an asynchronous copy, see MmaOperand
///     static constexpr bool a_packed, b_packed;        // by this kernel, before it multiplies
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
  using A = MmaOperand<Config::a, Config::a_k_fast, Config::a_bytes, Config::a_packed,
                       Config::tile_m, Config::tile_k, kThreads>;
  using B = MmaOperand<Config::b, Config::b_k_fast, Config::b_bytes, Config::b_packed,
                       Config::tile_n, Config::tile_k, kThreads>;
  static constexpr bool kPacks = Config::a_packed || Config::b_packed;
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
  CULET_DEVICE explicit WarpProduct(int thread)
      : a_(thread / 32 / Config::warps_n * Shape::kWarpM, thread % 32),
        b_(thread / 32 % Config::warps_n * Shape::kWarpN, thread % 32) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int i = 0; i < 4 * kN; ++i) sums[m][i] = 0;
    }
  }

  /// Reads the first fragments of a stage.
  CULET_DEVICE void begin(u32 stage) {
    read_columns(stage, 0);
    read_rows(stage, 0);
  }
  /// Multiplies one stage. The fragments of each step of k are read while those of the step before
  /// are multiplied: the next stage's first ones too, once next_stage() has made it ready.
  template <class NextStage>
  CULET_DEVICE void run(u32 stage, const NextStage& next_stage) {
    constexpr int kLast = Shape::kSteps - 1;
#pragma unroll
    for (int step = 0; step < kLast; ++step) multiply_and_read(step, stage, step + 1);
    multiply_and_read(kLast, next_stage(), 0);
  }

  Sum sums[kM][4 * kN];

 private:
  /// Rows need a second set of registers only where too few products stand between a row's last use
  /// and its next.
  static constexpr int kRowBuffers = kM > 2 ? 1 : 2;
  static_assert(Shape::kSteps % 2 == 0, "the next stage's first fragments go to the first buffers");

  CULET_DEVICE void read_row(u32 stage, int step, int m) {
    a_.read(stage, m, step, rows_[step % kRowBuffers][m]);
  }
  CULET_DEVICE void read_rows(u32 stage, int step) {
#pragma unroll
    for (int m = 0; m < kM; ++m) read_row(stage, step, m);
  }
  CULET_DEVICE void read_columns(u32 stage, int step) {
#pragma unroll
    for (int n = 0; n < kN / 2; ++n) {
      b_.read(stage + Shape::A::Tile::kBytes, n, step, columns_[step % 2][n]);
    }
  }

  /// Multiplies the fragments of `step` and reads those of step `next` of a stage.
  CULET_DEVICE void multiply_and_read(int step, u32 stage, int next) {
    read_columns(stage, next);
    if (kRowBuffers > 1) read_rows(stage, next);
    if constexpr (kFloat8) {
      multiply_float8(rows_[step % kRowBuffers], columns_[step % 2]);
      if (kRowBuffers == 1) read_rows(stage, next);
    } else {
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        multiply_row(m, rows_[step % kRowBuffers][m], columns_[step % 2]);
        if (kRowBuffers == 1) read_row(stage, next, m);
      }
    }
  }

  CULET_DEVICE void multiply_row(int m, const u32 (&a)[4], const u32 (&b)[kN / 2][4]) {
#pragma unroll
    for (int n = 0; n < kN; ++n) {
      multiply_fragments<Config::a, Config::b>(&sums[m][4 * n], a, &b[n / 2][n % 2 * 2]);
    }
  }

  /// A fragment of 32 k in bytes is two fragments of 16 k in f16: A's registers 0 and 1, then 2 and
  /// 3; B's 0 and 2, then 1 and 3. Which k stands where does not matter as long as it is the same
  /// for A and B.
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
        const u32 word = b[n / 2][n % 2 * 2 + half];
        const u32 columns[2] = {halves_of<Config::b>(word, false),
                                halves_of<Config::b>(word, true)};
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          multiply_fragments<Config::a, Config::b>(&sums[m][4 * n], rows[m], columns);
        }
      }
    }
  }

  FragmentReader<typename Shape::A::Tile, kM, false> a_;
  FragmentReader<typename Shape::B::Tile, kN / 2, true> b_;
  u32 rows_[kRowBuffers][kM][4], columns_[2][kN / 2][4];
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
    a.load(stage, Shape::A::kPadded ? Config::tile_k : k_left);
    b.load(stage + Shape::A::Tile::kBytes, Shape::B::kPadded ? Config::tile_k : k_left);
    k_left -= Config::tile_k;
  };
  const auto store = [&](u32 stage) {
    a.store(stage);
    b.store(stage + Shape::A::Tile::kBytes);
  };
#pragma unroll 1
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
  // What this thread has is there; then that of all.
  copy_async_wait<kAhead - 1>();
  __syncthreads();
  product.begin(reading);
#pragma unroll 1
  for (i32 tile = 0; tile < k_tiles; ++tile) {
    // The stage before has been read: all came through the barrier in its last step.
    const bool more = tile + kAhead < k_tiles;
    if (more) load(writing);
    copy_async_commit();
    product.run(reading, [&] {
      if (more) store(writing);
      copy_async_wait<kAhead - 1>();
      __syncthreads();
      reading += Shape::kStageBytes;
      if (reading == end) reading = shared;
      writing += Shape::kStageBytes;
      if (writing == end) writing = shared;
      return reading;
    });
  }
}

/// A thread's place in the grid. Read anew each time, so that what follows from it need not stay in
/// registers while products are summed.
template <class Config>
struct MmaPlace {
  CULET_DEVICE explicit MmaPlace(TileGrid grid) {
    // Quotients of these would be kept as well.
    asm volatile("" : "+r"(grid.tiles_m), "+r"(grid.splits));
    u32 block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    piece = piece_at(grid, block);
    warp = __shfl_sync(0xFFFFFFFF, thread / 32, 0);
    m = piece.tile_m * Config::tile_m;
    n = piece.tile_n * Config::tile_n;
  }
  Piece piece;
  i32 m, n;  ///< the tile's first row and column
  int thread, warp;
};

/// Sums a piece's k in the warp's part of the tile.
template <class Config, class Arguments>
CULET_DEVICE void multiply_piece(const Arguments& args, u32 shared, WarpProduct<Config>& product) {
  using Shape = MmaShape<Config>;
  const MmaPlace<Config> at(args.grid);
  const i32 k = at.piece.k_begin * Config::tile_k;
  accumulate_piece<Config>(Shape::A::source(args.a, at.piece.batch, at.m, args.output.m, k, args.k),
                           Shape::B::source(args.b, at.piece.batch, at.n, args.output.n, k, args.k),
                           args.k, at.piece.k_count, shared, product);
}

/// Where parts of split tiles go: after the packed A, which has room for whole tiles of rows.
template <class Config, class Arguments>
CULET_DEVICE auto* partials_of(const Arguments& args) {
  using A = typename MmaShape<Config>::A;
  u8* from = reinterpret_cast<u8*>(args.split.partials);
  if constexpr (Config::a_packed) {
    const i64 rows = static_cast<i64>(args.grid.tiles_m) * Config::tile_m;
    from += rows * (A::kKFast ? args.a.packed_ld : args.k) * A::kSize *
            (args.a.stride == 0 ? 1 : args.grid.batch);
  }
  return reinterpret_cast<typename MmaShape<Config>::Sum*>(from);
}

/// The whole kernel; `shared_memory` is its dynamic shared memory, aligned to 1024 bytes. A block a
/// piece of work.
template <class Config, class Epilogue>
CULET_DEVICE void mma_kernel(const MmaArguments<Epilogue::Operands::count>& args,
                             void* shared_memory) {
  using Shape = MmaShape<Config>;
  wait_for_earlier_kernels();
  let_later_kernels_start();
  if constexpr (Shape::kPacks) {
    run_packing<Shape::kThreads>(Shape::A::packing(args.a, args.grid.batch, args.output.m, args.k),
                                 Shape::B::packing(args.b, args.grid.batch, args.output.n, args.k),
                                 args.packing, static_cast<u32*>(shared_memory));
  }
  WarpProduct<Config> product(static_cast<int>(threadIdx.x));
  multiply_piece<Config>(args, shared_address(shared_memory), product);
  const MmaPlace<Config> at(args.grid);
  const Piece& piece = at.piece;
  const int thread = at.thread, warp = at.warp;
  if (Shape::kPacks && thread == 0) leave_packing(args.packing);
  if (Shape::kSplits && args.grid.splits > 1) {
    // Every 128 threads sum their parts by themselves.
    constexpr int kGroups = Shape::kThreads / 128;
    constexpr i64 kPart = 128 * Shape::kSums;
    const int group = warp / 4;
    const u32 slot = piece.tile * kGroups + static_cast<u32>(group);
    auto* parts = partials_of<Config>(args) + static_cast<i64>(slot) * args.grid.splits * kPart;
    if (!sum_splits_in_groups<(Shape::kSums > 48 ? 2 : 4)>(
            product.sums, args.split.counters + slot * split_counters(args.grid.splits), parts,
            kPart, piece.split, args.grid.splits, thread % 128, 1 + group)) {
      return;
    }
  }
  WarpEpilogue<Config, Epilogue, typename Shape::Sum> epilogue(args.output, args.operands,
                                                               thread % 32);
  epilogue.begin(at.m + warp / Config::warps_n * Shape::kWarpM,
                 at.n + warp % Config::warps_n * Shape::kWarpN, piece.batch);
#pragma unroll
  for (int block = 0; block < Shape::kBlocksM; ++block) {
    epilogue.visit(block, product.sums[block]);
  }
  epilogue.end();
}

}  // namespace culet::kernels
