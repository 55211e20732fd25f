// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The configuration space of the general tensor-core kernel for a problem.
#include <algorithm>
#include <set>

#include "backends/mma/mma_config.h"

namespace culet::mma {

namespace {

struct Tile {
  int m, n, warps_m, warps_n;
};

/// Tiles worth having: flat ones for few rows, narrow ones for few columns, 96 and 192 wide ones to
/// fill waves. Warps of 64x64 read shared memory least, those of 64x32 leave room for two blocks a
/// multiprocessor.
constexpr Tile kTiles[] = {
    {16, 64, 1, 4},   {16, 128, 1, 4},  {16, 256, 1, 8},  {32, 64, 2, 2},   {32, 128, 1, 4},
    {32, 256, 1, 8},  {64, 16, 4, 1},   {128, 16, 4, 1},  {64, 32, 2, 2},   {128, 32, 4, 1},
    {64, 64, 2, 2},   {64, 96, 2, 2},   {64, 128, 2, 2},  {64, 128, 2, 4},  {64, 256, 1, 4},
    {64, 256, 2, 4},  {96, 64, 2, 2},   {128, 64, 2, 2},  {128, 64, 4, 2},  {96, 96, 2, 2},
    {128, 96, 4, 2},  {96, 128, 2, 4},  {128, 128, 2, 2}, {128, 128, 2, 4}, {128, 128, 4, 2},
    {128, 192, 2, 4}, {192, 128, 4, 2}, {128, 256, 2, 4}, {256, 128, 4, 2}, {256, 64, 4, 1},
};

/// A thread has 255; the estimate is not exact.
constexpr int kMostRegisters = 250;

/// Whether a smaller tile covers the dimension as well: this one would only compute more padding.
/// `least` is the smallest that goes with all sizes of the other dimension.
bool too_large(int tile, std::int64_t size, int least) { return tile > least && tile / 2 >= size; }

/// Split counts that could fill idle multiprocessors: with parts of at least four tiles of k,
/// because a part costs its pipeline's fill and a pass over the workspace; two where tiles of D are
/// so few that nothing else fills the device.
std::vector<int> split_counts(const MmaConfig& config, const Problem& problem,
                              const DeviceSpec& device) {
  std::vector<int> counts = {1};
  const Grid grid = grid_of(config, problem, problem.m);
  const std::int64_t slots = std::int64_t{device.units} * config.occupancy;
  for (const int splits : {2, 3, 4, 6, 8, 12, 16, 24, 32, 44, 64}) {
    if (grid.k_tiles / splits < (splits > 32 ? 2 : 4) || grid.pieces * splits > slots * 5 / 4)
      break;
    counts.push_back(splits);
  }
  return counts;
}

/// A deep pipeline for tiles whose bytes matter, a shallow one that leaves room for other blocks.
std::vector<int> stage_counts(const MmaConfig& config, const Problem& problem) {
  const bool a = tile_access_a(config, problem).through_registers();
  const bool b = tile_access_b(config, problem).through_registers();
  // What passes through registers is one tile ahead, whatever the stages.
  if (a && b) return {2};
  if (config.tile_m <= 32 || config.tile_n <= 32) return {4, 6};
  return {3, 4};
}

struct Packing {
  bool a, b;
};

/// Operands worth packing: those that 16-byte copies cannot take, where several tiles, which would
/// each mend them again, read them. All of them, or only those that would pass through registers.
std::vector<Packing> packings(const Problem& problem) {
  const Access a = access_a(problem), b = access_b(problem);
  const auto worth = [](const Access& access, std::int64_t others, int bytes) {
    return (access.transposes || access.bytes < bytes) && others > 64;
  };
  std::vector<Packing> all = {{false, false}};
  for (const int bytes : {16, 4}) {
    const Packing one{worth(a, problem.n, bytes), worth(b, problem.m_range.high, bytes)};
    const bool known = std::any_of(all.begin(), all.end(), [&](const Packing& other) {
      return other.a == one.a && other.b == one.b;
    });
    if (!known) all.push_back(one);
  }
  return all;
}

void add_all(MmaConfig config, const Problem& problem, const DeviceSpec& device,
             std::vector<MmaConfig>* all) {
  for (const int stages : stage_counts(config, problem)) {
    config.stages = stages;
    config.occupancy = fitting_occupancy(config, problem, device);
    for (const auto& [along_n, group] : rasters(config, problem, device)) {
      config.along_n = along_n;
      config.group = group;
      config.splits = 1;
      for (const int splits : split_counts(config, problem, device)) {
        MmaConfig one = config;
        one.splits = splits;
        if (config_error(one, problem, device).empty()) all->push_back(one);
      }
    }
  }
}

}  // namespace

std::vector<std::pair<bool, int>> rasters(const MmaConfig& config, const Problem& problem,
                                          const DeviceSpec& device) {
  const Grid grid = grid_of(config, problem, problem.m);
  const std::int64_t slots = std::int64_t{device.units} * config.occupancy;
  std::vector<std::pair<bool, int>> walks;
  std::set<std::pair<bool, std::int64_t>> seen;
  for (const bool along_n : {false, true}) {
    const std::int64_t inner = along_n ? grid.tiles_n : grid.tiles_m;
    const std::int64_t outer = along_n ? grid.tiles_m : grid.tiles_n;
    for (const int group : {16, 4}) {
      // One row or column of tiles: only one order exists.
      if (inner == 1 && outer > 1 && along_n) continue;
      if (outer == 1 && (along_n || group < 16)) continue;
      if (grid.pieces <= slots && !walks.empty()) continue;  // all in flight at once
      if (seen.emplace(along_n, std::min<std::int64_t>(group, inner)).second) {
        walks.emplace_back(along_n, group);
      }
    }
  }
  return walks;
}

std::vector<MmaConfig> space(const Problem& problem, const DeviceSpec& device) {
  std::vector<MmaConfig> all;
  const int size = static_cast<int>(bits(problem.a)) / 8;
  for (const Tile& tile : kTiles) {
    if (too_large(tile.m, problem.m_range.high, 16) || too_large(tile.n, problem.n, 64)) continue;
    // Narrow tiles pay only where there are few columns.
    if (tile.n < 64 && problem.n > tile.n) continue;
    for (const Packing& packing : packings(problem)) {
      for (const int row_bytes : {64, 128}) {
        MmaConfig config;
        config.tile_m = tile.m;
        config.tile_n = tile.n;
        config.warps_m = tile.warps_m;
        config.warps_n = tile.warps_n;
        config.tile_k = row_bytes / size;
        config.pack_a = packing.a;
        config.pack_b = packing.b;
        if (row_bytes == 128 && config.tile_k / 2 >= problem.k && problem.k > 0) continue;
        const bool transposes =
            tile_access_a(config, problem).transposes || tile_access_b(config, problem).transposes;
        if (row_bytes == 128 && transposes) continue;  // would not fit on its way
        if (registers(config, problem) > kMostRegisters) continue;
        add_all(config, problem, device, &all);
      }
    }
  }
  return all;
}

}  // namespace culet::mma
