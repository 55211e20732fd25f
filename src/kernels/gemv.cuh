// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// D = epilogue(A * B^T) for a few rows of A (m = 1 .. 8, known at compile time) on ordinary cores,
// A [M, K] and B [N, K] contiguous in k: the time is that of reading B once. Every warp streams
// whole rows of B past its lanes, 16 bytes a lane, several loads in flight; A comes from L1. Warps
// of a block may share rows and split their k between them.
//
// Prototypes on an H200: two rows of B a warp with two loads each in flight and many resident warps
// beat deeper unrolling with fewer warps, and A through L1 beats staging it in shared memory.
#pragma once
#include "operands.cuh"

namespace culet::kernels {

/// The kernel's run-time arguments; strides in elements.
template <int Operands>
struct GemvArguments {
  const void* a;
  const void* b;
  void* d;
  i64 lda, ldb, ldd;
  i64 stride_a, stride_b, stride_d;
  i32 m, n, k;  ///< m: rows of this call, at most Config::m
  i32 tiles;    ///< blocks a batch entry
  OperandPointers<Operands> operands;
};

/// What follows from a Config:
///   struct Config {
///     static constexpr DType type, d;    // of A and B; of D
///     static constexpr int m;            // rows of A
///     static constexpr int rows;         // of B, a warp
///     static constexpr int unroll;       // loads of a row in flight
///     static constexpr int warps, k_warps;  // of a block; of these, that share rows and split k
///     static constexpr bool constant_b;  // B may be read before earlier kernels have finished
///   };
template <class Config>
struct GemvShape {
  static constexpr int kVector = 16 / size_of(Config::type);  ///< elements of a 16-byte load
  static constexpr int kChunk = 32 * kVector;  ///< elements of k a warp takes at once
  static constexpr int kTileRows = Config::warps / Config::k_warps * Config::rows;
  static constexpr int kThreads = 32 * Config::warps;
  static constexpr int kValues = Config::rows * Config::m;  ///< accumulators a lane
  static_assert(Config::warps % Config::k_warps == 0 && kValues <= 32);
};

struct alignas(16) Vector16 {
  u32 word[4];
};

/// Streaming load: not kept in L1, fetched by L2 in pieces of 256 bytes.
CULET_DEVICE Vector16 load_stream(const void* pointer) {
  Vector16 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(pointer));
  return v;
}
CULET_DEVICE Vector16 load_cached(const void* pointer) {
  Vector16 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(pointer)
               : "memory");
  return v;
}

/// The elements of a 16-byte vector as floats.
template <DType Type, int Count>
CULET_DEVICE void unpack(const Vector16& v, float (&x)[Count]) {
  constexpr int kPerWord = Count / 4;
  constexpr int kBits = 32 / kPerWord;
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    const u32 word = v.word[i / kPerWord];
    if constexpr (Type == DType::bf16) {
      x[i] = __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xFFFF0000u);
    } else {
      x[i] = decode<float, Type>(static_cast<StoredType<Type>>(word >> (i % kPerWord * kBits)));
    }
  }
}

/// One exchange: lanes whose bit `distance` is set keep the upper half of the values, the others
/// the lower.
template <int Size>
CULET_DEVICE float halve(const float (&x)[Size], int lane, int distance) {
  if constexpr (Size == 1) {
    float sum = x[0];
    for (; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, distance);
    return sum;
  } else {
    const bool upper = (lane & distance) != 0;
    float half[Size / 2];
#pragma unroll
    for (int i = 0; i < Size / 2; ++i) {
      const float sent = upper ? x[i] : x[i + Size / 2];
      const float kept = upper ? x[i + Size / 2] : x[i];
      half[i] = kept + __shfl_xor_sync(0xFFFFFFFFu, sent, distance);
    }
    return halve(half, lane, distance / 2);
  }
}

/// Sums each of the values over the warp's lanes. Value v ends in lane v * (32 / Size), Size the
/// power of two that holds them: every exchange halves the number of values a lane still carries.
template <int Count>
CULET_DEVICE float warp_sums(const float (&values)[Count], int lane) {
  constexpr int kSize = Count > 16 ? 32 : Count > 8 ? 16 : Count > 4 ? 8 : Count > 2 ? 4 : Count;
  float x[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) x[i] = i < Count ? values[i] : 0.0f;
  return halve(x, lane, 16);
}
template <int Count>
CULET_HD constexpr int lanes_per_value() {
  return Count > 16 ? 1 : Count > 8 ? 2 : Count > 4 ? 4 : Count > 2 ? 8 : 32 / Count;
}

/// One warp's share of the product: Config::rows rows of B against all rows of A, chunks k_warp,
/// k_warp + k_warps, ...
template <class Config>
class GemvStream {
 public:
  using Shape = GemvShape<Config>;
  using Element = StoredType<Config::type>;

  CULET_DEVICE GemvStream(const Element* b, i64 ldb, i32 first_row, i32 n, i32 k, int k_warp,
                          int lane)
      : k_(k), k_warp_(k_warp), lane_(lane) {
    const i32 chunks = (k + Shape::kChunk - 1) / Shape::kChunk;
    steps_ = k_warp < chunks ? (chunks - k_warp + Config::k_warps - 1) / Config::k_warps : 0;
#pragma unroll
    for (int r = 0; r < Config::rows; ++r) {
      rows_[r] = b + static_cast<i64>(smaller(first_row + r, n - 1)) * ldb;
    }
#pragma unroll
    for (int i = 0; i < Shape::kValues; ++i) sums[i] = 0;
  }

  CULET_DEVICE void prefetch() {
#pragma unroll
    for (int u = 0; u < Config::unroll; ++u) load(u, u);
  }

  CULET_DEVICE void run(const Element* a, i64 lda, i32 m) {
    for (i32 step = 0; step < steps_; step += Config::unroll) {
#pragma unroll
      for (int u = 0; u < Config::unroll; ++u) {
        if (step + u < steps_) {
          multiply(u, step + u, a, lda, m);
          load(u, step + u + Config::unroll);
        }
      }
    }
  }

  float sums[Shape::kValues];  ///< [row of B][row of A]

 private:
  CULET_DEVICE i32 element(i32 step) const {
    return (k_warp_ + step * Config::k_warps) * Shape::kChunk + lane_ * Shape::kVector;
  }
  CULET_DEVICE void load(int u, i32 step) {
    const i32 at = element(step);
    const bool inside = step < steps_ && at < k_;
#pragma unroll
    for (int r = 0; r < Config::rows; ++r) {
      if (inside) {
        weights_[r][u] = load_stream(rows_[r] + at);
      } else {
        weights_[r][u] = Vector16{{0, 0, 0, 0}};
      }
    }
  }
  CULET_DEVICE void multiply(int u, i32 step, const Element* a, i64 lda, i32 m) {
    const i32 at = element(step);
    if (at >= k_) return;  // the last chunk's lanes beyond k
    float w[Config::rows][Shape::kVector];
#pragma unroll
    for (int r = 0; r < Config::rows; ++r) unpack<Config::type>(weights_[r][u], w[r]);
#pragma unroll
    for (int i = 0; i < Config::m; ++i) {
      float x[Shape::kVector];
      unpack<Config::type>(load_cached(a + smaller(i, m - 1) * lda + at), x);
#pragma unroll
      for (int r = 0; r < Config::rows; ++r) {
#pragma unroll
        for (int j = 0; j < Shape::kVector; ++j) {
          sums[r * Config::m + i] = __fmaf_rn(w[r][j], x[j], sums[r * Config::m + i]);
        }
      }
    }
  }

  Vector16 weights_[Config::rows][Config::unroll];
  const Element* rows_[Config::rows];
  i32 k_, k_warp_, lane_, steps_;
};

/// The whole kernel. Grid: tiles * batch blocks.
template <class Config, class Epilogue>
CULET_DEVICE void gemv_kernel(const GemvArguments<Epilogue::Operands::count>& args) {
  using Shape = GemvShape<Config>;
  using Element = StoredType<Config::type>;
  __shared__ float parts[Config::k_warps][Config::m][Shape::kTileRows];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int k_warp = warp % Config::k_warps;
  const int row_in_tile = warp / Config::k_warps * Config::rows;
  const i32 batch = static_cast<i32>(blockIdx.x) / args.tiles;
  const i32 first_row = (static_cast<i32>(blockIdx.x) - batch * args.tiles) * Shape::kTileRows;
  if (!Config::constant_b) wait_for_earlier_kernels();
  const Element* b = static_cast<const Element*>(args.b) + batch * args.stride_b;
  GemvStream<Config> stream(b, args.ldb, first_row + row_in_tile, args.n, args.k, k_warp, lane);
  stream.prefetch();
  if (Config::constant_b) wait_for_earlier_kernels();
  let_later_kernels_start();
  stream.run(static_cast<const Element*>(args.a) + batch * args.stride_a, args.lda, args.m);

  const float sum = warp_sums(stream.sums, lane);
  constexpr int kLanes = lanes_per_value<Shape::kValues>();
  if (lane % kLanes == 0 && lane / kLanes < Shape::kValues) {
    const int value = lane / kLanes;
    parts[k_warp][value % Config::m][row_in_tile + value / Config::m] = sum;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < Config::m * Shape::kTileRows;
       i += Shape::kThreads) {
    const int m = i / Shape::kTileRows;
    const i32 n = first_row + i % Shape::kTileRows;
    if (m >= args.m || n >= args.n) continue;
    float acc = 0;
#pragma unroll
    for (int part = 0; part < Config::k_warps; ++part) acc += parts[part][m][i % Shape::kTileRows];
    const i64 offset = batch * args.stride_d + m * args.ldd + n;
    const float value = evaluate_element<Epilogue>(acc, args.operands.pointer, m, n, offset);
    store_element<Config::d>(args.d, offset, value);
  }
}

}  // namespace culet::kernels
