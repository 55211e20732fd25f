// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The epilogue seam for the general tensor-core kernel: begin / visit / end as in epilogue.cuh, for
// a warp's accumulators instead of a warpgroup's, sums in f32 or s32, D of any type. Every thread
// stores its own elements, two neighbours at once where D's rows allow it.
#pragma once
#include "epilogue.cuh"
#include "mma_layout.cuh"

namespace culet::kernels {

template <class Config, class Epilogue, class T>
class WarpEpilogue {
 public:
  static constexpr int kOperands = Epilogue::Operands::count;

  CULET_DEVICE WarpEpilogue(const Output& output, const OperandPointers<kOperands>& operands,
                            int lane)
      : output_(output), operands_(operands), lane_(lane) {}

  /// The warp's first row and column.
  CULET_DEVICE void begin(i32 m, i32 n, i32 batch) {
    m_ = m;
    n_ = n;
    batch_ = batch * output_.batch_stride;
  }

  /// Rows 16 * block ... of the warp's part of the tile.
  template <int Registers>
  CULET_DEVICE void visit(int block, const T (&values)[Registers]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i32 m = m_ + 16 * block + mma_row(lane_, 2 * half);
      if (m >= output_.m) continue;
      const i64 row = batch_ + m * output_.ld;
      float x[kOperands + 1];
      Epilogue::Operands::load_rows(operands_.pointer, m, x);
#pragma unroll
      for (int index = 2 * half; index < Registers; index += 4) {
        store_pair(x, row, n_ + mma_column(lane_, index), values[index], values[index + 1]);
      }
    }
  }

  CULET_DEVICE void end() const {}

 private:
  CULET_DEVICE void store_pair(const float* row_values, i64 row, i32 n, T first, T second) const {
    if (n >= output_.n) return;
    if constexpr (Config::d_pairs) {
      if (n + 1 < output_.n) {
        using Stored = StoredType<Config::d>;
        struct alignas(2 * sizeof(Stored)) Pair {
          Stored first, second;
        };
        *reinterpret_cast<Pair*>(static_cast<Stored*>(output_.d) + row + n) =
            Pair{finished(row_values, row, n, first), finished(row_values, row, n + 1, second)};
        return;
      }
    }
    auto* d = static_cast<StoredType<Config::d>*>(output_.d) + row + n;
    d[0] = finished(row_values, row, n, first);
    if (n + 1 < output_.n) d[1] = finished(row_values, row, n + 1, second);
  }

  /// An element as D holds it. Integers go there as they are unless there is something to compute,
  /// which is done in float.
  CULET_DEVICE StoredType<Config::d> finished(const float* row_values, i64 row, i32 n,
                                              T acc) const {
    if constexpr (Epilogue::identity) {
      return encode<Config::d>(acc);
    } else {
      float x[kOperands + 1];
#pragma unroll
      for (int i = 0; i < kOperands; ++i) x[i] = row_values[i];
      Epilogue::Operands::load_columns(operands_.pointer, n, row + n, x);
      return encode<Config::d>(Epilogue::apply(static_cast<float>(acc), x));
    }
  }

  const Output& output_;
  const OperandPointers<kOperands>& operands_;
  int lane_;
  i32 m_ = 0, n_ = 0;
  i64 batch_ = 0;
};

}  // namespace culet::kernels
