// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// D = epilogue(A * B^T) for a few rows of A (m = 1 .. 8, known at compile time) without staging
// anything in shared memory, A [M, K] and B [N, K] contiguous in k, 16-bit or 8-bit elements: the
// time is that of reading B once. Every warp streams rows of B past its lanes, 16 bytes a lane,
// several loads in flight; A comes from L1. Warps of a block may share rows and split their k, and
// so may the blocks of a cluster.
//
// A warp multiplies on ordinary cores, `rows` rows of B at a time, or 16 rows at a time with
// mma.sync: the order of k within an instruction does not matter as long as it is the same on both
// sides, so what a lane loads in 16 bytes goes into the instruction's operands as it is.
//
// Prototypes on an H200: two rows of B a warp with two loads each in flight and many resident warps
// beat deeper unrolling with fewer warps; A through L1 beats staging it in shared memory; ordinary
// cores keep up with memory for m = 1 and 2, mma.sync up to 8.
#pragma once
#include "mma_ptx.cuh"
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
  i32 tiles;    ///< a batch entry
  OperandPointers<Operands> operands;
};

/// What follows from a Config:
///   struct Config {
///     static constexpr DType a, b, d;    // element types
///     static constexpr bool mma;         // multiplies with mma.sync
///     static constexpr int m;            // rows of A
///     static constexpr int rows;         // of B, a warp; 16 with mma
///     static constexpr int unroll;       // loads of a row in flight; with mma, pairs of them
///     static constexpr int warps, k_warps;  // of a block; of these, that share rows and split k
///     static constexpr int cluster;      // blocks that split k
///     static constexpr bool constant_b;  // B may be read before earlier kernels have finished
///   };
template <class Config>
struct GemvShape {
  static constexpr bool kIntegers = Config::a == DType::s8 || Config::a == DType::u8;
  static constexpr DType kSumType = kIntegers ? DType::s32 : DType::f32;
  /// Bytes of k of one row that a warp takes at once.
  static constexpr int kChunk = Config::mma ? 128 : 512;
  static constexpr int kTileRows = Config::warps / Config::k_warps * Config::rows;
  static constexpr int kItems = Config::m * kTileRows;
  static constexpr int kThreads = 32 * Config::warps;
  static_assert(Config::warps % Config::k_warps == 0 && Config::m <= 8);
  static_assert(Config::mma ? Config::rows == 16 : Config::rows * Config::m <= 32);
};

/// What products of a type are summed in.
template <DType Type>
struct GemvSum {
  using T = float;
};
template <>
struct GemvSum<DType::s8> {
  using T = i32;
};
template <>
struct GemvSum<DType::u8> {
  using T = i32;
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
  static_assert(Count == 16 / size_of(Type));
#pragma unroll
  for (int i = 0; i < Count; i += 2) {
    u32 pair;
    if constexpr (size_of(Type) == 1) {
      pair = halves_of<Type>(v.word[i / 4], i % 4 != 0);
    } else {
      pair = v.word[i / 2];
    }
    if constexpr (Type == DType::bf16) {
      x[i] = __uint_as_float(pair << 16);
      x[i + 1] = __uint_as_float(pair & 0xFFFF0000u);
    } else {
      x[i] = f16_to_float(static_cast<u16>(pair));
      x[i + 1] = f16_to_float(static_cast<u16>(pair >> 16));
    }
  }
}

/// sum + the four products of the bytes of two words (PTX ISA, "dp4a").
template <DType A, DType B>
CULET_DEVICE i32 multiply_bytes(u32 a, u32 b, i32 sum) {
  i32 result;
  if constexpr (A == DType::s8 && B == DType::s8) {
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  } else if constexpr (A == DType::s8) {
    asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  } else if constexpr (B == DType::s8) {
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  } else {
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  }
  return result;
}

/// d += a * b on 16 rows of B's matrix and 8 of A's; the element types are those of B and A.
template <DType B, DType A, class T>
CULET_DEVICE void multiply_fragments(T (&d)[4], const u32 (&b)[4], const u32 (&a)[2]) {
  if constexpr (B == DType::bf16) mma_bf16(d, b, a);
  if constexpr (B == DType::f16) mma_f16(d, b, a);
  if constexpr (B == DType::s8 && A == DType::s8) mma_s8_s8(d, b, a);
  if constexpr (B == DType::s8 && A == DType::u8) mma_s8_u8(d, b, a);
  if constexpr (B == DType::u8 && A == DType::s8) mma_u8_s8(d, b, a);
  if constexpr (B == DType::u8 && A == DType::u8) mma_u8_u8(d, b, a);
}

/// One exchange: lanes whose bit `distance` is set keep the upper half of the values, the others
/// the lower.
template <class T, int Size>
CULET_DEVICE T halve(const T (&x)[Size], int lane, int distance) {
  if constexpr (Size == 1) {
    T sum = x[0];
    for (; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, distance);
    return sum;
  } else {
    const bool upper = (lane & distance) != 0;
    T half[Size / 2];
#pragma unroll
    for (int i = 0; i < Size / 2; ++i) {
      const T sent = upper ? x[i] : x[i + Size / 2];
      const T kept = upper ? x[i + Size / 2] : x[i];
      half[i] = kept + __shfl_xor_sync(0xFFFFFFFFu, sent, distance);
    }
    return halve(half, lane, distance / 2);
  }
}

/// Sums each of the values over the warp's lanes. Value v ends in lane v * (32 / Size), Size the
/// power of two that holds them: every exchange halves the number of values a lane still carries.
template <class T, int Count>
CULET_DEVICE T warp_sums(const T (&values)[Count], int lane) {
  constexpr int kSize = Count > 16 ? 32 : Count > 8 ? 16 : Count > 4 ? 8 : Count > 2 ? 4 : Count;
  T x[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) x[i] = i < Count ? values[i] : T(0);
  return halve(x, lane, 16);
}
template <int Count>
CULET_HD constexpr int lanes_per_value() {
  return Count > 16 ? 1 : Count > 8 ? 2 : Count > 4 ? 4 : Count > 2 ? 8 : 32 / Count;
}

/// The chunks of k that one warp takes: first, first + stride, ... below `end`.
struct GemvChunks {
  i32 first, stride, end;
  CULET_DEVICE i32 count() const { return first < end ? (end - first + stride - 1) / stride : 0; }
};

/// A warp's share of the product on ordinary cores: Config::rows rows of B against all rows of A.
template <class Config>
class GemvCores {
 public:
  using Shape = GemvShape<Config>;
  using Sum = typename GemvSum<Config::a>::T;

  /// Strides and k in bytes.
  CULET_DEVICE GemvCores(const char* b, i64 ldb, i32 first_row, i32 n, i64 k,
                         const GemvChunks& chunks, int lane)
      : k_(k), chunks_(chunks), steps_(chunks.count()), lane_(lane) {
#pragma unroll
    for (int r = 0; r < Config::rows; ++r) {
      rows_[r] = b + static_cast<i64>(smaller(first_row + r, n - 1)) * ldb;
    }
#pragma unroll
    for (int i = 0; i < kValues; ++i) sums_[i] = 0;
  }

  CULET_DEVICE i32 steps() const { return steps_; }
  CULET_DEVICE void load(int u, i32 step) {
    const i64 at = place(step);
    const bool inside = step < steps_ && at < k_;
#pragma unroll
    for (int r = 0; r < Config::rows; ++r) {
      if (inside) {
        weights_[u][r] = load_stream(rows_[r] + at);
      } else {
        weights_[u][r] = Vector16{{0, 0, 0, 0}};
      }
    }
  }
  CULET_DEVICE void multiply(int u, i32 step, const char* a, i64 lda, i32 m) {
    const i64 at = place(step);
    if (at >= k_) return;  // the last chunk's lanes beyond k
    if constexpr (Shape::kIntegers) {
#pragma unroll
      for (int i = 0; i < Config::m; ++i) {
        const Vector16 x = load_cached(a + smaller(i, m - 1) * lda + at);
#pragma unroll
        for (int r = 0; r < Config::rows; ++r) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            Sum& sum = sums_[r * Config::m + i];
            sum = multiply_bytes<Config::b, Config::a>(weights_[u][r].word[j], x.word[j], sum);
          }
        }
      }
    } else {
      constexpr int kVector = 16 / size_of(Config::a);
      float w[Config::rows][kVector];
#pragma unroll
      for (int r = 0; r < Config::rows; ++r) unpack<Config::b>(weights_[u][r], w[r]);
#pragma unroll
      for (int i = 0; i < Config::m; ++i) {
        float x[kVector];
        unpack<Config::a>(load_cached(a + smaller(i, m - 1) * lda + at), x);
#pragma unroll
        for (int r = 0; r < Config::rows; ++r) {
#pragma unroll
          for (int j = 0; j < kVector; ++j) {
            sums_[r * Config::m + i] = __fmaf_rn(w[r][j], x[j], sums_[r * Config::m + i]);
          }
        }
      }
    }
  }
  /// To part[row of A][row of B] of the block's tile.
  CULET_DEVICE void store(Sum (*part)[Shape::kTileRows], int row_in_tile) const {
    const Sum sum = warp_sums(sums_, lane_);
    constexpr int kLanes = lanes_per_value<kValues>();
    if (lane_ % kLanes == 0 && lane_ / kLanes < kValues) {
      const int value = lane_ / kLanes;
      part[value % Config::m][row_in_tile + value / Config::m] = sum;
    }
  }

 private:
  static constexpr int kValues = Config::rows * Config::m;
  CULET_DEVICE i64 place(i32 step) const {
    return static_cast<i64>(chunks_.first + step * chunks_.stride) * Shape::kChunk + lane_ * 16;
  }

  Sum sums_[kValues];  ///< [row of B][row of A]
  Vector16 weights_[Config::unroll][Config::rows];
  const char* rows_[Config::rows];
  i64 k_;
  GemvChunks chunks_;
  i32 steps_;
  int lane_;
};

/// The same for 16 rows of B with mma.sync. Lane (g, t) = (lane / 4, lane % 4) loads rows g and
/// g + 8 of B and row g of A, bytes 16t.. and 64 + 16t.. of a chunk, which is what mma.sync's lane
/// holds if k is taken in that order.
template <class Config>
class GemvMma {
 public:
  using Shape = GemvShape<Config>;
  using Sum = typename GemvSum<Config::a>::T;

  CULET_DEVICE GemvMma(const char* b, i64 ldb, i32 first_row, i32 n, i64 k,
                       const GemvChunks& chunks, int lane)
      : k_(k), chunks_(chunks), steps_(chunks.count()), lane_(lane) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      rows_[r] = b + static_cast<i64>(smaller(first_row + lane / 4 + 8 * r, n - 1)) * ldb;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) sums_[0][i] = sums_[1][i] = 0;
  }

  CULET_DEVICE i32 steps() const { return steps_; }
  CULET_DEVICE void load(int u, i32 step) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 at = place(step, half);
      const bool inside = step < steps_ && at < k_;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (inside) {
          weights_[u][half][r] = load_stream(rows_[r] + at);
        } else {
          weights_[u][half][r] = Vector16{{0, 0, 0, 0}};
        }
      }
    }
  }
  CULET_DEVICE void multiply(int u, i32 step, const char* a, i64 lda, i32 m) {
    const int row = lane_ / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 at = place(step, half);
      Vector16 x = {{0, 0, 0, 0}};
      if (row < m && at < k_) x = load_cached(a + row * lda + at);
      const Vector16& first = weights_[u][half][0];
      const Vector16& second = weights_[u][half][1];
      if constexpr (Config::a == DType::e4m3 || Config::a == DType::e5m2) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          multiply_fragments<DType::f16, DType::f16>(
              sums_[half],
              {halves_of<Config::b>(first.word[i], false),
               halves_of<Config::b>(second.word[i], false),
               halves_of<Config::b>(first.word[i], true),
               halves_of<Config::b>(second.word[i], true)},
              {halves_of<Config::a>(x.word[i], false), halves_of<Config::a>(x.word[i], true)});
        }
      } else {
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
          multiply_fragments<Config::b, Config::a>(
              sums_[half], {first.word[i], second.word[i], first.word[i + 1], second.word[i + 1]},
              {x.word[i], x.word[i + 1]});
        }
      }
    }
  }
  CULET_DEVICE void store(Sum (*part)[Shape::kTileRows], int row_in_tile) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int m = lane_ % 4 * 2 + i % 2;
      if (m < Config::m) part[m][row_in_tile + lane_ / 4 + 8 * (i / 2)] = sums_[0][i] + sums_[1][i];
    }
  }

 private:
  CULET_DEVICE i64 place(i32 step, int half) const {
    return static_cast<i64>(chunks_.first + step * chunks_.stride) * Shape::kChunk + half * 64 +
           lane_ % 4 * 16;
  }

  Sum sums_[2][4];  ///< two chains of instructions
  Vector16 weights_[Config::unroll][2][2];
  const char* rows_[2];
  i64 k_;
  GemvChunks chunks_;
  i32 steps_;
  int lane_;
};

template <bool Mma, class Config>
struct GemvStreamOf {
  using Type = GemvCores<Config>;
};
template <class Config>
struct GemvStreamOf<true, Config> {
  using Type = GemvMma<Config>;
};

/// A value at the same place in the shared memory of another block of the cluster.
template <DType Type, class T>
CULET_DEVICE T load_from_block(const T* place, u32 rank) {
  u32 word;
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %1, %2;"
      " ld.shared::cluster.u32 %0, [remote]; }"
      : "=r"(word)
      : "r"(shared_address(place)), "r"(rank)
      : "memory");
  return decode<T, Type>(word);
}

/// The epilogue of a sum, and its store.
template <class Config, class Epilogue, class T>
CULET_DEVICE void gemv_finish(const GemvArguments<Epilogue::Operands::count>& args, T sum, i32 m,
                              i32 n, i32 batch) {
  if (m >= args.m || n >= args.n) return;
  const i64 offset = batch * args.stride_d + m * args.ldd + n;
  if constexpr (Epilogue::identity) {
    store_element<Config::d>(args.d, offset, sum);
  } else {
    store_element<Config::d>(
        args.d, offset,
        evaluate_element<Epilogue>(static_cast<float>(sum), args.operands.pointer, m, n, offset));
  }
}

/// The whole kernel. Grid: tiles * batch * cluster blocks.
template <class Config, class Epilogue>
CULET_DEVICE void gemv_kernel(const GemvArguments<Epilogue::Operands::count>& args) {
  using Shape = GemvShape<Config>;
  using Stream = typename GemvStreamOf<Config::mma, Config>::Type;
  using Sum = typename Stream::Sum;
  __shared__ Sum parts[Config::k_warps][Config::m][Shape::kTileRows];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int k_warp = warp % Config::k_warps;
  const int row_in_tile = warp / Config::k_warps * Config::rows;
  const u32 rank = Config::cluster > 1 ? cluster_rank() : 0;
  const i32 place = static_cast<i32>(blockIdx.x) / Config::cluster;
  const i32 batch = place / args.tiles;
  const i32 first_row = (place - batch * args.tiles) * Shape::kTileRows;
  constexpr i64 kSize = size_of(Config::a);
  const i32 chunks = static_cast<i32>((args.k * kSize + Shape::kChunk - 1) / Shape::kChunk);
  const GemvChunks own{static_cast<i32>(static_cast<i64>(chunks) * rank / Config::cluster) + k_warp,
                       Config::k_warps,
                       static_cast<i32>(static_cast<i64>(chunks) * (rank + 1) / Config::cluster)};
  if (!Config::constant_b) wait_for_earlier_kernels();
  Stream stream(static_cast<const char*>(args.b) + batch * args.stride_b * kSize, args.ldb * kSize,
                first_row + row_in_tile, args.n, args.k * kSize, own, lane);
#pragma unroll
  for (int u = 0; u < Config::unroll; ++u) stream.load(u, u);
  if (Config::constant_b) wait_for_earlier_kernels();
  let_later_kernels_start();
  const char* a = static_cast<const char*>(args.a) + batch * args.stride_a * kSize;
  for (i32 step = 0; step < stream.steps(); step += Config::unroll) {
#pragma unroll
    for (int u = 0; u < Config::unroll; ++u) {
      if (step + u < stream.steps()) {
        stream.multiply(u, step + u, a, args.lda * kSize, args.m);
        stream.load(u, step + u + Config::unroll);
      }
    }
  }
  stream.store(parts[k_warp], row_in_tile);
  __syncthreads();
  // The parts of warps, and then of blocks, in a fixed order.
  constexpr int kItems = Shape::kItems;
  constexpr int kSlice = ceil_div(kItems, Config::cluster);
  for (int i = static_cast<int>(threadIdx.x); i < kItems; i += Shape::kThreads) {
    Sum& sum = parts[0][i / Shape::kTileRows][i % Shape::kTileRows];
    Sum all = sum;
#pragma unroll
    for (int part = 1; part < Config::k_warps; ++part)
      all += parts[part][i / Shape::kTileRows][i % Shape::kTileRows];
    if constexpr (Config::cluster > 1) {
      sum = all;
    } else {
      gemv_finish<Config, Epilogue>(args, all, i / Shape::kTileRows,
                                    first_row + i % Shape::kTileRows, batch);
    }
  }
  if constexpr (Config::cluster > 1) {
    cluster_sync();
    const int slice = static_cast<int>(rank) * kSlice;
    for (int i = slice + static_cast<int>(threadIdx.x); i < smaller(slice + kSlice, kItems);
         i += Shape::kThreads) {
      const Sum* from = &parts[0][i / Shape::kTileRows][i % Shape::kTileRows];
      Sum part[Config::cluster];
#pragma unroll
      for (int block = 0; block < Config::cluster; ++block)
        part[block] = load_from_block<Shape::kSumType>(from, block);
#pragma unroll
      for (int block = 1; block < Config::cluster; ++block) part[0] += part[block];
      gemv_finish<Config, Epilogue>(args, part[0], i / Shape::kTileRows,
                                    first_row + i % Shape::kTileRows, batch);
    }
    // A block must not leave while another still reads its parts.
    cluster_sync();
  }
}

}  // namespace culet::kernels
