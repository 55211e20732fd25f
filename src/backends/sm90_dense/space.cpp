// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The configuration space of the Hopper kernel for a problem, and the model of what a walk over its
// tiles reads from memory.
#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "backends/hopper_operands.h"
#include "backends/sm90_dense/dense_config.h"

namespace culet::sm90_dense {

namespace {

struct Shape {
  bool turned;
  int tile_m, tile_n;
  bool pingpong;

  DenseConfig config(const Problem& p) const {
    DenseConfig config;
    config.turned = turned;
    config.tile_k = tile_k_of(p);
    config.tile_m = tile_m;
    config.tile_n = tile_n;
    config.pingpong = pingpong;
    return config;
  }
};

/// Rounds in which the device computes all tiles, in clusters of one block or of eight, which get
/// fewer multiprocessors.
std::int64_t rounds(const Shape& shape, const Problem& p, const DeviceSpec& device,
                    bool of_eight = false) {
  DenseConfig config = shape.config(p);
  const std::int64_t tiles = grid_of(config, p, device, p.m).pieces;
  if (of_eight) config.cluster_m = 8;
  const std::int64_t blocks = grid_of(config, p, device, p.m).workers * config.cluster_blocks();
  return (tiles + blocks - 1) / blocks;
}

/// Every tile within the registers that can be the best. Widths go in steps of eight, because that
/// is how waves are filled (the fastest for 2048x8192x8192 is 168 wide: 5.9 rounds of 132 tiles);
/// of those that need the same number of rounds the narrowest computes least padding. Multiples of
/// 32 stay in any case. Below 64 they pay only where n is small: shared memory cannot feed the
/// tensor cores then.
void add_shapes(bool turned, const Problem& problem, const DeviceSpec& device,
                std::vector<Shape>* all) {
  struct Kind {
    int tile_m;
    bool pingpong;
    int narrowest, widest;
  };
  constexpr Kind kKinds[] = {{64, false, 32, 256},  {128, false, 64, 256}, {192, false, 96, 200},
                             {256, false, 64, 192}, {64, true, 96, 256},   {128, true, 64, 192}};
  for (const Kind& kind : kKinds) {
    for (int n = kind.narrowest; n <= kind.widest; n += 8) {
      const Shape shape{turned, kind.tile_m, n, kind.pingpong};
      const Shape narrower{turned, kind.tile_m, n - 8, kind.pingpong};
      const bool fewer =
          rounds(shape, problem, device) < rounds(narrower, problem, device) ||
          rounds(shape, problem, device, true) < rounds(narrower, problem, device, true);
      if (n % 32 == 0 || fewer) all->push_back(shape);
    }
  }
}

/// Turned round, tiles fit m in steps of eight instead of 64, which is worth trying where rounding
/// up to 64 costs more than 2 %.
std::vector<Shape> shapes(const Problem& problem, const DeviceSpec& device) {
  std::vector<Shape> all;
  add_shapes(false, problem, device, &all);
  const std::int64_t rounded = (problem.m + 63) / 64 * 64;
  const StorePath store = store_path(problem);
  if ((rounded - problem.m) * 50 > problem.m && store.tma && store.element == 2) {
    add_shapes(true, problem, device, &all);
  }
  return all;
}

/// Operands indexed by m stay in registers along with a block's sums; beyond this many sums they
/// spill (ptxas 13.0: 128x144 and 128x160 ping-pong and 256x160 do, 128x136 does not).
bool spills(const DenseConfig& config, const Problem& problem) {
  const auto& operands = problem.epilogue.operands();
  const bool by_row = std::any_of(operands.begin(), operands.end(), [&](const auto& operand) {
    return operand.index == (config.turned ? EpilogueIndex::column : EpilogueIndex::row);
  });
  if (by_row && config.accumulators() > (config.turned ? 112 : 136)) return true;
  // With as many sums as registers allow, the producer has too few for the many boxes of an operand
  // contiguous in m or n.
  const bool across = !hopper::a_along_k(problem) || !hopper::b_along_k(problem);
  if (across && config.accumulators() >= 192) return true;
  // To send parts of a sum to other blocks takes registers as well (256x192 in 1x2x2, 192x192, and
  // 128x256 with an epilogue spill).
  const int most_to_split = config.consumers() == 3          ? 80
                            : problem.epilogue.is_identity() ? 128
                                                             : 112;
  if (config.cluster_k > 1 && config.accumulators() > most_to_split) return true;
  // The largest tiles have no registers left for an epilogue with operands, nor, with three
  // consumers, for functions.
  const int most = config.consumers() == 3 ? 80 : operands.empty() ? 191 : 144;
  return config.accumulators() > most && !problem.epilogue.is_identity();
}

struct Cluster {
  int m, n, k;
};

/// Clusters worth trying. Where a single round of tiles leaves multiprocessors idle, clusters may
/// also split k.
std::vector<Cluster> clusters(const Shape& shape, const Problem& problem,
                              const DeviceSpec& device) {
  std::vector<Cluster> all = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {2, 2, 1},
                              {4, 1, 1}, {1, 4, 1}, {4, 2, 1}, {2, 4, 1}};
  if (shape.pingpong || rounds(shape, problem, device) > 1) return all;
  for (const Cluster& sharing : {Cluster{1, 1, 1}, Cluster{2, 1, 1}, Cluster{1, 2, 1}}) {
    for (int k = 2; k * sharing.m * sharing.n <= 4; ++k) {
      DenseConfig config = shape.config(problem);
      config.cluster_m = sharing.m;
      config.cluster_n = sharing.n;
      config.cluster_k = k;
      const Grid grid = grid_of(config, problem, device, problem.m);
      const bool divides = shape.tile_n % (8 * k) == 0 && shape.tile_n / k >= 16;
      // Parts of at least four stages: below that filling the pipeline costs more than it saves.
      if (divides && grid.pieces <= grid.workers && grid.k_tiles >= 4 * k) {
        all.push_back({sharing.m, sharing.n, k});
      }
    }
  }
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
  if (config.accumulators() >= 192 || config.cluster_k > 1) return counts;
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
  for (const Shape& shape : shapes(problem, device)) {
    const DenseConfig base = shape.config(problem);
    const std::int64_t rows = rows_of(base, problem, problem.m_range.high);
    const std::int64_t columns = columns_of(base, problem, problem.m_range.high);
    if (too_large(shape.tile_m, rows, 64) || too_large(shape.tile_n, columns, 32)) continue;
    for (const auto& [cluster_m, cluster_n, cluster_k] : clusters(shape, problem, device)) {
      // Not more of a cluster than there are tiles.
      if (rows <= std::int64_t{shape.tile_m} * (cluster_m - 1)) continue;
      // A that does not fill a tile is read in a smaller box, and is no burden to share.
      if (columns <= std::int64_t{shape.tile_n} * (cluster_n - 1)) continue;
      if (cluster_n > 1 && rows < shape.tile_m) continue;
      if (cluster_m > 1 && columns + 8 <= shape.tile_n) continue;
      for (const int occupancy : {1, 2}) {
        // Two blocks a multiprocessor: for small tiles, one stores while the other multiplies.
        if (occupancy == 2 && (shape.tile_m > 64 || shape.tile_n > 128 || shape.pingpong)) continue;
        // ... but there must be two for each: else it only halves the ring.
        if (occupancy == 2 && rounds(shape, problem, device) == 1) continue;
        DenseConfig config = base;
        config.cluster_m = cluster_m;
        config.cluster_n = cluster_n;
        config.cluster_k = cluster_k;
        config.occupancy = occupancy;
        config.stages = fitting_stages(config, store, device, 12);
        if (config.stages < 2 || spills(config, problem)) continue;
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
  const double row_bytes = bits(problem.a) / 8.0 * static_cast<double>(problem.k);
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
