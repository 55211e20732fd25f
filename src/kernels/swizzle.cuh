// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Where elements stand: in shared memory as the copy engine lays them out, in the descriptors that
// WGMMA reads them by, and in the registers that WGMMA leaves its result in. Pure index maths,
// which host tests check against straightforward definitions.
#pragma once
#include "layout.cuh"

namespace culet::kernels {

/// Byte offset of `offset` under the copy engine's swizzle of `Span` = 32, 64 or 128 bytes (PTX
/// ISA, "Swizzling modes"): 16-byte chunks are exchanged within a row by the row's number. The tile
/// must start on a multiple of 8 * Span bytes.
template <int Span>
CULET_HD constexpr u32 swizzle(u32 offset) {
  static_assert(Span == 32 || Span == 64 || Span == 128, "a span the copy engine has");
  return Swizzle{Span == 32 ? 1 : Span == 64 ? 2 : 3, 4, 3}(offset);
}

/// Rows of 128 bytes, swizzled by 128: eight rows make an atom of this many bytes.
constexpr u32 kAtomBytes = 1024;

/// WGMMA's 64-bit descriptor (PTX ISA, "Matrix-descriptor format") of an operand that is contiguous
/// in k, one 128-byte row of k to a row of the matrix, swizzled by 128: start address, stride
/// between atoms of eight rows, swizzle mode 1. The leading offset is not used in this layout.
CULET_HD constexpr u64 k_major_descriptor(u32 shared_address) {
  return static_cast<u64>((shared_address & 0x3FFFF) >> 4) | (u64{1} << 16) |
         (static_cast<u64>(kAtomBytes >> 4) << 32) | (u64{1} << 62);
}
/// The same operand further along: `bytes` (a multiple of 16) from its start address.
CULET_HD constexpr u64 descriptor_at(u64 descriptor, u32 bytes) {
  return descriptor + (bytes >> 4);
}

/// Row and column, within a 64 x N result, of accumulator register `index` of a thread of the
/// warpgroup, as layouts of (thread, register) (PTX ISA, "Register fragments for
/// wgmma.mma_async.m64nNk16", matrix D).
CULET_HD constexpr int fragment_row(int thread, int index) {
  constexpr Layout kRow =
      modes(modes(leaf(4, 0), leaf(8, 1), leaf(4, 16)), modes(leaf(2, 0), leaf(2, 8), leaf(64, 0)));
  return offset_of<kRow>(thread, index);
}
CULET_HD constexpr int fragment_column(int thread, int index) {
  constexpr Layout kColumn =
      modes(modes(leaf(4, 2), leaf(8, 0), leaf(4, 0)), modes(leaf(2, 1), leaf(2, 0), leaf(64, 8)));
  return offset_of<kColumn>(thread, index);
}

/// The row and the 8-column group whose address a lane gives to a four-matrix `stmatrix` that
/// stores registers 8j .. 8j+7 of a fragment: matrices are (rows 0-7, 8-15) of columns 0-7, then of
/// 8-15.
CULET_HD constexpr int stmatrix_row(int lane) { return lane % 16; }
CULET_HD constexpr int stmatrix_column(int lane) { return (lane / 16) * 8; }

/// The same for a transposing `stmatrix`: a line holds one column of the fragment, and what a lane
/// addresses are eight of its rows. Matrices are (rows 0-7, 8-15) of columns 0-7, then of 8-15.
CULET_HD constexpr int turned_line(int lane) { return (lane / 16) * 8 + lane % 8; }
CULET_HD constexpr int turned_column(int lane) { return (lane / 8 % 2) * 8; }

/// First column of slab `slab` when a tile of `tile_n` columns leaves in slabs of `slab_n`. All
/// have one width, the box of D's map; the last one may repeat columns of the one before, with the
/// same values: better than slabs so narrow that they divide any tile.
CULET_HD constexpr int slab_begin(int slab, int tile_n, int slab_n) {
  return smaller(slab * slab_n, tile_n - slab_n);
}

}  // namespace culet::kernels
