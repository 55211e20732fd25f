// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A cuBLASLt algorithm as a Config: its attributes by name for people, and the opaque description
// the library itself rebuilds it from.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "launch/cublaslt_matmul.h"

namespace culet {

namespace {

using cublaslt::Algorithm;
using cublaslt::ConfigAttribute;
using cublaslt::Library;

/// Tiles by cublasLtMatmulTile_t. The first 35 are listed; the later ones follow two patterns, each
/// leaving out what is already numbered: every r x c with c a multiple of 64 and at most 49152
/// elements, then every r x c with r a multiple of 64 and at most 65536.
std::vector<std::pair<int, int>> make_tiles() {
  std::vector<std::pair<int, int>> tiles = {
      {0, 0},     {8, 8},    {8, 16},   {16, 8},   {8, 32},    {16, 16},   {32, 8},    {8, 64},
      {16, 32},   {32, 16},  {64, 8},   {32, 32},  {32, 64},   {64, 32},   {32, 128},  {64, 64},
      {128, 32},  {64, 128}, {128, 64}, {64, 256}, {128, 128}, {256, 64},  {64, 512},  {128, 256},
      {256, 128}, {512, 64}, {64, 96},  {96, 64},  {96, 128},  {128, 160}, {160, 128}, {192, 128},
      {128, 192}, {128, 96}, {32, 256}, {256, 32}};
  const auto add = [&](int rows, int cols, int limit) {
    const std::pair tile(rows, cols);
    if (rows * cols > limit) return;
    if (std::find(tiles.begin(), tiles.end(), tile) == tiles.end()) tiles.push_back(tile);
  };
  for (int rows = 8; rows <= 768; rows += 8) {
    for (int cols = 64; cols <= 768; cols += 64) add(rows, cols, 49152);
  }
  for (int rows = 64; rows <= 768; rows += 64) {
    for (int cols = 8; cols <= 768; cols += 8) add(rows, cols, 65536);
  }
  for (const auto& tile : {std::pair(256, 512), {256, 1024}, {512, 512}, {512, 1024}}) {
    tiles.push_back(tile);
  }
  return tiles;
}

std::string tile_name(std::uint32_t id) {
  static const auto tiles = make_tiles();
  if (id == 0) return "auto";
  if (id >= tiles.size()) return fmt::format("id{}", id);
  return fmt::format("{}x{}", tiles[id].first, tiles[id].second);
}

/// cublasLtMatmulStages_t: k of a stage x number of stages.
std::string stages_name(std::uint32_t id) {
  if (id == 0) return "auto";
  if (id <= 24) return fmt::format("{}x{}", 16 << ((id - 1) / 6), (id - 1) % 6 + 1);
  constexpr std::pair<std::uint32_t, const char*> kOthers[] = {
      {25, "32x10"},   {26, "8x4"},      {27, "16x10"},    {28, "8x5"},
      {31, "8x3"},     {32, "8xauto"},   {33, "16xauto"},  {34, "32xauto"},
      {35, "64xauto"}, {36, "128xauto"}, {37, "256xauto"}, {38, "768xauto"}};
  for (const auto& [other, name] : kOthers) {
    if (other == id) return name;
  }
  return fmt::format("id{}", id);
}

/// cublasLtClusterShape_t.
std::string cluster_name(std::uint32_t id) {
  constexpr const char* kNames[] = {
      "auto", "id1",  "1x1",  "2x1",  "4x1",  "1x2",  "2x2",  "4x2", "1x4", "2x4", "4x4",
      "8x1",  "1x8",  "8x2",  "2x8",  "16x1", "1x16", "3x1",  "5x1", "6x1", "7x1", "9x1",
      "10x1", "11x1", "12x1", "13x1", "14x1", "15x1", "3x2",  "5x2", "6x2", "7x2", "1x3",
      "2x3",  "3x3",  "4x3",  "5x3",  "3x4",  "1x5",  "2x5",  "3x5", "1x6", "2x6", "1x7",
      "2x7",  "1x9",  "1x10", "1x11", "1x12", "1x13", "1x14", "1x15"};
  return id < std::size(kNames) ? kNames[id] : fmt::format("id{}", id);
}

std::string inner_name(std::uint32_t id) {
  constexpr const char* kNames[] = {"auto", "mma884", "mma1684", "mma1688", "mma16816"};
  return id < std::size(kNames) ? kNames[id] : fmt::format("id{}", id);
}

std::string reduction_name(std::uint32_t id) {
  return id == 0   ? "none"
         : id == 1 ? "inplace"
         : id == 2 ? "compute"
         : id == 4 ? "output"
                   : fmt::format("id{}", id);
}

/// An attribute of 2 or 4 bytes; 0 where the library does not tell.
template <typename T>
std::uint32_t attribute(const Library& library, const Algorithm& algorithm, int which) {
  T value = 0;
  std::size_t written = 0;
  if (library.config_get(&algorithm, which, &value, sizeof value, &written) !=
      cublaslt::kStatusSuccess) {
    return 0;
  }
  return static_cast<std::uint32_t>(value);
}

/// The 64 bytes as hexadecimal words, without the zero words at the end.
std::string raw_text(const Algorithm& algorithm) {
  int last = 7;
  while (last > 0 && algorithm.data[last] == 0) --last;
  std::string text;
  for (int i = 0; i <= last; ++i) {
    text += fmt::format("{}{:x}", i == 0 ? "" : ".", algorithm.data[i]);
  }
  return text;
}

Result<Algorithm> parse_raw(std::string_view text) {
  Algorithm algorithm;
  int word = 0, digits = 0;
  for (const char c : text) {
    if (c == '.') {
      if (digits == 0 || ++word >= 8) return fail(ErrorCode::invalid_argument, "raw: malformed");
      digits = 0;
      continue;
    }
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0 || ++digits > 16) return fail(ErrorCode::invalid_argument, "raw: malformed");
    algorithm.data[word] = algorithm.data[word] << 4 | static_cast<std::uint64_t>(digit);
  }
  if (digits == 0) return fail(ErrorCode::invalid_argument, "raw: malformed or missing");
  return algorithm;
}

}  // namespace

Config cublaslt_config(const Library& library, const CublasltAlgorithm& item) {
  const Algorithm& a = item.algorithm;
  const auto u32 = [&](int which) { return attribute<std::uint32_t>(library, a, which); };
  const auto u16 = [&](int which) { return attribute<std::uint16_t>(library, a, which); };
  using C = ConfigAttribute;
  Config config;
  config.set("algo", u32(C::kId))
      .set("tile", tile_name(u32(C::kTile)))
      .set("stages", stages_name(u32(C::kStages)))
      .set("splitk", static_cast<std::int32_t>(u32(C::kSplitK)))
      .set("reduction", reduction_name(u32(C::kReduction)))
      .set("swizzle", u32(C::kSwizzle))
      .set("custom", u32(C::kCustom))
      .set("inner", inner_name(u16(C::kInnerShape)))
      .set("cluster", cluster_name(u16(C::kClusterShape)))
      .set("workspace", item.workspace_bytes)
      .set("lib", library.version)
      .set("raw", raw_text(a));
  return config;
}

/// A terabyte: the library asks for some megabytes, and sums with this stay far from 2^63.
constexpr std::int64_t kMostWorkspace = std::int64_t{1} << 40;

Result<CublasltAlgorithm> parse_cublaslt_config(const Config& config) {
  auto algorithm = parse_raw(config.get("raw"));
  if (!algorithm) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("cublaslt configuration: {}", algorithm.error().message));
  }
  const std::int64_t workspace = config.get_int("workspace", -1);
  if (workspace < 0 || workspace > kMostWorkspace) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("cublaslt configuration: workspace={}: 0..{} bytes are expected",
                            config.get("workspace"), kMostWorkspace));
  }
  return CublasltAlgorithm{*algorithm, workspace};
}

}  // namespace culet
