// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Seam 3 of 3: from accumulators to D. A consumer warpgroup calls begin() for an output tile,
// visit() for each of its blocks of 64 rows, and end() once after its last tile; whatever the block
// computes passes here exactly once, after any split of k has been summed. Tiles at the edge of D
// may share elements with their neighbours (first_line() in scheduler.cuh), which then pass in both
// blocks with the same value: an epilogue that adds over rows or columns has to ask for tiles that
// do not. Rows and columns that D does not have hold anything.
//
// D leaves by one of two ways. Where D's rows allow it (whole 16-byte pieces) a block is written to
// shared memory in slabs of columns, in the copy engine's swizzle, and the copy engine stores them,
// clipped to D. Else every thread stores its own elements.
#pragma once
#include "operands.cuh"
#include "swizzle.cuh"

namespace culet::kernels {

CULET_DEVICE void store_shared(u32 shared, u32 first, u32 second) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(shared), "r"(first), "r"(second)
               : "memory");
}
/// Not as words: ptxas would copy accumulators to words while the tensor core still adds (C7520).
CULET_DEVICE void store_shared(u32 shared, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(shared), "f"(first), "f"(second)
               : "memory");
}

/// Where D is and how large it is.
struct Output {
  void* d;
  i64 ld;            ///< elements between rows
  i64 batch_stride;  ///< elements between batches
  i32 m;
  i32 n;
};

template <bool Condition, class Yes, class No>
struct Choice {
  using Type = Yes;
};
template <class Yes, class No>
struct Choice<false, Yes, No> {
  using Type = No;
};

/// The slabs of shared memory through which a warpgroup's part of D leaves, of `Rows` rows of
/// `RowBytes`: `Buffers` of them, used in turn, which the copy engine stores while the next one is
/// computed. The last tile of a block has nothing to overlap with, and the copy engine takes some
/// 400 clocks to begin: then the threads store the slabs themselves. They stand in the main loop's
/// stages, `Stages` of them, `StageBytes` apart, so that none is waited for.
template <DType D, int Rows, int RowBytes, int Buffers, int Stages, u32 StageBytes>
class SlabRing {
 public:
  CULET_DEVICE SlabRing(u32 buffers, int barrier) : buffers_(buffers), barrier_(barrier) {}

  /// `stages`: 0, or for the last tile shared address of what is the warpgroup's own of the first
  /// stage: nothing writes to the stages any more, and nobody else reads that part.
  CULET_DEVICE void begin(u32 stages) {
    stages_ = stages;
    if (stages != 0) ring_ = 0;
  }
  /// The next slab, once whoever stored it before has read it, and all threads are done with what
  /// was there.
  CULET_DEVICE u32 next(int thread) {
    const u32 at = ring_;
    if (stages_ != 0) {
      ring_ = at + 1 == Stages ? 0 : at + 1;
      if (at == 0) barrier_sync(barrier_, 128);
      return stages_ + at * StageBytes;
    }
    ring_ = at + 1 == Buffers ? 0 : at + 1;
    if (thread == 0) tma_store_wait_read<Buffers - 1>();
    barrier_sync(barrier_, 128);
    return buffers_ + at * Rows * RowBytes;
  }
  /// Stores a slab that all threads of the warpgroup have written; its first element is D's (m, n).
  /// `again`: bytes at the start of each row that were in the slab before, too.
  CULET_DEVICE void store(int thread, const TensorMap* map, const Output& output, u32 slab, i32 n,
                          i32 m, i32 batch, int again = 0) {
    if (stages_ != 0) {
      barrier_sync(barrier_, 128);
      copy(thread, output, slab, n, m, batch, again);
      return;
    }
    fence_shared_to_async();
    barrier_sync(barrier_, 128);
    if (thread == 0) {
      tma_store(map, slab, n, m, batch);
      tma_store_commit();
    }
  }
  /// A block must not leave before its stores have read its shared memory; that they arrive is the
  /// kernel's end to wait for.
  CULET_DEVICE void end(int thread) const {
    if (thread == 0) tma_store_wait_read<0>();
  }

 private:
  /// In pieces of 16 bytes, of which D's rows are made.
  static CULET_DEVICE void copy(int thread, const Output& output, u32 slab, i32 n, i32 m, i32 batch,
                                int again) {
    constexpr int kPieces = RowBytes / 16;
    constexpr int kElements = 16 / size_of(D);
    constexpr int kEach = ceil_div(Rows * kPieces, 128);
    static_assert(128 % kPieces == 0);
    if (thread % kPieces * 16 < again) return;
    u32 word[kEach][4];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int piece = thread + 128 * i;
      if (piece >= Rows * kPieces) continue;
      load_shared(slab + swizzle<RowBytes>(static_cast<u32>(piece) * 16), word[i]);
    }
    struct alignas(16) Words {
      u32 word[4];
    };
    const i32 row = m + thread / kPieces;
    const i32 column = n + thread % kPieces * kElements;
    auto* d = static_cast<StoredType<D>*>(output.d) + batch * output.batch_stride +
              row * output.ld + column;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      constexpr int kRowsAtOnce = 128 / kPieces;
      if (thread / kPieces + i * kRowsAtOnce >= Rows) continue;
      if (row + i * kRowsAtOnce >= output.m || column >= output.n) continue;
      *reinterpret_cast<Words*>(d + i * kRowsAtOnce * output.ld) =
          Words{{word[i][0], word[i][1], word[i][2], word[i][3]}};
    }
  }

  u32 buffers_;
  int barrier_;
  u32 stages_ = 0;
  u32 ring_ = 0;
};

template <class Config, class Epilogue>
class TileEpilogue {
 public:
  static constexpr int kRegisters = Config::tile_n / 2;
  static constexpr int kOperands = Epilogue::Operands::count;
  /// Sums of integers that are stored as they are stay integers; else epilogues compute in f32.
  static constexpr bool kExact = Epilogue::identity && Config::d == DType::s32;
  template <class T>
  using Result = typename Choice<kExact, T, float>::Type;
  static constexpr int kSlabRowBytes = Config::slab_n * size_of(Config::d);

  /// `buffers`: shared address of this warpgroup's slabs; `barrier`: its named barrier; `thread`:
  /// in the warpgroup.
  CULET_DEVICE TileEpilogue(const Output& output, const OperandPointers<kOperands>& operands,
                            const TensorMap* d_map, u32 buffers, int barrier, int thread)
      : output_(output),
        operands_(operands),
        d_map_(d_map),
        slabs_(buffers, barrier),
        thread_(thread) {}

  /// The warpgroup's first row and column of the tile. Rows from `rows_end` on are not stored,
  /// which the copy engine knows nothing of: what has groups of rows stores directly. `stages`: as
  /// SlabRing::begin().
  CULET_DEVICE void begin(i32 m, i32 n, i32 batch, i32 rows_end, u32 stages) {
    slabs_.begin(stages);
    at_ = thread_;
    // What follows from the thread's number is worked out here, not kept through the main loop.
    if constexpr (!Config::roomy) asm volatile("" : "+r"(at_));
    rows_end_ = smaller(rows_end, output_.m);
    m_ = m;
    n_ = n;
    batch_ = batch;
  }

  /// Rows 64 * block ... of the warpgroup's part of the tile. T: float or i32.
  template <class T>
  CULET_DEVICE void visit(int block, const T (&values)[kRegisters]) {
    const i32 row = m_ + 64 * block + fragment_row(at_, 0);
    RowValues rows;
    load_rows(row, rows);
    if constexpr (Config::tma_store) {
      store_slabs(m_ + 64 * block, row, rows, values);
    } else {
      store_direct(row, rows, values);
    }
  }

  CULET_DEVICE void end() {
    if constexpr (Config::tma_store) slabs_.end(thread_);
  }

 private:
  /// Operands that stay the same along the thread's two rows of a block.
  struct RowValues {
    float x[2][kOperands + 1];
  };

  /// With zeros where there is no such row: were the registers left as they are, the compiler would
  /// have to keep them through the main loop.
  CULET_DEVICE void load_rows(i32 row, RowValues& rows) const {
    if constexpr (kOperands > 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int operand = 0; operand < kOperands; ++operand) rows.x[half][operand] = 0.0F;
        if (row + 8 * half < rows_end_) {
          Epilogue::Operands::load_rows(operands_.pointer, row + 8 * half, rows.x[half]);
        }
      }
    }
  }

  /// The thread's two elements (row, column) and (row, column + 1).
  template <class T, class R>
  CULET_DEVICE void evaluate_pair(const float* row_values, i32 row, i32 column, T first, T second,
                                  R (&result)[2]) const {
    result[0] = static_cast<R>(first);
    result[1] = static_cast<R>(second);
    if constexpr (!Epilogue::identity) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float x[kOperands + 1];
#pragma unroll
        for (int operand = 0; operand < kOperands; ++operand) x[operand] = row_values[operand];
        if constexpr (kOperands > 0) {
          if (row >= rows_end_ || column + i >= output_.n) continue;
          const i64 offset = batch_ * output_.batch_stride + row * output_.ld + column + i;
          Epilogue::Operands::load_columns(operands_.pointer, column + i, offset, x);
        }
        result[i] = Epilogue::apply(result[i], x);
      }
    }
  }

  /// The columns of a slab are computed in strips.
  static constexpr int kStripColumns = smaller(Config::slab_n, Config::wide_strips ? 32 : 16);
  static constexpr int kStrips = ceil_div(Config::slab_n, kStripColumns);  ///< of a slab
  /// What operands are for a thread's elements of a strip: pairs 2 i and 2 i + 1 are in columns
  /// 8 i ..., the second eight rows below.
  static constexpr int kPairs = kStripColumns / 4;
  using OperandPair = typename Epilogue::Operands::Pair;
  struct Strip {
    OperandPair pairs[kPairs];
  };
  /// First column in the slab.
  static CULET_DEVICE constexpr int strip_begin(int strip) {
    return slab_begin(strip % kStrips, Config::slab_n, kStripColumns);
  }
  static CULET_DEVICE constexpr int slab_of(int strip) {
    return slab_begin(strip / kStrips, Config::tile_n, Config::slab_n);
  }
  /// Column in the tile of a pair of the thread with the first columns.
  static CULET_DEVICE constexpr int pair_column(int strip, int pair) {
    return slab_of(strip) + strip_begin(strip) + 8 * (pair / 2);
  }

  /// D's rows are whole pieces of 16 bytes here, so pairs are whole, too.
  CULET_DEVICE bool has_pair(int strip, int pair, i32 row) const {
    return row + 8 * (pair % 2) < rows_end_ &&
           n_ + fragment_column(at_, 0) + pair_column(strip, pair) < output_.n;
  }
  CULET_DEVICE void load_pair(int strip, int pair, i32 row, OperandPair& to) const {
    const i32 n = n_ + fragment_column(at_, 0);
    const i64 offset = batch_ * output_.batch_stride + row * output_.ld + n;
    const int column = pair_column(strip, pair);
    to.load(operands_.pointer, n + column, offset + pair % 2 * 8 * output_.ld + column);
  }
  /// All loads of a strip at once, so that their latencies overlap.
  CULET_DEVICE void load_strip(int strip, i32 row, Strip& to) const {
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      to.pairs[pair].clear();  // as in load_rows()
      if (has_pair(strip, pair, row)) load_pair(strip, pair, row, to.pairs[pair]);
    }
  }

  /// A block of 64 rows through shared memory. Operands as large as D come from memory: those of a
  /// strip are on their way while the strip before is computed.
  template <class T>
  CULET_DEVICE void store_slabs(i32 block_row, i32 row, const RowValues& rows,
                                const T (&values)[kRegisters]) {
    constexpr int kAll = ceil_div(Config::tile_n, Config::slab_n) * kStrips;
    constexpr bool kAhead = Config::load_ahead && Config::wide_strips;
    Strip strips[2];
    u32 buffer = 0;
    if (kAhead) load_strip(0, row, strips[0]);
#pragma unroll
    for (int strip = 0; strip < kAll; ++strip) {
      const int next = strip + (kAhead ? 1 : 0);
      if (Config::wide_strips && next < kAll) load_strip(next, row, strips[next % 2]);
      if (strip % kStrips == 0) buffer = slabs_.next(at_);
      if constexpr (size_of(Config::d) == 4) {
        stage_words(strip, buffer, row, strips[strip % 2], rows, values);
      } else {
        stage_halves(strip, buffer, row, strips[strip % 2], rows, values);
      }
      if ((strip + 1) % kStrips == 0) {
        slabs_.store(at_, d_map_, output_, buffer, n_ + slab_of(strip), block_row, batch_,
                     (strip / kStrips * Config::slab_n - slab_of(strip)) * size_of(Config::d));
      }
    }
  }

  /// A pair of a strip, from its accumulators. Where registers are few its operands are loaded only
  /// now.
  template <class T, class R>
  CULET_DEVICE void finish_pair(int strip, int pair, i32 row, const Strip& loaded,
                                const RowValues& rows, const T (&values)[kRegisters],
                                R (&result)[2]) const {
    const int from = (slab_of(strip) + strip_begin(strip)) / 2 + 2 * pair;
    result[0] = static_cast<R>(values[from]);
    result[1] = static_cast<R>(values[from + 1]);
    if constexpr (!Epilogue::identity) {
      OperandPair operands = loaded.pairs[pair];
      if constexpr (!Config::wide_strips) {
        if (!has_pair(strip, pair, row)) return;  // a branch, which keeps pairs apart
        load_pair(strip, pair, row, operands);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float x[kOperands + 1];
        operands.values(i, rows.x[pair % 2], x);
        result[i] = Epilogue::apply(result[i], x);
      }
    }
  }

  /// 16-bit elements of a strip to shared memory.
  template <class T>
  CULET_DEVICE void stage_halves(int strip, u32 slab, i32 row, const Strip& operands,
                                 const RowValues& rows, const T (&values)[kRegisters]) const {
    const int lane = at_ % 32;
    const u32 line = static_cast<u32>((at_ / 32) * 16 + stmatrix_row(lane)) * kSlabRowBytes;
#pragma unroll
    for (int part = 0; part < kStripColumns / 16; ++part) {
      u32 word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float result[2];
        finish_pair(strip, part * 4 + i, row, operands, rows, values, result);
        word[i] = pack_pair<Config::d>(result[0], result[1]);
      }
      const int column = strip_begin(strip) + part * 16 + stmatrix_column(lane);
      stmatrix_x4(slab + swizzle<kSlabRowBytes>(line + static_cast<u32>(column) * 2), word[0],
                  word[1], word[2], word[3]);
    }
  }

  /// 32-bit elements of a strip to shared memory, two at a time.
  template <class T>
  CULET_DEVICE void stage_words(int strip, u32 slab, i32 row, const Strip& operands,
                                const RowValues& rows, const T (&values)[kRegisters]) const {
    // Eight columns on are 32 bytes on before the swizzle, which leaves those bits alone; eight
    // rows on have the same swizzle.
    const u32 place =
        slab + swizzle<kSlabRowBytes>(static_cast<u32>(fragment_row(at_, 0) * kSlabRowBytes +
                                                       fragment_column(at_, 0) * 4));
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      Result<T> result[2];
      finish_pair(strip, pair, row, operands, rows, values, result);
      const u32 to =
          (place ^ (4 * strip_begin(strip) + 32 * (pair / 2))) + 8 * (pair % 2) * kSlabRowBytes;
      if constexpr (Config::d == DType::f32) {
        store_shared(to, result[0], result[1]);
      } else {
        store_shared(to, encode<Config::d>(result[0]), encode<Config::d>(result[1]));
      }
    }
  }

  template <class T>
  CULET_DEVICE void store_direct(i32 row, const RowValues& rows,
                                 const T (&values)[kRegisters]) const {
#pragma unroll
    for (int index = 0; index < kRegisters; index += 2) {
      const int half = (index / 2) % 2;
      const i32 m = row + 8 * half;
      const i32 n = n_ + fragment_column(at_, index);
      Result<T> result[2];
      evaluate_pair(rows.x[half], m, n, values[index], values[index + 1], result);
      if (m >= rows_end_ || n >= output_.n) continue;
      const i64 offset = batch_ * output_.batch_stride + m * output_.ld + n;
      if constexpr (Config::d_pairs) {
        if (n + 1 < output_.n) {
          store_pair(offset, result);
          continue;
        }
        store_element<Config::d>(output_.d, offset, result[0]);
      } else {
        store_element<Config::d>(output_.d, offset, result[0]);
        if (n + 1 < output_.n) store_element<Config::d>(output_.d, offset + 1, result[1]);
      }
    }
  }

  /// Two neighbours in one store: D is aligned to pairs and its strides are even.
  template <class R>
  CULET_DEVICE void store_pair(i64 offset, const R (&pair)[2]) const {
    if constexpr (size_of(Config::d) == 4) {
      using Element = typename Choice<Config::d == DType::f32, float, u32>::Type;
      struct alignas(8) Pair {
        Element first, second;
      };
      Pair both;
      if constexpr (Config::d == DType::f32) {
        both = Pair{pair[0], pair[1]};
      } else {
        both = Pair{encode<Config::d>(pair[0]), encode<Config::d>(pair[1])};
      }
      *reinterpret_cast<Pair*>(static_cast<Element*>(output_.d) + offset) = both;
    } else {
      *reinterpret_cast<u32*>(static_cast<u16*>(output_.d) + offset) =
          pack_pair<Config::d>(pair[0], pair[1]);
    }
  }

  const Output& output_;
  const OperandPointers<kOperands>& operands_;
  const TensorMap* d_map_;
  SlabRing<Config::d, 64, kSlabRowBytes, Config::slab_buffers, Config::stages, 128 * Config::tile_m>
      slabs_;
  int thread_;
  int at_ = 0;  ///< thread_, as the compiler may use it within a tile
  i32 m_ = 0, n_ = 0, batch_ = 0, rows_end_ = 0;
};

}  // namespace culet::kernels
