// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// D = epilogue(accumulators), element by element: the second step of a candidate whose first one
// left its accumulators, f32, f64 or s32, in a tight temporary.
#pragma once
#include "simt.cuh"

namespace culet::kernels {

template <int Operands>
struct PointwiseArguments {
  const void* accumulators;
  void* d;
  i64 stride;  ///< of the accumulators, whose rows are tight
  i64 ldd, stride_d;
  i32 m, n, batch;
  OperandPointers<Operands> operands;
};

///   struct Config {
///     static constexpr DType accumulator, d;
///     static constexpr int columns;  // neighbours a thread computes; n is a multiple where > 1
///   };
template <class Config, class Epilogue>
CULET_DEVICE void pointwise_kernel(const PointwiseArguments<Epilogue::Operands::count>& args) {
  using T = typename Computing<Config::accumulator>::T;
  using Sum = StoredType<Config::accumulator>;
  const i64 per_row = ceil_div<i64>(args.n, Config::columns);
  const i64 total = per_row * args.m * args.batch;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += step) {
    const i64 n0 = i % per_row * Config::columns;
    const i64 m = i / per_row % args.m;
    const i64 batch = i / per_row / args.m;
    const i64 from = batch * args.stride + m * args.n + n0;
    const auto sums = *reinterpret_cast<const Packet<Config::accumulator, Config::columns>*>(
        static_cast<const Sum*>(args.accumulators) + from);
#pragma unroll
    for (int j = 0; j < Config::columns; ++j) {
      const i64 offset = batch * args.stride_d + m * args.ldd + n0 + j;
      if constexpr (Config::accumulator == DType::s32) {
        finish_element<Config::d, Epilogue>(static_cast<i32>(sums.x[j]), args.d,
                                            args.operands.pointer, m, n0 + j, offset);
      } else {
        finish_element<Config::d, Epilogue>(decode<T, Config::accumulator>(sums.x[j]), args.d,
                                            args.operands.pointer, m, n0 + j, offset);
      }
    }
  }
}

}  // namespace culet::kernels
