// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// D = epilogue(A * B) on ordinary cores, for every dtype, layout, stride and alignment, on every
// NVIDIA part: tiles of A and B go through registers into shared memory as numbers of the computing
// type, k slowest, and every thread multiplies a small tile of its own. The next tiles are read
// while the current ones are multiplied.
#pragma once
#include "operands.cuh"

namespace culet::kernels {

/// Operands and sizes. Strides are in elements; `ld` is the distance between lines, the lines being
/// rows of a row-major operand and columns of a column-major one.
template <int Operands>
struct SimtArguments {
  const void* a;
  const void* b;
  void* d;
  i64 lda, ldb, ldd;
  i64 stride_a, stride_b, stride_d;
  i32 m, n, k, batch;
  OperandPointers<Operands> operands;
};

/// Numbers are summed in the widest type that is exact or customary for the operands.
template <DType Type>
struct Computing {
  using T = float;
};
template <>
struct Computing<DType::f64> {
  using T = double;
};
template <>
struct Computing<DType::s8> {
  using T = i32;
};
template <>
struct Computing<DType::u8> {
  using T = i32;
};

CULET_DEVICE float multiply_add(float x, float y, float z) { return __fmaf_rn(x, y, z); }
CULET_DEVICE double multiply_add(double x, double y, double z) { return __fma_rn(x, y, z); }
CULET_DEVICE i32 multiply_add(i32 x, i32 y, i32 z) {
  return static_cast<i32>(static_cast<u32>(x) * static_cast<u32>(y) + static_cast<u32>(z));
}

/// Neighbours in memory that are loaded at once.
template <DType Type, int Count>
struct alignas(size_of(Type) * Count) Packet {
  StoredType<Type> x[Count];
};

/// `Count` elements from element `index` on; those past `valid` are zero and not read. With all
/// valid it is one load.
template <DType Type, int Count>
CULET_DEVICE Packet<Type, Count> load_packet(const void* base, i64 index, i64 valid) {
  const auto* from = static_cast<const StoredType<Type>*>(base) + index;
  Packet<Type, Count> packet;
  if (valid >= Count) return *reinterpret_cast<const Packet<Type, Count>*>(from);
#pragma unroll
  for (int i = 0; i < Count; ++i) packet.x[i] = i < valid ? from[i] : StoredType<Type>(0);
  return packet;
}

/// The epilogue of one element and its store. Integers go to D as they are unless there is
/// something to compute, which is done in float.
template <DType D, class Epilogue, class T>
CULET_DEVICE void finish_element(T acc, void* d, const void* const* operands, i64 m, i64 n,
                                 i64 offset) {
  if constexpr (Epilogue::identity) {
    store_element<D>(d, offset, acc);
  } else if constexpr (sizeof(T) == 8) {
    store_element<D>(d, offset, evaluate_element<Epilogue, double>(acc, operands, m, n, offset));
  } else {
    store_element<D>(
        d, offset,
        evaluate_element<Epilogue, float>(static_cast<float>(acc), operands, m, n, offset));
  }
}

/// Moves a tile of `Lines` lines (rows of A, or columns of B) times `TileK` of an operand from
/// memory to shared memory as [k][line].
///   KFast: the operand is contiguous in k, else along the lines.
template <DType Type, class T, bool KFast, int Lines, int TileK, int Vector, int Threads>
struct TileLoader {
  static constexpr int kPitch = Lines + 4;  ///< four more than a multiple of 32 spreads the banks
  static constexpr int kAlong = (KFast ? TileK : Lines) / Vector;
  static constexpr int kPackets = kAlong * (KFast ? Lines : TileK);
  static constexpr int kPerThread = ceil_div(kPackets, Threads);
  static_assert((KFast ? TileK : Lines) % Vector == 0);
  Packet<Type, Vector> packets[kPerThread];

  /// `first`: the tile's first line of `lines`; `k0`: its first k of `k`.
  CULET_DEVICE void load(const void* base, i64 ld, i64 first, i64 lines, i64 k0, i64 k) {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int packet = static_cast<int>(threadIdx.x) + i * Threads;
      const int fast = (packet % kAlong) * Vector;
      const int slow = packet / kAlong;
      const i64 line = first + (KFast ? slow : fast);
      const i64 at = k0 + (KFast ? fast : slow);
      const i64 valid = KFast ? (line < lines ? k - at : 0) : (at < k ? lines - line : 0);
      if (kPackets % Threads != 0 && packet >= kPackets) continue;
      packets[i] = load_packet<Type, Vector>(base, KFast ? line * ld + at : at * ld + line,
                                             valid > 0 ? valid : 0);
    }
  }
  CULET_DEVICE void store(T* shared) const {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int packet = static_cast<int>(threadIdx.x) + i * Threads;
      if (kPackets % Threads != 0 && packet >= kPackets) continue;
      const int fast = (packet % kAlong) * Vector;
      const int slow = packet / kAlong;
#pragma unroll
      for (int j = 0; j < Vector; ++j) {
        const int line = KFast ? slow : fast + j;
        const int at = KFast ? fast + j : slow;
        shared[at * kPitch + line] = decode<T, Type>(packets[i].x[j]);
      }
    }
  }
};

///   struct Config {
///     static constexpr DType a, b, d;
///     static constexpr bool a_k_fast, b_k_fast;      // contiguous in k
///     static constexpr int tile_m, tile_n, tile_k;
///     static constexpr int thread_m, thread_n;       // of one thread
///     static constexpr int vector_a, vector_b;       // elements in a load
///   };
template <class Config>
struct SimtShape {
  using T = typename Computing<Config::a>::T;
  static constexpr int kColumns = Config::tile_n / Config::thread_n;  ///< of threads
  static constexpr int kThreads = Config::tile_m / Config::thread_m * kColumns;
  using LoadA = TileLoader<Config::a, T, Config::a_k_fast, Config::tile_m, Config::tile_k,
                           Config::vector_a, kThreads>;
  using LoadB = TileLoader<Config::b, T, Config::b_k_fast, Config::tile_n, Config::tile_k,
                           Config::vector_b, kThreads>;
  static constexpr int kElementsA = Config::tile_k * LoadA::kPitch;
  static constexpr int kElementsB = Config::tile_k * LoadB::kPitch;
};

/// Line of a thread's i-th of `Count`, when lines are dealt out in runs of up to four neighbours,
/// which are one wide shared-memory load.
template <int Count, int Tile>
CULET_HD constexpr int dealt_line(int part, int i) {
  constexpr int kRun = Count % 4 == 0 ? 4 : Count % 2 == 0 ? 2 : 1;
  return i / kRun * (Tile / Count * kRun) + part * kRun + i % kRun;
}

template <class Config, class Epilogue>
CULET_DEVICE void simt_kernel(const SimtArguments<Epilogue::Operands::count>& args) {
  using Shape = SimtShape<Config>;
  using T = typename Shape::T;
  __shared__ alignas(16) T shared_a[2][Shape::kElementsA];
  __shared__ alignas(16) T shared_b[2][Shape::kElementsB];
  const int part_m = static_cast<int>(threadIdx.x) / Shape::kColumns;
  const int part_n = static_cast<int>(threadIdx.x) % Shape::kColumns;
  const i64 tiles_m = ceil_div<i64>(args.m, Config::tile_m);
  const i64 tiles_n = ceil_div<i64>(args.n, Config::tile_n);
  const i64 tiles = tiles_m * tiles_n * args.batch;
  for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const i64 batch = tile / (tiles_m * tiles_n);
    const i64 m0 = tile / tiles_n % tiles_m * Config::tile_m;
    const i64 n0 = tile % tiles_n * Config::tile_n;
    const auto* a = static_cast<const StoredType<Config::a>*>(args.a) + batch * args.stride_a;
    const auto* b = static_cast<const StoredType<Config::b>*>(args.b) + batch * args.stride_b;
    T acc[Config::thread_m][Config::thread_n] = {};
    typename Shape::LoadA load_a;
    typename Shape::LoadB load_b;
    const int k_tiles = ceil_div(args.k, Config::tile_k);
    if (k_tiles > 0) {
      load_a.load(a, args.lda, m0, args.m, 0, args.k);
      load_b.load(b, args.ldb, n0, args.n, 0, args.k);
      __syncthreads();  // the previous tile's last readers
      load_a.store(shared_a[0]);
      load_b.store(shared_b[0]);
    }
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      const bool more = k_tile + 1 < k_tiles;
      if (more) {
        const i64 k0 = static_cast<i64>(k_tile + 1) * Config::tile_k;
        load_a.load(a, args.lda, m0, args.m, k0, args.k);
        load_b.load(b, args.ldb, n0, args.n, k0, args.k);
      }
      __syncthreads();
      const T* from_a = shared_a[k_tile % 2];
      const T* from_b = shared_b[k_tile % 2];
#pragma unroll
      for (int kk = 0; kk < Config::tile_k; ++kk) {
        T x[Config::thread_m], y[Config::thread_n];
#pragma unroll
        for (int i = 0; i < Config::thread_m; ++i) {
          x[i] = from_a[kk * Shape::LoadA::kPitch +
                        dealt_line<Config::thread_m, Config::tile_m>(part_m, i)];
        }
#pragma unroll
        for (int j = 0; j < Config::thread_n; ++j) {
          y[j] = from_b[kk * Shape::LoadB::kPitch +
                        dealt_line<Config::thread_n, Config::tile_n>(part_n, j)];
        }
#pragma unroll
        for (int i = 0; i < Config::thread_m; ++i) {
#pragma unroll
          for (int j = 0; j < Config::thread_n; ++j)
            acc[i][j] = multiply_add(x[i], y[j], acc[i][j]);
        }
      }
      // The other buffer's readers passed the barrier above, so it may be written now.
      if (more) {
        load_a.store(shared_a[(k_tile + 1) % 2]);
        load_b.store(shared_b[(k_tile + 1) % 2]);
      }
    }
#pragma unroll
    for (int i = 0; i < Config::thread_m; ++i) {
      const i64 m = m0 + dealt_line<Config::thread_m, Config::tile_m>(part_m, i);
#pragma unroll
      for (int j = 0; j < Config::thread_n; ++j) {
        const i64 n = n0 + dealt_line<Config::thread_n, Config::tile_n>(part_n, j);
        if (m >= args.m || n >= args.n) continue;
        finish_element<Config::d, Epilogue>(acc[i][j], args.d, args.operands.pointer, m, n,
                                            batch * args.stride_d + m * args.ldd + n);
      }
    }
  }
}

}  // namespace culet::kernels
