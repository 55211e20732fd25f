// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the host passes to the checking kernels of check.cuh and gets back.
#pragma once

#include "running_error.h"

namespace culet::verify {

/// A run of `batches` x `lines` x `length` elements in memory; strides in elements.
struct Span {
  i64 batches, lines, length, batch_stride, line_stride;
};

/// Sizes, and element strides of A[m,k], B[k,n] and D[m,n].
struct Shape {
  i64 m, n, k;
  i64 a_batch, a_m, a_k;
  i64 b_batch, b_k, b_n;
  i64 d_batch, d_m;
  u64 key_a, key_b;
};

inline constexpr int kTile = 64;   ///< edge of the square of D a block computes
inline constexpr int kDepth = 16;  ///< of k at a time
inline constexpr int kThreads = 256;

/// First element of a tile.
struct Tile {
  i64 batch, m, n;
};

/// What Tolerance of the host has.
struct Limits {
  double accumulation, conversion, half_ulps;
  EpilogueAccuracy accuracy;
};

/// `first` starts as all ones.
struct CompareResult {
  u64 largest_ratio;  ///< bits of a double
  u64 wrong;
  u64 first;  ///< smallest index of a wrong element, counting (batch, row, column)
};

/// Streams of the epilogue's operands.
struct ExtraKeys {
  u64 key[32];
};

struct SurfaceResult {
  u64 unwritten, nan, damaged, differs;
  u64 first_unwritten, first_nan, first_damaged, first_differs;  ///< start as all ones
};

}  // namespace culet::verify
