// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The index maths of device code, on the host: swizzles, descriptors, fragments, the ring,
// schedules.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "kernels/pipeline_position.cuh"
#include "kernels/scheduler.cuh"
#include "kernels/swizzle.cuh"

namespace culet::kernels {
namespace {

// The copy engine's swizzles as its manual draws them: the number of a 16-byte chunk within 128
// bytes is xor-ed with the number of the 128-byte line (modulo 8, 4, 2 for spans of 128, 64, 32
// bytes).
template <int Span>
void check_swizzle() {
  std::set<u32> seen;
  for (u32 offset = 0; offset < 8192; offset += 2) {
    const u32 line = offset / 128, chunk = offset % 128 / 16, byte = offset % 16;
    const u32 expected = line * 128 + (chunk ^ (line % (Span / 16))) * 16 + byte;
    EXPECT_EQ(swizzle<Span>(offset), expected) << "span " << Span << " offset " << offset;
    EXPECT_TRUE(seen.insert(swizzle<Span>(offset)).second);
  }
}

TEST(Swizzle, IsTheCopyEnginesPattern) {
  check_swizzle<32>();
  check_swizzle<64>();
  check_swizzle<128>();
}

TEST(Swizzle, SpreadsStmatrixRowsOverTheBanks) {
  // Eight rows of 128 bytes written at one column must touch eight different 16-byte bank groups.
  std::set<u32> groups;
  for (u32 row = 0; row < 8; ++row) groups.insert(swizzle<128>(row * 128 + 32) % 128 / 16);
  EXPECT_EQ(groups.size(), 8U);
}

TEST(Descriptor, HasItsFieldsInPlace) {
  const u64 d = k_major_descriptor(0x12340);
  EXPECT_EQ(d & 0x3FFF, 0x1234U);             // start address / 16
  EXPECT_EQ((d >> 32) & 0x3FFF, 1024U / 16);  // between groups of eight rows
  EXPECT_EQ(d >> 62, 1U);                     // 128-byte swizzle
  EXPECT_EQ((d >> 49) & 7, 0U);               // atoms are aligned: no base offset
  EXPECT_EQ(descriptor_at(d, 32) & 0x3FFF, 0x1234U + 2);
}

TEST(Fragment, HoldsEveryElementOnce) {
  for (const int n : {8, 16, 96, 256}) {
    std::set<std::pair<int, int>> seen;
    for (int thread = 0; thread < 128; ++thread) {
      for (int index = 0; index < n / 2; ++index) {
        const int row = fragment_row(thread, index), column = fragment_column(thread, index);
        EXPECT_TRUE(row >= 0 && row < 64 && column >= 0 && column < n);
        EXPECT_TRUE(seen.emplace(row, column).second);
      }
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(64 * n));
  }
}

// stmatrix stores matrix i of four as: lane l holds elements (row l/4, columns 2(l%4), +1), and
// lanes 8i .. 8i+7 give the addresses of its rows.
TEST(Fragment, GoesWhereStmatrixPutsIt) {
  for (int thread = 0; thread < 128; ++thread) {
    const int warp = thread / 32, lane = thread % 32;
    for (int matrix = 0; matrix < 4; ++matrix) {
      const int addressing = 8 * matrix + lane / 4;  // the lane that addresses this lane's row
      const int row = warp * 16 + stmatrix_row(addressing);
      const int column = stmatrix_column(addressing) + 2 * (lane % 4);
      EXPECT_EQ(row, fragment_row(thread, 2 * matrix));
      EXPECT_EQ(column, fragment_column(thread, 2 * matrix));
    }
  }
}

TEST(Slabs, CoverATileAndStayInside) {
  for (int tile_n = 16; tile_n <= 256; tile_n += 8) {
    for (const int widest : {64, 32}) {  // of 2 and of 4 bytes
      const int slab_n = tile_n >= widest ? widest : tile_n >= 32 ? 32 : 16;
      std::set<int> covered;
      for (int slab = 0; slab < ceil_div(tile_n, slab_n); ++slab) {
        const int begin = slab_begin(slab, tile_n, slab_n);
        // A slab begins with a whole group of eight columns, four registers.
        EXPECT_EQ(begin % 8, 0);
        EXPECT_EQ(fragment_column(0, begin / 2), begin);
        EXPECT_GE(begin, 0);
        EXPECT_LE(begin + slab_n, tile_n);
        for (int column = begin; column < begin + slab_n; ++column) covered.insert(column);
      }
      EXPECT_EQ(covered.size(), static_cast<std::size_t>(tile_n));
    }
  }
}

TEST(Ring, SkipIsManyAdvances) {
  for (u32 start = 0; start < 10; ++start) {
    for (u32 count = 0; count < 40; ++count) {
      RingPosition<5> walked, skipped;
      for (u32 i = 0; i < start; ++i) walked.advance();
      skipped.skip(start);
      EXPECT_EQ(walked.stage, skipped.stage);
      for (u32 i = 0; i < count; ++i) walked.advance();
      skipped.skip(count);
      EXPECT_EQ(walked.stage, skipped.stage);
      EXPECT_EQ(walked.parity, skipped.parity);
    }
  }
}

TEST(Scheduler, CoversEveryTileAndEveryKOnce) {
  for (const i32 tiles_m : {1, 2, 3, 7, 17}) {
    for (const i32 tiles_n : {1, 2, 5, 16, 33}) {
      for (const i32 batch : {1, 3}) {
        for (const i32 splits : {1, 2, 5}) {
          for (const i32 group : {1, 3, 8, 64}) {
            for (const bool along_n : {false, true}) {
              const i32 k_tiles = 13;
              const TileGrid grid{tiles_m, tiles_n, batch, splits, k_tiles, group, along_n};
              std::map<std::tuple<i32, i32, i32>, std::set<i32>> ks;
              std::map<u32, std::tuple<i32, i32, i32>> numbers;
              ASSERT_EQ(grid.pieces(), static_cast<u32>(tiles_m * tiles_n * batch * splits));
              for (u32 index = 0; index < grid.pieces(); ++index) {
                const Piece piece = piece_at(grid, index);
                ASSERT_TRUE(piece.tile_m >= 0 && piece.tile_m < tiles_m && piece.tile_n >= 0 &&
                            piece.tile_n < tiles_n && piece.batch >= 0 && piece.batch < batch);
                ASSERT_GT(piece.k_count, 0);
                const std::tuple tile{piece.tile_m, piece.tile_n, piece.batch};
                // The number names the tile, whatever the split.
                ASSERT_LT(piece.tile, grid.tiles());
                ASSERT_EQ(numbers.emplace(piece.tile, tile).first->second, tile);
                for (i32 k = piece.k_begin; k < piece.k_begin + piece.k_count; ++k) {
                  ASSERT_TRUE(k >= 0 && k < k_tiles);
                  ASSERT_TRUE(ks[tile].insert(k).second);
                }
              }
              ASSERT_EQ(ks.size(), static_cast<std::size_t>(tiles_m * tiles_n * batch));
              for (const auto& [tile, all] : ks) {
                ASSERT_EQ(all.size(), static_cast<std::size_t>(k_tiles));
              }
            }
          }
        }
      }
    }
  }
}

TEST(Scheduler, TilesAtTheEdgeLieWithinTheOperand) {
  for (const int tile : {16, 64, 104, 192}) {
    for (i32 lines = 1; lines < 700; ++lines) {
      std::vector<int> computed(static_cast<std::size_t>(lines), 0);
      // One tile more than are needed, as the last cluster may have.
      for (i32 wanted = 0; wanted < lines + tile; wanted += tile) {
        const i32 first = first_line<false>(wanted, lines, tile);
        ASSERT_GE(first, 0);
        if (wanted + tile <= lines) {
          ASSERT_EQ(first, wanted) << "tiles inside stay where they are";
        }
        if (lines >= tile) {
          ASSERT_LE(first + tile, lines) << wanted << " of " << lines;
        }
        for (i32 line = first; line < std::min(first + tile, lines); ++line) {
          ++computed[static_cast<std::size_t>(line)];
        }
        // Bounds of whole eights, which D's columns have: so do the tiles.
        ASSERT_EQ(first_line<false>(wanted, (lines + 7) / 8 * 8, tile) % 8, 0);
        ASSERT_EQ(first_line<true>(wanted, lines, tile), wanted);
      }
      ASSERT_EQ(std::count(computed.begin(), computed.end(), 0), 0) << lines << " by " << tile;
    }
  }
  EXPECT_EQ(first_line<false>(640, 0x7FFFFFFF, 64), 640) << "no bound";
}

TEST(Scheduler, BandsShareOperands) {
  // Eight tiles in flight in bands of four along m: four rows and two columns of tiles, not eight.
  const TileGrid grid{16, 16, 1, 1, 4, 4, false};
  std::set<i32> rows, columns;
  for (u32 index = 0; index < 8; ++index) {
    const Piece piece = piece_at(grid, index);
    rows.insert(piece.tile_m);
    columns.insert(piece.tile_n);
  }
  EXPECT_EQ(rows.size(), 4U);
  EXPECT_EQ(columns.size(), 2U);
}

TEST(Scheduler, PartsOfKDifferByAtMostOne) {
  const TileGrid grid{1, 1, 1, 5, 13, 8, false};
  for (u32 index = 0; index < 5; ++index) {
    const i32 count = piece_at(grid, index).k_count;
    EXPECT_TRUE(count == 2 || count == 3);
  }
}

}  // namespace
}  // namespace culet::kernels
