// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Where the general tensor-core kernel keeps elements: a tile in shared memory, the pieces of it
// that a thread loads, the rows a lane points ldmatrix at, and the elements of D in a warp's
// accumulators. Pure index maths, which host tests check.
#pragma once
#include "swizzle.cuh"

namespace culet::kernels {

/// A tile of `Lines` lines (rows of A, or columns of B) times `TileK` of an operand with elements
/// of `Size` bytes. It stands as rows of at most 128 bytes along the dimension that is contiguous
/// in memory, swizzled so that eight rows at one place touch all banks: `KFast` rows are lines;
/// else a row is one k of a panel of 16, 32 or 64 lines, and panels follow each other.
template <bool KFast, int Lines, int TileK, int Size>
struct MmaTile {
  static constexpr bool kKFast = KFast;
  static constexpr int kLines = Lines;
  static constexpr int kTileK = TileK;
  static constexpr int kSize = Size;
  static constexpr int kPanel = Lines % 64 == 0 ? 64 : Lines % 32 == 0 ? 32 : 16;
  static constexpr int kSpan = (KFast ? TileK : kPanel) * Size;
  static constexpr int kRows = KFast ? Lines : Lines / kPanel * TileK;
  static constexpr u32 kBytes = Lines * TileK * Size;
  static_assert(KFast || Size == 2, "ldmatrix transposes 16-bit elements only");
  static_assert(Lines % 16 == 0 && TileK % 16 == 0);

  static CULET_HD constexpr u32 offset(int row, int byte) {
    return swizzle<kSpan>(static_cast<u32>(row * kSpan + byte));
  }
  static CULET_HD constexpr u32 element(int line, int k) {
    return KFast ? offset(line, k * Size) : offset(line / kPanel * TileK + k, line % kPanel * Size);
  }
};

/// Pieces of `Bytes` of a tile, dealt out to `Threads` threads: all of a thread's pieces stand at
/// the same place of their rows, `kRowStep` rows apart.
template <class Tile, int Bytes, int Threads>
struct MmaPieces {
  static constexpr int kPerRow = Tile::kSpan / Bytes;
  static constexpr int kRowStep = Threads / kPerRow;
  static constexpr int kCount = ceil_div(Tile::kRows, kRowStep);  ///< of a thread
  static constexpr bool kExact = Tile::kRows % kRowStep == 0;
  static_assert(Threads % kPerRow == 0 && (Threads * Bytes & (Threads * Bytes - 1)) == 0);
  static_assert(Tile::kKFast || Tile::kTileK % kRowStep == 0 || kRowStep % Tile::kTileK == 0);

  static CULET_HD constexpr int byte(int thread) { return thread % kPerRow * Bytes; }
  static CULET_HD constexpr int row(int thread, int piece) {
    return thread / kPerRow + piece * kRowStep;
  }
  /// Of a tile whose rows are single k: the panel and k of a row. Written so that all that depends
  /// on the piece is known at compile time.
  static CULET_HD constexpr int panel(int thread, int piece) {
    return thread / kPerRow / Tile::kTileK + piece * kRowStep / Tile::kTileK;
  }
  static CULET_HD constexpr int k(int thread, int piece) {
    return thread / kPerRow % Tile::kTileK + piece * kRowStep % Tile::kTileK;
  }
  /// Bytes of memory from piece i to the next one, when rows of memory are `ld` bytes apart.
  static CULET_HD constexpr i64 step(int i, i64 ld) {
    if (Tile::kKFast) return kRowStep * ld;
    const int now = i * kRowStep, next = now + kRowStep;
    return (next % Tile::kTileK - now % Tile::kTileK) * ld +
           (next / Tile::kTileK - now / Tile::kTileK) * Tile::kPanel * Tile::kSize;
  }
  /// Where a piece stands. Swizzling is linear in exclusive or, so that pieces differ by a
  /// constant.
  static CULET_HD constexpr u32 offset(int thread, int piece) {
    return Tile::offset(row(thread, 0), byte(thread)) ^ Tile::offset(piece * kRowStep, 0);
  }
};

/// Units of 4 lines times 4 k of a tile of bytes that is contiguous along lines in memory and along
/// k in shared memory. Eight neighbouring threads take 32 of k, so that neither side's accesses
/// meet in one bank.
template <class Tile, int Threads>
struct MmaUnits {
  static constexpr int kLineGroups = Tile::kLines / 4;
  static constexpr int kUnits = kLineGroups * (Tile::kTileK / 4);
  static constexpr int kCount = ceil_div(kUnits, Threads);  ///< of a thread
  static constexpr bool kExact = kUnits % Threads == 0;
  static_assert(Tile::kTileK % 32 == 0 && Tile::kSize == 1);

  static CULET_HD constexpr int unit(int thread, int i) { return thread + i * Threads; }
  static CULET_HD constexpr int line(int unit) { return unit / 8 % kLineGroups * 4; }
  static CULET_HD constexpr int k(int unit) { return unit / 8 / kLineGroups * 32 + unit % 8 * 4; }
};

/// The line and k (in 16-bit steps) whose row of 16 bytes a lane gives to a four-matrix ldmatrix of
/// 16 lines times 32 bytes of k. `Pairs` false: matrices are (lines 0-7, 8-15) of the first 16
/// bytes of k, then of the others, the order of mma's A. `Pairs` true: both halves of k of lines
/// 0-7, then of lines 8-15: two of mma's B, whose registers must be neighbours or be moved there.
template <bool KFast, bool Pairs>
CULET_HD constexpr int matrix_line(int lane) {
  const int half = Pairs ? lane / 16 : lane / 8 % 2;
  return half * 8 + (KFast ? lane % 8 : 0);
}
template <bool KFast, bool Pairs>
CULET_HD constexpr int matrix_k16(int lane) {
  const int half = Pairs ? lane / 8 % 2 : lane / 16;
  return half * 8 + (KFast ? 0 : lane % 8);
}

/// Row and column, within a warp's 16 x 8j part of D, of accumulator register `index`; the same as
/// those of one of WGMMA's four warps.
CULET_HD constexpr int mma_row(int lane, int index) { return fragment_row(lane, index); }
CULET_HD constexpr int mma_column(int lane, int index) { return fragment_column(lane, index); }

}  // namespace culet::kernels
