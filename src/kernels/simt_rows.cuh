// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The companion of simt.cuh for a few rows of A (m <= 8): its time is that of reading B, so B
// streams straight from memory into registers in wide loads, and A, which is small, comes out of
// the cache. There is one kernel for each storage order of B.
#pragma once
#include "simt.cuh"

namespace culet::kernels {

/// What a Config says: dtypes a, b, d; a_k_fast, b_k_fast (storage orders); rows, at least m;
/// vector_a and vector_b, elements in a load, of A where it is contiguous in k; columns, of a warp
/// (B contiguous in k) or a lane; warps_k, warps of a block that share k; warps_n, that have
/// columns of their own.
template <class Config>
struct RowsShape {
  using T = typename Computing<Config::a>::T;
  static constexpr int kThreads = 32 * Config::warps_k * Config::warps_n;
  static constexpr int kWarpColumns = Config::b_k_fast ? Config::columns : 32 * Config::columns;
  static constexpr int kBlockColumns = kWarpColumns * Config::warps_n;
};

template <class T>
CULET_DEVICE T sum_lanes(T value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFF, value, distance);
  }
  return value;
}

/// A[row, k], rows beyond the last standing for the last, whose results are not used.
template <class Config>
CULET_DEVICE i64 index_of_a(i64 row, i64 k, i64 rows, i64 ld) {
  row = smaller(row, rows - 1);
  return Config::a_k_fast ? row * ld + k : k * ld + row;
}

/// B contiguous in k: a warp owns whole columns, its lanes go along k.
template <class Config, class T, class Arguments>
CULET_DEVICE void accumulate_along_k(const Arguments& args, const StoredType<Config::a>* a,
                                     const StoredType<Config::b>* b, i64 n0, int warp_k, int lane,
                                     T (&acc)[Config::rows][Config::columns]) {
  constexpr int kVector = Config::vector_b;
  constexpr i64 kStep = i64{32} * Config::warps_k * kVector;
  // Two steps at once hide more latency, where there are registers for it: each element of A that
  // is loaded by itself takes an address, too.
  constexpr int kElements = Config::a_k_fast ? Config::columns : Config::rows + Config::columns;
  constexpr int kSteps = kElements * kVector > 16 ? 1 : 2;
#pragma unroll kSteps
  for (i64 k = (i64{32} * warp_k + lane) * kVector; k < args.k; k += kStep) {
    const i64 valid = args.k - k;
    Packet<Config::b, kVector> column[Config::columns];
#pragma unroll
    for (int j = 0; j < Config::columns; ++j) {
      const i64 n = smaller<i64>(n0 + j, args.n - 1);
      column[j] = load_packet<Config::b, kVector>(b, n * args.ldb + k, valid);
    }
#pragma unroll
    for (int row = 0; row < Config::rows; ++row) {
      T x[kVector];
      if constexpr (Config::a_k_fast && Config::vector_a == kVector) {
        const auto packet =
            load_packet<Config::a, kVector>(a, index_of_a<Config>(row, k, args.m, args.lda), valid);
#pragma unroll
        for (int i = 0; i < kVector; ++i) x[i] = decode<T, Config::a>(packet.x[i]);
      } else {
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          x[i] = i < valid
                     ? decode<T, Config::a>(a[index_of_a<Config>(row, k + i, args.m, args.lda)])
                     : T(0);
        }
      }
#pragma unroll
      for (int j = 0; j < Config::columns; ++j) {
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          acc[row][j] = multiply_add(x[i], decode<T, Config::b>(column[j].x[i]), acc[row][j]);
        }
      }
    }
  }
#pragma unroll
  for (int row = 0; row < Config::rows; ++row) {
#pragma unroll
    for (int j = 0; j < Config::columns; ++j) acc[row][j] = sum_lanes(acc[row][j]);
  }
}

/// B contiguous in n: a lane owns neighbouring columns and walks down k.
template <class Config, class T, class Arguments>
CULET_DEVICE void accumulate_along_n(const Arguments& args, const StoredType<Config::a>* a,
                                     const StoredType<Config::b>* b, i64 n, int warp_k,
                                     T (&acc)[Config::rows][Config::columns]) {
  static_assert(Config::b_k_fast || Config::columns == Config::vector_b);
  const i64 valid = args.n - n;
  if (valid <= 0) return;
#pragma unroll 4
  for (i64 k = warp_k; k < args.k; k += Config::warps_k) {
    const auto packet = load_packet<Config::b, Config::columns>(b, k * args.ldb + n, valid);
#pragma unroll
    for (int row = 0; row < Config::rows; ++row) {
      const T x = decode<T, Config::a>(a[index_of_a<Config>(row, k, args.m, args.lda)]);
#pragma unroll
      for (int j = 0; j < Config::columns; ++j) {
        acc[row][j] = multiply_add(x, decode<T, Config::b>(packet.x[j]), acc[row][j]);
      }
    }
  }
}

template <class Config, class Epilogue>
CULET_DEVICE void rows_kernel(const SimtArguments<Epilogue::Operands::count>& args) {
  using Shape = RowsShape<Config>;
  using T = typename Shape::T;
  constexpr int kLanes = Config::b_k_fast ? 1 : 32;  ///< that hold different columns
  __shared__ T parts[Config::warps_k][Config::warps_n][Config::rows * Config::columns][kLanes];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_n = static_cast<int>(threadIdx.x) / 32 % Config::warps_n;
  const int warp_k = static_cast<int>(threadIdx.x) / 32 / Config::warps_n;
  const i64 tiles_n = ceil_div<i64>(args.n, Shape::kBlockColumns);
  const i64 tiles = tiles_n * args.batch;
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const i64 batch = tile / tiles_n;
    const auto* a = static_cast<const StoredType<Config::a>*>(args.a) + batch * args.stride_a;
    const auto* b = static_cast<const StoredType<Config::b>*>(args.b) + batch * args.stride_b;
    const i64 warp_first = tile % tiles_n * Shape::kBlockColumns + warp_n * Shape::kWarpColumns;
    const i64 n0 = warp_first + (Config::b_k_fast ? 0 : lane * Config::columns);
    T acc[Config::rows][Config::columns] = {};
    if constexpr (Config::b_k_fast) {
      accumulate_along_k<Config>(args, a, b, n0, warp_k, lane, acc);
    } else {
      accumulate_along_n<Config>(args, a, b, n0, warp_k, acc);
    }
    const int slot = kLanes == 1 ? 0 : lane;
    if constexpr (Config::warps_k > 1) {
      __syncthreads();  // the previous tile's readers
      if (kLanes > 1 || lane == 0) {
#pragma unroll
        for (int i = 0; i < Config::rows * Config::columns; ++i) {
          parts[warp_k][warp_n][i][slot] = acc[i / Config::columns][i % Config::columns];
        }
      }
      __syncthreads();
      if (warp_k > 0) continue;
        // In the order of the warps: the result does not depend on timing.
#pragma unroll
      for (int i = 0; i < Config::rows * Config::columns; ++i) {
        for (int warp = 1; warp < Config::warps_k; ++warp) {
          acc[i / Config::columns][i % Config::columns] += parts[warp][warp_n][i][slot];
        }
      }
    }
    // With B contiguous in k every lane has the sums: a lane stores an element.
#pragma unroll
    for (int i = 0; i < Config::rows * Config::columns; ++i) {
      const i64 m = i / Config::columns;
      const i64 n = n0 + i % Config::columns;
      if (m >= args.m || n >= args.n || (kLanes == 1 && lane != i % 32)) continue;
      finish_element<Config::d, Epilogue>(acc[i / Config::columns][i % Config::columns], args.d,
                                          args.operands.pointer, m, n,
                                          batch * args.stride_d + m * args.ldd + n);
    }
  }
}

}  // namespace culet::kernels
