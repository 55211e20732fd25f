// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Seam 1 of 3: which piece of work comes next. A persistent block walks the pieces index, index +
// workers, ...; every piece is an output tile (of a cluster) and a range of k. Everything here is a
// run-time value, so sizes, raster, grouping and split count never cost a compilation.
#pragma once
#include "base.cuh"

namespace culet::kernels {

/// The grid of pieces. Tiles are those of a whole cluster.
struct TileGrid {
  i32 tiles_m = 1;
  i32 tiles_n = 1;
  i32 batch = 1;
  i32 splits = 1;
  i32 k_tiles = 1;
  /// Tiles are walked in bands of `group` of them along one dimension, that dimension fastest, so
  /// that the tiles in flight share operands in L2.
  i32 group = 1;
  bool along_n = false;  ///< bands along n; else along m

  CULET_HD constexpr u32 tiles() const {
    return static_cast<u32>(tiles_m) * static_cast<u32>(tiles_n) * static_cast<u32>(batch);
  }
  CULET_HD constexpr u32 pieces() const { return tiles() * static_cast<u32>(splits); }
};

struct Piece {
  i32 tile_m = 0;  ///< in tiles
  i32 tile_n = 0;
  i32 batch = 0;
  i32 split = 0;
  i32 k_begin = 0;  ///< in tiles of k
  i32 k_count = 0;
  u32 tile = 0;  ///< number of the output tile over all batches
  /// For grids of groups of rows: the row that tile_m counts from, and the first that is not the
  /// group's.
  i32 first_row = 0;
  i32 rows_end = 0x7FFFFFFF;
};

/// Piece `index` of 0 .. pieces()-1. Splits are slowest, so that the parts of one tile run at the
/// same time on different multiprocessors. With splits <= k_tiles every piece has some k.
CULET_HD constexpr Piece piece_at(const TileGrid& grid, u32 index) {
  Piece piece;
  const u32 tiles = grid.tiles();
  const u32 per_batch = static_cast<u32>(grid.tiles_m) * static_cast<u32>(grid.tiles_n);
  u32 rest = index;
  if (grid.splits > 1) {
    piece.split = static_cast<i32>(index / tiles);
    rest = index % tiles;
  }
  piece.tile = rest;
  if (grid.batch > 1) {
    piece.batch = static_cast<i32>(rest / per_batch);
    rest = rest % per_batch;
  }
  const u32 inner = static_cast<u32>(grid.along_n ? grid.tiles_n : grid.tiles_m);
  const u32 outer = static_cast<u32>(grid.along_n ? grid.tiles_m : grid.tiles_n);
  const u32 group = static_cast<u32>(grid.group);
  // Divisions only where needed: the first load of a launch waits for them.
  const u32 band = group < inner ? rest / (group * outer) : 0;
  const u32 first = band * group;
  const u32 height = smaller(group, inner - first);
  const u32 within = rest - band * group * outer;
  const u32 slow = within / height;
  const i32 fast = static_cast<i32>(first + within - slow * height);
  piece.tile_m = grid.along_n ? static_cast<i32>(slow) : fast;
  piece.tile_n = grid.along_n ? fast : static_cast<i32>(slow);
  piece.k_count = grid.k_tiles;
  if (grid.splits > 1) {
    // The first k_tiles % splits parts have one tile more. In 32 bits: a 64-bit division would cost
    // the producer more registers than it has.
    const i32 each = grid.k_tiles / grid.splits;
    const i32 longer = grid.k_tiles - each * grid.splits;
    piece.k_begin = each * piece.split + smaller(piece.split, longer);
    piece.k_count = each + (piece.split < longer ? 1 : 0);
  }
  return piece;
}

/// The first line of a tile that would start at `wanted`. At the edge it starts earlier, so that
/// all of it is within `lines`: a line outside of an operand takes the copy engine three times as
/// long as one inside (H200, 2026-11-30). What is then computed twice has to come out the
/// same, whichever place in a tile it has. Lines that are contiguous stay where they are, for they
/// would straddle.
template <bool Across>
CULET_HD constexpr i32 first_line(i32 wanted, i32 lines, int tile) {
  return Across ? wanted : smaller(wanted, larger(lines - tile, 0));
}

}  // namespace culet::kernels
