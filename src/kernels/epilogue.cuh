// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Seam 3 of 3: from accumulators to D. A consumer warpgroup calls begin() for an output tile,
// visit() for each of its blocks of 64 rows, and end() once after its last tile; whatever the block
// computes passes here exactly once, after any split of k has been summed.
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

/// The slabs of shared memory through which a warpgroup's part of D leaves: `Buffers` of them, used
/// in turn.
template <int Buffers, u32 Bytes>
class SlabRing {
 public:
  CULET_DEVICE SlabRing(u32 buffers, int barrier) : buffers_(buffers), barrier_(barrier) {}

  /// The next slab, once the store that last used it has read it.
  CULET_DEVICE u32 next(int thread) {
    const u32 buffer = buffers_ + ring_ * Bytes;
    ring_ = ring_ + 1 == Buffers ? 0 : ring_ + 1;
    if (thread == 0) tma_store_wait_read<Buffers - 1>();
    barrier_sync(barrier_, 128);
    return buffer;
  }
  /// Stores a slab that all threads of the warpgroup have written.
  CULET_DEVICE void store(int thread, const TensorMap* map, u32 buffer, i32 n, i32 m, i32 batch) {
    fence_shared_to_async();
    barrier_sync(barrier_, 128);
    if (thread == 0) {
      tma_store(map, buffer, n, m, batch);
      tma_store_commit();
    }
  }
  /// A block must not leave before its stores have read its shared memory; that they arrive is the
  /// kernel's end to wait for.
  CULET_DEVICE void end(int thread) const {
    if (thread == 0) tma_store_wait_read<0>();
  }

 private:
  u32 buffers_;
  int barrier_;
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
  static constexpr u32 kSlabBytes = 64 * kSlabRowBytes;

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
  /// which the copy engine knows nothing of: what has groups of rows stores directly.
  CULET_DEVICE void begin(i32 m, i32 n, i32 batch, i32 rows_end) {
    // What follows from the thread's number is worked out here, not kept through the main loop.
    at_ = thread_;
    asm volatile("" : "+r"(at_));
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
#pragma unroll
      for (int slab = 0; slab < ceil_div(Config::tile_n, Config::slab_n); ++slab) {
        store_slab(slab_begin(slab, Config::tile_n, Config::slab_n), m_ + 64 * block, row, rows,
                   values);
      }
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

  CULET_DEVICE void load_rows(i32 row, RowValues& rows) const {
    if constexpr (kOperands > 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
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

  /// slab_n columns of a block, from `begin` of the tile on, through shared memory.
  template <class T>
  CULET_DEVICE void store_slab(int begin, i32 block_row, i32 row, const RowValues& rows,
                               const T (&values)[kRegisters]) {
    const u32 buffer = slabs_.next(at_);
    if constexpr (size_of(Config::d) == 4) {
      stage_words(begin, buffer, row, rows, values);
    } else {
      stage_halves(begin, buffer, row, rows, values);
    }
    slabs_.store(at_, d_map_, buffer, n_ + begin, block_row, batch_);
  }

  /// 16-bit elements of a slab to shared memory.
  template <class T>
  CULET_DEVICE void stage_halves(int begin, u32 buffer, i32 row, const RowValues& rows,
                                 const T (&values)[kRegisters]) const {
    const int lane = at_ % 32;
    const u32 line = static_cast<u32>((at_ / 32) * 16 + stmatrix_row(lane)) * kSlabRowBytes;
#pragma unroll
    for (int part = 0; part < Config::slab_n / 16; ++part) {
      const int first = begin / 2 + part * 8;
      u32 word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const i32 column = n_ + fragment_column(at_, first + 2 * i);
        float result[2];
        evaluate_pair(rows.x[i % 2], row + 8 * (i % 2), column, values[first + 2 * i],
                      values[first + 2 * i + 1], result);
        word[i] = pack_pair<Config::d>(result[0], result[1]);
      }
      const u32 offset = line + static_cast<u32>(part * 16 + stmatrix_column(lane)) * 2;
      stmatrix_x4(buffer + swizzle<kSlabRowBytes>(offset), word[0], word[1], word[2], word[3]);
    }
  }

  /// 32-bit elements of a slab to shared memory, two at a time.
  template <class T>
  CULET_DEVICE void stage_words(int begin, u32 buffer, i32 row, const RowValues& rows,
                                const T (&values)[kRegisters]) const {
    // Eight columns on are 32 bytes on before the swizzle, which leaves those bits alone; eight
    // rows on have the same swizzle.
    const u32 place =
        buffer + swizzle<kSlabRowBytes>(static_cast<u32>(fragment_row(at_, 0) * kSlabRowBytes +
                                                         fragment_column(at_, 0) * 4));
#pragma unroll
    for (int group = 0; group < Config::slab_n / 8; ++group) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int from = begin / 2 + 4 * group + 2 * half;
        Result<T> result[2];
        evaluate_pair(rows.x[half], row + 8 * half, n_ + fragment_column(at_, from), values[from],
                      values[from + 1], result);
        const u32 to = (place ^ (32 * group)) + 8 * half * kSlabRowBytes;
        if constexpr (Config::d == DType::f32) {
          store_shared(to, result[0], result[1]);
        } else {
          store_shared(to, encode<Config::d>(result[0]), encode<Config::d>(result[1]));
        }
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
  SlabRing<Config::slab_buffers, kSlabBytes> slabs_;
  int thread_;
  int at_ = 0;  ///< thread_, as the compiler may use it within a tile
  i32 m_ = 0, n_ = 0, batch_ = 0, rows_end_ = 0;
};

}  // namespace culet::kernels
