// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Seam 3 for a product that was computed turned round: the rows of the accumulators are columns of
// D, their columns are rows of D. `stmatrix` turns blocks of 8x8 on their way to shared memory, so
// that D leaves as ever, by the copy engine. D has elements of 16 bits.
#pragma once
#include "epilogue.cuh"

namespace culet::kernels {

/// The epilogue's operands are declared turned round, too: what is indexed by n is Index::row.
template <class Config, class Epilogue>
class TurnedEpilogue {
 public:
  static constexpr int kRegisters = Config::tile_n / 2;
  static constexpr int kOperands = Epilogue::Operands::count;
  static constexpr u32 kRowBytes = 128;  ///< of a slab: 64 columns of D
  static_assert(Config::tma_store && size_of(Config::d) == 2 && Config::slab_n % 16 == 0);

  CULET_DEVICE TurnedEpilogue(const Output& output, const OperandPointers<kOperands>& operands,
                              const TensorMap* d_map, u32 buffers, int barrier, int thread)
      : output_(output),
        operands_(operands),
        d_map_(d_map),
        slabs_(buffers, barrier),
        thread_(thread) {}

  /// The first row and column of the warpgroup's accumulators. There are no groups of rows.
  CULET_DEVICE void begin(i32 row, i32 column, i32 batch, i32, u32 stages) {
    slabs_.begin(stages);
    at_ = thread_;
    // What follows from the thread's number is worked out here, not kept through the main loop.
    if constexpr (!Config::roomy) asm volatile("" : "+r"(at_));
    n_ = row;
    m_ = column;
    batch_ = batch;
  }

  /// Accumulators of rows 64 * block ... T: float or i32.
  template <class T>
  CULET_DEVICE void visit(int block, const T (&values)[kRegisters]) {
    const i32 n = n_ + 64 * block + fragment_row(at_, 0);
    float columns[2][kOperands + 1];  // what operands are along the thread's two columns of D
    if constexpr (kOperands > 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (n + 8 * half < output_.n) {
          Epilogue::Operands::load_rows(operands_.pointer, n + 8 * half, columns[half]);
        }
      }
    }
    const int lane = at_ % 32;
    const u32 column_bytes = static_cast<u32>((at_ / 32) * 16 + turned_column(lane)) * 2;
#pragma unroll
    for (int slab = 0; slab < ceil_div(Config::tile_n, Config::slab_n); ++slab) {
      const int begin = slab_begin(slab, Config::tile_n, Config::slab_n);
      const u32 buffer = slabs_.next(at_);
#pragma unroll
      for (int part = 0; part < Config::slab_n / 16; ++part) {
        const int first = begin / 2 + part * 8;
        u32 word[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          word[i] =
              evaluate_pair(columns[i % 2], m_ + fragment_column(at_, first + 2 * i),
                            n + 8 * (i % 2), values[first + 2 * i], values[first + 2 * i + 1]);
        }
        const u32 line = static_cast<u32>(part * 16 + turned_line(lane)) * kRowBytes;
        stmatrix_x4_transposed(buffer + swizzle<kRowBytes>(line + column_bytes), word[0], word[1],
                               word[2], word[3]);
      }
      slabs_.store(at_, d_map_, output_, buffer, n_ + 64 * block, m_ + begin, batch_);
    }
  }

  CULET_DEVICE void end() { slabs_.end(thread_); }

 private:
  /// Elements (m, n) and (m + 1, n) of D.
  template <class T>
  CULET_DEVICE u32 evaluate_pair(const float* column_values, i32 m, i32 n, T first,
                                 T second) const {
    float result[2] = {static_cast<float>(first), static_cast<float>(second)};
    if constexpr (!Epilogue::identity) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float x[kOperands + 1];
#pragma unroll
        for (int operand = 0; operand < kOperands; ++operand) x[operand] = column_values[operand];
        if constexpr (kOperands > 0) {
          if (n >= output_.n || m + i >= output_.m) continue;
          const i64 offset = batch_ * output_.batch_stride + (m + i) * output_.ld + n;
          Epilogue::Operands::load_columns(operands_.pointer, m + i, offset, x);
        }
        result[i] = Epilogue::apply(result[i], x);
      }
    }
    return pack_pair<Config::d>(result[0], result[1]);
  }

  const Output& output_;
  const OperandPointers<kOperands>& operands_;
  const TensorMap* d_map_;
  SlabRing<Config::d, Config::slab_n, kRowBytes, Config::slab_buffers, Config::stages,
           128 * Config::tile_m>
      slabs_;
  int thread_;
  int at_ = 0;  ///< thread_, as the compiler may use it within a tile
  i32 m_ = 0, n_ = 0, batch_ = 0;
};

}  // namespace culet::kernels
