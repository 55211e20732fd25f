// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The configuration space of the Hopper kernel for a problem, and the model of what a walk over its
// tiles reads from memory.
#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "backends/sm90_dense/dense_config.h"

namespace culet::sm90_dense {

namespace {

struct Shape {
  int tile_m, tile_n;
  bool pingpong;
};

/// Every tile within the registers, in steps that matter for filling waves. Widths below 64 pay
/// only where n is small: shared memory cannot feed the tensor cores then.
std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const int n : {32, 64, 96, 128, 160, 192, 224, 256}) all.push_back({64, n, false});
  for (const int n : {64, 96, 128, 160, 176, 192, 208, 224, 240, 256})
    all.push_back({128, n, false});
  for (const int n : {128, 160, 192}) all.push_back({192, n, false});
  for (const int n : {64, 96, 128, 144, 160, 176, 192}) all.push_back({256, n, false});
  for (const int n : {128, 192, 256}) all.push_back({64, n, true});
  for (const int n : {96, 112, 128, 144, 160, 176, 192}) all.push_back({128, n, true});
  return all;
}

/// Whether a smaller tile of the same kind covers the dimension as well: the larger one would only
/// compute more padding.
bool too_large(int tile, std::int64_t size, int step) { return tile > step && tile - step >= size; }

/// Split counts that could fill idle multiprocessors: with parts of at least four tiles of k,
/// because a part costs its pipeline's fill and a pass over the workspace.
std::vector<int> split_counts(const DenseConfig& config, const Problem& problem,
                              const DeviceSpec& device) {
  std::vector<int> counts = {1};
  if (config.accumulators() >= 192) return counts;
  const Grid grid = grid_of(config, problem, device, problem.m);
  for (const int splits : {2, 3, 4, 6, 8, 12, 16}) {
    if (grid.k_tiles / splits < 4) break;
    if (grid.pieces * (splits - 1) >= grid.workers * 2) break;
    counts.push_back(splits);
  }
  return counts;
}

}  // namespace

std::vector<std::pair<bool, int>> rasters(const DenseConfig& config, const Problem& problem,
                                          const DeviceSpec& device) {
  const Grid grid = grid_of(config, problem, device, problem.m);
  std::vector<std::pair<bool, int>> walks;
  std::set<std::pair<bool, std::int64_t>> seen;
  for (const bool along_n : {false, true}) {
    const std::int64_t inner = along_n ? grid.tiles_n : grid.tiles_m;
    const std::int64_t outer = along_n ? grid.tiles_m : grid.tiles_n;
    for (const int group : {4, 8, 16}) {
      const std::int64_t effective = std::min<std::int64_t>(group, inner);
      // One row or column of tiles: only one order exists.
      if (inner == 1 && outer > 1 && along_n) continue;
      if (outer == 1 && (along_n || group > 4)) continue;
      if (grid.pieces <= grid.workers && !(walks.empty())) continue;  // all in flight at once
      if (seen.emplace(along_n, effective).second) walks.emplace_back(along_n, group);
    }
  }
  return walks;
}

std::vector<DenseConfig> space(const Problem& problem, const DeviceSpec& device) {
  std::vector<DenseConfig> all;
  const StorePath store = store_path(problem);
  const std::int64_t rows = problem.m_range.high;
  for (const Shape& shape : shapes()) {
    if (too_large(shape.tile_m, rows, 64) || too_large(shape.tile_n, problem.n, 32)) continue;
    // Clusters of four can be asked for by name. They are not offered: nobody has timed them yet,
    // and others report losses for large products.
    for (const auto& [cluster_m, cluster_n] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{1, 2}}) {
      // Not more of a cluster than there are tiles.
      if (rows <= std::int64_t{shape.tile_m} * (cluster_m - 1)) continue;
      if (shape.tile_n % (8 * cluster_m) != 0) continue;
      // A that does not fill a tile is read in a smaller box, and is no burden to share.
      if (cluster_n > 1 && (problem.n <= shape.tile_n || rows < shape.tile_m)) continue;
      // The largest tile has no registers left for an epilogue with operands and functions.
      if (shape.tile_m == 256 && shape.tile_n == 192 && !problem.epilogue.is_identity()) continue;
      for (const int occupancy : {1, 2}) {
        // Two blocks a multiprocessor: for small tiles, one stores while the other multiplies.
        if (occupancy == 2 && (shape.tile_m > 64 || shape.tile_n > 128 || shape.pingpong)) continue;
        DenseConfig config;
        config.tile_m = shape.tile_m;
        config.tile_n = shape.tile_n;
        config.pingpong = shape.pingpong;
        config.cluster_m = cluster_m;
        config.cluster_n = cluster_n;
        config.occupancy = occupancy;
        config.stages = fitting_stages(config, store, device, 12);
        if (config.stages < 2) continue;
        for (const auto& [along_n, group] : rasters(config, problem, device)) {
          config.along_n = along_n;
          config.group = group;
          for (const int splits : split_counts(config, problem, device)) {
            config.splits = splits;
            if (config_error(config, problem, device).empty()) all.push_back(config);
          }
        }
      }
    }
  }
  return all;
}

double dram_read_bytes(const DenseConfig& config, const Problem& problem,
                       const DeviceSpec& device) {
  const Grid grid = grid_of(config, problem, device, problem.m);
  const double row_bytes = 2.0 * static_cast<double>(problem.k);
  const auto count = [](std::int64_t x) { return static_cast<double>(x); };
  const double a = count(problem.m) * row_bytes, b = count(problem.n) * row_bytes;
  const double a_all = a * (problem.stride_a == 0 ? 1.0 : count(problem.batch));
  const double b_all = b * (problem.stride_b == 0 ? 1.0 : count(problem.batch));
  const double once = a_all + b_all;
  const double per_batch = count(grid.tiles_m * grid.tiles_n);
  if (per_batch <= 0) return once;
  // Half of L2: D passes through it too, and its two halves hold copies of what both sides read.
  if (a + b <= 0.5 * count(device.l2_bytes)) return once;
  const double in_flight = std::min(count(grid.workers), per_batch);
  const double inner = count(config.along_n ? grid.tiles_n : grid.tiles_m);
  const double outer = count(config.along_n ? grid.tiles_m : grid.tiles_n);
  const double high = std::min(count(config.group), inner);
  const double wide = std::min(std::max(in_flight / high, 1.0), outer);
  const double bands = std::max(in_flight / (high * wide), 1.0);
  const double inner_bytes = row_bytes * (config.along_n ? config.tile_n * config.cluster_n
                                                         : config.tile_m * config.cluster_m);
  const double outer_bytes = row_bytes * (config.along_n ? config.tile_m * config.cluster_m
                                                         : config.tile_n * config.cluster_n);
  const double wave = high * bands * inner_bytes + wide * outer_bytes;
  return std::max(once, count(problem.batch) * per_batch / in_flight * wave);
}

}  // namespace culet::sm90_dense
