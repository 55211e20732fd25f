// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Verification on the GPU: fills operands, computes the reference in double precision, compares,
// and looks at what surrounds D. Written for being obviously right; it shares nothing with the
// kernels it judges. The generated part of the source (src/benchmark/cuda_kernels.cpp) instantiates
// these templates for the problem's formats and epilogue.
#pragma once

#include "interface.h"

namespace culet::verify {

__device__ inline i64 thread_index() {
  return static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline i64 thread_count() { return static_cast<i64>(gridDim.x) * blockDim.x; }

__device__ inline void store_code(void* base, i64 index, int width, u64 code) {
  switch (width) {
    case 1:
      static_cast<unsigned char*>(base)[index] = static_cast<unsigned char>(code);
      break;
    case 2:
      static_cast<unsigned short*>(base)[index] = static_cast<unsigned short>(code);
      break;
    case 4:
      static_cast<u32*>(base)[index] = static_cast<u32>(code);
      break;
    default:
      static_cast<u64*>(base)[index] = code;
  }
}

__device__ inline u64 load_code(const void* base, i64 index, int width) {
  switch (width) {
    case 1:
      return static_cast<const unsigned char*>(base)[index];
    case 2:
      return static_cast<const unsigned short*>(base)[index];
    case 4:
      return static_cast<const u32*>(base)[index];
    default:
      return static_cast<const u64*>(base)[index];
  }
}

__device__ inline void fill(void* base, Format format, u64 key, Span span) {
  const i64 total = span.batches * span.lines * span.length;
  const int width = bytes_of(format);
  for (i64 i = thread_index(); i < total; i += thread_count()) {
    const i64 run = i / span.length;
    const i64 at = run / span.lines * span.batch_stride + run % span.lines * span.line_stride +
                   i % span.length;
    store_code(base, at, width,
               encode_exact(format, random_value(format, key, static_cast<u64>(at))));
  }
}

// --- Reference -----------------------------------------------------------------------------------

/// One block per tile, kThreads threads: sums and sums of magnitudes, row by row. Each operand's
/// values are generated, never read.
template <Format kFormatA, Format kFormatB>
__device__ inline void reference(const Shape& shape, const Tile* tiles, double* sums,
                                 float* magnitudes) {
  __shared__ double a[kDepth][kTile + 1], b[kDepth][kTile + 1];
  __shared__ float abs_a[kDepth][kTile + 1], abs_b[kDepth][kTile + 1];
  const Tile tile = tiles[blockIdx.x];
  const int thread = static_cast<int>(threadIdx.x);
  const int row = thread / 16 * 4, column = thread % 16;
  double sum[4][4] = {};
  float size[4][4] = {};
  for (i64 k0 = 0; k0 < shape.k; k0 += kDepth) {
    for (int i = thread; i < kTile * kDepth; i += kThreads) {
      const int line = i % kTile, l = i / kTile;
      const i64 m = tile.m + line, n = tile.n + line, k = k0 + l;
      const bool has_a = m < shape.m && k < shape.k, has_b = n < shape.n && k < shape.k;
      const i64 at_a = tile.batch * shape.a_batch + m * shape.a_m + k * shape.a_k;
      const i64 at_b = tile.batch * shape.b_batch + k * shape.b_k + n * shape.b_n;
      const double va = has_a ? random_value(kFormatA, shape.key_a, static_cast<u64>(at_a)) : 0.0;
      const double vb = has_b ? random_value(kFormatB, shape.key_b, static_cast<u64>(at_b)) : 0.0;
      a[l][line] = va;
      b[l][line] = vb;
      abs_a[l][line] = static_cast<float>(magnitude(va));
      abs_b[l][line] = static_cast<float>(magnitude(vb));
    }
    __syncthreads();
    for (int l = 0; l < kDepth; ++l) {
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
          sum[i][j] += a[l][row + i] * b[l][column + 16 * j];
          size[i][j] += abs_a[l][row + i] * abs_b[l][column + 16 * j];
        }
      }
    }
    __syncthreads();
  }
  const i64 base = static_cast<i64>(blockIdx.x) * kTile * kTile;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const i64 at = base + (row + i) * kTile + column + 16 * j;
      sums[at] = sum[i][j];
      magnitudes[at] = size[i][j];
    }
  }
}

// --- Comparison ----------------------------------------------------------------------------------

/// `Epilogue::apply(acc, shape, batch, m, n, keys, accuracy)` gives the result before it is stored.
/// One block per tile.
template <Format kFormatD, class Epilogue>
__device__ inline void compare(const Shape& shape, const Tile* tiles, const double* sums,
                               const float* magnitudes, const void* d, const Limits& limits,
                               const ExtraKeys& keys, CompareResult* result) {
  const Tile tile = tiles[blockIdx.x];
  const i64 base = static_cast<i64>(blockIdx.x) * kTile * kTile;
  double largest = 0;
  u64 wrong = 0, first = ~0ull;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += kThreads) {
    const i64 m = tile.m + i / kTile, n = tile.n + i % kTile;
    if (m >= shape.m || n >= shape.n) continue;
    const double sum = sums[base + i];
    const Bounded acc{sum, limits.accumulation * static_cast<double>(magnitudes[base + i]) +
                               limits.conversion * magnitude(sum)};
    const Bounded wanted =
        stored(Epilogue::apply(acc, shape, tile.batch, m, n, keys, limits.accuracy), kFormatD,
               limits.half_ulps);
    const double got = decode(
        kFormatD, load_code(d, tile.batch * shape.d_batch + m * shape.d_m + n, bytes_of(kFormatD)));
    const double ratio = error_ratio(got, wanted, kFormatD);
    if (ratio > largest) largest = ratio;
    if (ratio <= 1) continue;
    ++wrong;
    const u64 index = static_cast<u64>((tile.batch * shape.m + m) * shape.n + n);
    if (index < first) first = index;
  }
  if (largest > 0) atomicMax(&result->largest_ratio, bits_of(largest));
  if (wrong > 0) {
    atomicAdd(&result->wrong, wrong);
    atomicMin(&result->first, first);
  }
}

// --- Surroundings --------------------------------------------------------------------------------

__device__ inline void note(u64* count, u64* first, u64 index) {
  atomicAdd(count, 1ull);
  atomicMin(first, index);
}

/// Looks at every element slot from `guard` slots before D's element 0 to `guard` behind its last.
/// `first_*` count slots from the beginning of the first guard. `saved`, if given, is D's span as
/// an earlier run left it.
template <Format kFormatD>
__device__ inline void surface(const void* d, const void* saved, Span span, i64 elements, i64 guard,
                               u64 poison, SurfaceResult* result) {
  constexpr int kWidth = bytes_of(kFormatD);
  // Batch entries usually follow each other; they may also lie side by side within a row.
  const bool beside = span.batches > 1 && span.batch_stride < span.line_stride;
  for (i64 slot = thread_index(); slot < elements + 2 * guard; slot += thread_count()) {
    const i64 at = slot - guard;
    bool inside = at >= 0 && at < elements;
    if (inside) {
      const i64 outer = beside || span.batches == 1 ? span.line_stride : span.batch_stride;
      const i64 inner = beside ? span.batch_stride : span.line_stride;
      const i64 outer_at = at / outer, rest = at % outer;
      const i64 batch = span.batches == 1 ? 0 : beside ? rest / inner : outer_at;
      const i64 line = span.batches == 1 || beside ? outer_at : rest / inner;
      const i64 column = span.batches == 1 ? rest : rest % inner;
      inside = batch < span.batches && line < span.lines && column < span.length;
    }
    const u64 code = load_code(d, at, kWidth);
    const u64 index = static_cast<u64>(slot);
    if (!inside) {
      if (code != poison) note(&result->damaged, &result->first_damaged, index);
      continue;
    }
    if (saved != nullptr && load_code(saved, at, kWidth) != code)
      note(&result->differs, &result->first_differs, index);
    if (is_integer(kFormatD)) continue;  // any value may be a result
    const double value = decode(kFormatD, code);
    if (code == poison) {
      note(&result->unwritten, &result->first_unwritten, index);
    } else if (value != value) {
      note(&result->nan, &result->first_nan, index);
    }
  }
}

}  // namespace culet::verify
