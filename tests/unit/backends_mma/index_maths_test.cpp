// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The index maths of the general tensor-core kernel, on the host: tiles in shared memory, the
// pieces threads load, what ldmatrix and mma make of them, and that no access meets another in its
// bank.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/mma_layout.cuh"
#include "kernels/split_groups.h"

namespace culet::kernels {
namespace {

/// Wavefronts that accesses of `bytes` at some addresses need: lanes are served in phases of 128
/// bytes, and those of one phase must not ask one bank for different words.
int wavefronts(const std::vector<u32>& addresses, int bytes) {
  int total = 0;
  const std::size_t lanes = static_cast<std::size_t>(128 / bytes);
  for (std::size_t first = 0; first < addresses.size(); first += lanes) {
    std::map<u32, std::set<u32>> words;  // of a bank
    for (std::size_t i = first; i < std::min(first + lanes, addresses.size()); ++i) {
      for (u32 word = addresses[i] / 4; word < (addresses[i] + static_cast<u32>(bytes) + 3) / 4;
           ++word) {
        words[word % 32].insert(word);
      }
    }
    std::size_t most = 0;
    for (const auto& [bank, all] : words) most = std::max(most, all.size());
    total += static_cast<int>(most);
  }
  return total;
}

/// Every element has a place of its own, and ldmatrix reads without conflicts, giving each lane
/// what mma expects of it.
template <bool KFast, int Lines, int TileK, int Size, bool Pairs>
void check_fragments() {
  using Tile = MmaTile<KFast, Lines, TileK, Size>;
  SCOPED_TRACE(testing::Message() << "k fast " << KFast << " lines " << Lines << " k " << TileK
                                  << " bytes " << Size);
  std::map<u32, std::pair<int, int>> at;  // byte offset -> (line, k)
  for (int line = 0; line < Lines; ++line) {
    for (int k = 0; k < TileK; ++k) {
      const u32 offset = Tile::element(line, k);
      ASSERT_LT(offset, Tile::kBytes);
      ASSERT_TRUE(at.emplace(offset, std::pair{line, k}).second);
    }
  }
  for (int first = 0; first < Lines; first += 16) {
    for (int step = 0; step < TileK * Size / 32; ++step) {
      std::vector<u32> rows;
      for (int lane = 0; lane < 32; ++lane) {
        const int line = first + matrix_line<KFast, Pairs>(lane);
        const int k = matrix_k16<KFast, Pairs>(lane) * 2 / Size;
        // As FragmentReader computes it.
        rows.push_back(KFast ? (Tile::element(line, k) ^ static_cast<u32>(32 * step))
                             : Tile::element(line, k) + static_cast<u32>(16 * Tile::kSpan * step));
      }
      ASSERT_EQ(wavefronts(rows, 16), 4);
      for (int lane = 0; lane < 32; ++lane) {
        for (int matrix = 0; matrix < 4; ++matrix) {
          const int line = first + lane / 4 + (Pairs ? matrix / 2 : matrix % 2) * 8;
          for (int byte = 0; byte < 4; byte += Size) {
            // k of the mma's fragment, in bytes: 4 of each lane, then 16 further.
            const int k_half = Pairs ? matrix % 2 : matrix / 2;
            const int k = (32 * step + 16 * k_half + 4 * (lane % 4) + byte) / Size;
            u32 offset = 0;
            if (KFast) {  // row lane / 4 of the matrix, its bytes 4 (lane % 4) ...
              offset = rows[static_cast<std::size_t>(8 * matrix + lane / 4)] +
                       static_cast<u32>(4 * (lane % 4) + byte);
            } else {  // transposed: element lane / 4 of the rows 2 (lane % 4) and the next
              offset = rows[static_cast<std::size_t>(8 * matrix + 2 * (lane % 4) + byte / 2)] +
                       static_cast<u32>(lane / 4 * 2);
            }
            ASSERT_EQ(at.at(offset), std::pair(line, k)) << "lane " << lane << " byte " << byte;
          }
        }
      }
    }
  }
}

template <bool KFast, int Lines, int TileK, int Size>
void check_tile() {
  check_fragments<KFast, Lines, TileK, Size, false>();
  check_fragments<KFast, Lines, TileK, Size, true>();
}

TEST(MmaTile, GivesMmaItsFragmentsWithoutConflicts) {
  check_tile<true, 16, 32, 2>();
  check_tile<true, 96, 32, 2>();
  check_tile<true, 128, 64, 2>();
  check_tile<true, 64, 64, 1>();
  check_tile<true, 32, 128, 1>();
  check_tile<false, 16, 32, 2>();
  check_tile<false, 32, 64, 2>();
  check_tile<false, 64, 32, 2>();
  check_tile<false, 96, 32, 2>();
  check_tile<false, 192, 64, 2>();
  check_tile<false, 256, 32, 2>();
}

/// The fragments of a warp's part of a panel differ by exclusive or, as FragmentReader has it.
template <int Lines, int Count>
void check_neighbours() {
  using Tile = MmaTile<false, Lines, 32, 2>;
  static_assert(16 * Count <= Tile::kPanel);
  for (int first = 0; first < Lines; first += 16 * Count) {
    for (int lane = 0; lane < 32; ++lane) {
      const int line = first + matrix_line<false, true>(lane);
      const int k = matrix_k16<false, true>(lane);
      for (int i = 0; i < Count; ++i) {
        ASSERT_EQ(Tile::element(line + 16 * i, k),
                  Tile::element(line, k) ^ static_cast<u32>(32 * i));
      }
    }
  }
}

TEST(MmaTile, FragmentsOfAPanelDifferInBitsOnly) {
  check_neighbours<64, 4>();
  check_neighbours<128, 2>();
  check_neighbours<96, 2>();
  check_neighbours<16, 1>();
}

/// All pieces together are the tile, each at the place its elements belong, and stores of them have
/// no conflicts.
template <class Tile, int Bytes, int Threads>
void check_pieces() {
  using Pieces = MmaPieces<Tile, Bytes, Threads>;
  SCOPED_TRACE(testing::Message() << "k fast " << Tile::kKFast << " lines " << Tile::kLines << " k "
                                  << Tile::kTileK << " pieces of " << Bytes << " threads "
                                  << Threads);
  std::set<u32> covered;
  for (int piece = 0; piece < Pieces::kCount; ++piece) {
    for (int warp = 0; warp < Threads / 32; ++warp) {
      std::vector<u32> addresses;
      for (int lane = 0; lane < 32; ++lane) {
        const int thread = 32 * warp + lane;
        const int row = Pieces::row(thread, piece);
        if (row >= Tile::kRows) continue;
        const u32 offset = Pieces::offset(thread, piece);
        addresses.push_back(offset);
        for (int byte = 0; byte < Bytes; byte += Tile::kSize) {
          const int along = (Pieces::byte(thread) + byte) / Tile::kSize;
          const int line = Tile::kKFast ? row : Pieces::panel(thread, piece) * Tile::kPanel + along;
          const int k = Tile::kKFast ? along : Pieces::k(thread, piece);
          ASSERT_EQ(Tile::element(line, k), offset + static_cast<u32>(byte));
          ASSERT_TRUE(covered.insert(offset + static_cast<u32>(byte)).second);
        }
      }
      const auto lanes = static_cast<int>(addresses.size());
      ASSERT_LE(wavefronts(addresses, Bytes), ceil_div(lanes * Bytes, 128));
    }
  }
  ASSERT_EQ(covered.size(), static_cast<std::size_t>(Tile::kLines * Tile::kTileK));
  // Walking from piece to piece in memory comes to where each piece's elements are.
  constexpr i64 kLd = 100003;
  const auto memory = [](int thread, int piece) {
    return Tile::kKFast ? Pieces::row(thread, piece) * kLd
                        : Pieces::k(thread, piece) * kLd +
                              Pieces::panel(thread, piece) * Tile::kPanel * Tile::kSize;
  };
  for (const int thread : {0, Threads / 2, Threads - 1}) {
    i64 walked = memory(thread, 0);
    for (int piece = 0; piece < Pieces::kCount; ++piece) {
      ASSERT_EQ(walked, memory(thread, piece)) << "piece " << piece;
      walked += Pieces::step(piece, kLd);
    }
  }
}

template <class Tile>
void check_all_pieces() {
  check_pieces<Tile, 16, 128>();
  check_pieces<Tile, 16, 256>();
  check_pieces<Tile, 8, 128>();
  check_pieces<Tile, 4, 128>();
  check_pieces<Tile, 4, 256>();
}

TEST(MmaPieces, CoverTheTileWithoutConflicts) {
  check_all_pieces<MmaTile<true, 16, 32, 2>>();
  check_all_pieces<MmaTile<true, 96, 64, 2>>();
  check_all_pieces<MmaTile<true, 128, 32, 2>>();
  check_all_pieces<MmaTile<true, 64, 128, 1>>();
  check_all_pieces<MmaTile<true, 256, 64, 1>>();
  check_all_pieces<MmaTile<false, 16, 32, 2>>();
  check_all_pieces<MmaTile<false, 96, 64, 2>>();
  check_all_pieces<MmaTile<false, 64, 32, 2>>();
  check_all_pieces<MmaTile<false, 256, 32, 2>>();
  check_all_pieces<MmaTile<false, 192, 64, 2>>();
}

template <class Tile, int Threads>
void check_units() {
  using Units = MmaUnits<Tile, Threads>;
  std::set<std::pair<int, int>> covered;
  for (int i = 0; i < Units::kCount; ++i) {
    for (int warp = 0; warp < Threads / 32; ++warp) {
      for (int j = 0; j < 4; ++j) {
        std::vector<u32> stores;
        for (int lane = 0; lane < 32; ++lane) {
          const int unit = Units::unit(32 * warp + lane, i);
          if (unit >= Units::kUnits) continue;
          const int line = Units::line(unit), k = Units::k(unit);
          ASSERT_TRUE(line % 4 == 0 && k % 4 == 0 && line < Tile::kLines && k < Tile::kTileK);
          if (j == 0) {
            ASSERT_TRUE(covered.emplace(line, k).second);
          }
          stores.push_back(Tile::element(line + j, k));
        }
        EXPECT_LE(wavefronts(stores, 4), 2);
      }
    }
  }
  ASSERT_EQ(covered.size(), static_cast<std::size_t>(Tile::kLines / 4 * (Tile::kTileK / 4)));
}

TEST(MmaUnits, CoverTheTileWithFewConflicts) {
  check_units<MmaTile<true, 16, 64, 1>, 128>();
  check_units<MmaTile<true, 96, 64, 1>, 128>();
  check_units<MmaTile<true, 128, 128, 1>, 256>();
  check_units<MmaTile<true, 256, 64, 1>, 256>();
}

TEST(MmaFragment, HoldsEveryElementOfAWarpsPartOnce) {
  for (const int n : {8, 16, 48, 64}) {
    std::set<std::pair<int, int>> seen;
    for (int lane = 0; lane < 32; ++lane) {
      for (int index = 0; index < n / 2; ++index) {
        // "Matrix Fragments for mma.m16n8k16": rows lane / 4 and 8 further, columns 2 (lane % 4).
        EXPECT_EQ(mma_row(lane, index), lane / 4 + (index % 4 >= 2 ? 8 : 0));
        EXPECT_EQ(mma_column(lane, index), index / 4 * 8 + lane % 4 * 2 + index % 2);
        EXPECT_TRUE(seen.emplace(mma_row(lane, index), mma_column(lane, index)).second);
      }
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(16 * n));
  }
}

TEST(SplitGroups, NobodyAddsMany) {
  for (i32 splits = 2; splits <= 1024; ++splits) {
    const i32 size = split_group(splits), groups = split_counters(splits) - 1;
    ASSERT_GE(size * groups, splits);
    ASSERT_LT(size * (groups - 1), splits);
    // Nobody adds many more parts than the square root of their number.
    ASSERT_LE(size, splits < 8 ? splits : 33) << splits;
    if (splits >= 8) {
      ASSERT_LE(groups, size) << splits;
    }
  }
}

}  // namespace
}  // namespace culet::kernels
