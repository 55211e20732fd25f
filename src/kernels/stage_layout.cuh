// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// How the tile of an operand stands in a stage of shared memory, for an operand that is contiguous
// in k and for one that is contiguous along its lines (A's rows: m; B's columns: n). A stage is 128
// bytes of k. Pure index maths, which host tests check.
//
// Contiguous in k: a line of the tile is 128 bytes, lines follow each other, one box of the copy
// engine loads all.
//
// Contiguous along lines (16-bit elements only, WGMMA's rule): chunks of `span` bytes of lines;
// within a chunk one k follows the other, 64 of them. The copy engine loads a box a chunk.
#pragma once
#include "swizzle.cuh"

namespace culet::kernels {

/// Bytes of k in a stage, and of a line in it.
constexpr int kStageBytesOfK = 128;

/// WGMMA's descriptor of an operand contiguous along its lines: `Span` bytes of lines for one k,
/// swizzled by as much, k after k. Leading offset: to the next chunk of lines; stride: between
/// groups of eight k (PTX ISA, "Strides", MN-major with a swizzle).
template <int Span>
CULET_HD constexpr u64 across_descriptor(u32 shared_address, u32 chunk_bytes) {
  static_assert(Span == 128 || Span == 64, "spans in use");
  return static_cast<u64>((shared_address & 0x3FFFF) >> 4) |
         (static_cast<u64>(chunk_bytes >> 4) << 16) | (static_cast<u64>(8 * Span >> 4) << 32) |
         (u64{Span == 128 ? 1 : 2} << 62);
}

/// The tile of one operand: `Lines` rows of A or columns of B; `Across`: contiguous along them;
/// `Sharers`: blocks of a cluster that each load a part and send it to all.
template <DType Type, int Lines, bool Across, int Sharers>
struct StageLayout {
  static constexpr int kElement = size_of(Type);
  static constexpr int kK = kStageBytesOfK / kElement;  ///< of a stage
  static constexpr u32 kBytes = Lines * kStageBytesOfK;
  /// Chunks as wide as the tile allows.
  static constexpr int kSpan = Lines % 64 == 0 ? 128 : 64;
  static constexpr int kChunkLines = Across ? kSpan / kElement : Lines;
  static constexpr int kChunks = Lines / kChunkLines;
  static constexpr u32 kChunkBytes = kChunkLines * kStageBytesOfK;
  /// A sharer loads some of the lines, whole atoms of eight, or, where lines are across, some of
  /// the k of every chunk. Where atoms do not divide evenly, shares overlap: what two sharers write
  /// to the same place is the same.
  static constexpr int kShareLines = Across ? kChunkLines : ceil_div(Lines / 8, Sharers) * 8;
  static constexpr int kShareK = Across ? kK / Sharers : kK;
  CULET_HD static constexpr int share_line(int rank) {
    if constexpr (Across || Sharers == 1) return 0;
    if constexpr (Lines % (8 * Sharers) == 0) return rank * kShareLines;
    return smaller(rank * kShareLines, Lines - kShareLines);
  }
  CULET_HD static constexpr int share_k(int rank) { return Across ? rank * kShareK : 0; }
  CULET_HD static constexpr u32 share_bytes(int rank) {
    return Across ? static_cast<u32>(rank) * (kChunkBytes / Sharers)
                  : static_cast<u32>(share_line(rank)) * kStageBytesOfK;
  }
  /// To the operand of the next instruction, 32 bytes of k on, and to the next 64 lines.
  static constexpr u32 kStepBytes = Across ? 32 / kElement * kSpan : 32;
  static constexpr u32 kBlockBytes = 64 * kStageBytesOfK;

  static_assert(!Across || (kElement == 2 && Lines % 32 == 0 && kK / Sharers % 8 == 0));
  static_assert(Across || (Lines % 8 == 0 && Lines >= 8 * Sharers));

  CULET_HD static constexpr u64 descriptor(u32 shared_address) {
    if constexpr (Across) {
      return across_descriptor<kSpan>(shared_address, kChunkBytes);
    } else {
      return k_major_descriptor(shared_address);
    }
  }
  /// Where element (line, k) of the tile stands, bytes from the tile's start, swizzle included.
  CULET_HD static constexpr u32 offset(int line, int k) {
    if constexpr (Across) {
      const int chunk = line / kChunkLines, within = line % kChunkLines;
      return chunk * kChunkBytes + swizzle<kSpan>(static_cast<u32>(k * kSpan + within * kElement));
    } else {
      return swizzle<128>(static_cast<u32>(line * kStageBytesOfK + k * kElement));
    }
  }
};

}  // namespace culet::kernels
