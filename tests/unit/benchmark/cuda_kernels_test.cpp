// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What can be said of the checking kernels without a GPU: which tiles they check, and their source.
#include "benchmark/cuda_kernels.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace culet::benchmark {
namespace {

using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

std::set<Key> keys(const std::vector<verify::Tile>& tiles) {
  std::set<Key> result;
  for (const verify::Tile& tile : tiles) result.insert({tile.batch, tile.m, tile.n});
  EXPECT_EQ(result.size(), tiles.size()) << "a tile is checked twice";
  return result;
}

TEST(Tiles, AllWhereTheyAreFew) {
  const Problem p = *Problem::parse("130x200x64x2:bf16");
  const auto tiles = keys(plan_tiles(p, 24, 1));
  EXPECT_EQ(tiles.size(), 2u * 3 * 4);
  for (const std::int64_t b : {0, 1})
    for (const std::int64_t m : {0, 64, 128})
      for (const std::int64_t n : {0, 64, 128, 192}) EXPECT_TRUE(tiles.count({b, m, n}));
}

TEST(Tiles, EdgesComeFirst) {
  const Problem p = *Problem::parse("6400x6400x64:bf16");
  const auto tiles = keys(plan_tiles(p, 2000, 1));
  EXPECT_LE(tiles.size(), 2000u);
  EXPECT_GT(tiles.size(), 1500u);
  for (std::int64_t i = 0; i < 6400; i += 64) {
    EXPECT_TRUE(tiles.count({0, i, 0}));
    EXPECT_TRUE(tiles.count({0, i, 6336}));
    EXPECT_TRUE(tiles.count({0, 0, i}));
    EXPECT_TRUE(tiles.count({0, 6336, i}));
  }
}

TEST(Tiles, CornersAlways) {
  const Problem p = *Problem::parse("6400x6400x64x3:bf16");
  const auto tiles = keys(plan_tiles(p, 8, 1));
  for (const std::int64_t b : {0, 2})
    for (const std::int64_t m : {0, 6336})
      for (const std::int64_t n : {0, 6336}) EXPECT_TRUE(tiles.count({b, m, n}));
  EXPECT_LT(tiles.size(), 40u);
}

TEST(Tiles, NothingToCheck) {
  EXPECT_TRUE(plan_tiles(*Problem::parse("0x8x8:bf16"), 8, 1).empty());
}

TEST(CheckSource, NamesFormatsAndEpilogue) {
  const std::string text =
      check_source(*Problem::parse("8x8x8:f16*f16>f32:epi=\"relu(acc + bias[n]:f32)\""));
  EXPECT_NE(text.find("reference<Format::f16, Format::f16>"), std::string::npos);
  EXPECT_NE(text.find("compare<Format::f32, Epilogue>"), std::string::npos);
  EXPECT_NE(text.find("random_value(Format::f32, keys.key[0], static_cast<u64>(n))"),
            std::string::npos);
  EXPECT_NE(text.find("relu("), std::string::npos);
  EXPECT_EQ(text.find("#include"), std::string::npos) << "NVRTC gets one text";
}

}  // namespace
}  // namespace culet::benchmark
