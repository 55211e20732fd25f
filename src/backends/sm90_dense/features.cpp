// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the ranking model is told about a configuration of the Hopper kernel.
#include <algorithm>
#include <cmath>
#include <optional>

#include "backends/sm90_dense/dense_config.h"
#include "culet/backend.h"

namespace culet::sm90_dense {

namespace {

double count(std::int64_t x) { return static_cast<double>(x); }

/// Steady-state share of the peak. WGMMA reads A and B from shared memory at 128 bytes a clock: an
/// instruction of 64 x N x 16 takes N/2 clocks and reads (64 + N) * 32 bytes, so N = 64 is just at
/// the limit and everything below is bound by it; the stages being written take their share too.
double math_efficiency(const DenseConfig& c) {
  const double clocks = c.tile_n / 2.0;
  const double read = (64.0 + c.tile_n) * 32.0 / 128.0;
  // A stage of 64 of k is 4 steps for each 64 rows.
  const double written = (c.tile_m + c.tile_n) * 128.0 / 128.0 / (4.0 * c.tile_m / 64.0);
  return std::min(1.0, clocks / (read + written));
}

/// Time in which a block's tensor cores stand still for a tile: filling the pipeline is hidden
/// after the first tile, storing is not, unless the other consumer or the other block multiplies
/// meanwhile.
double tile_overhead_seconds(const DenseConfig& c) {
  const double clock = 1.6e9;
  // Converting and staging a 64-row slab of 64 columns takes about 250 clocks of a warpgroup, and
  // the consumers' slabs go side by side; 500 clocks for the last wait and the first multiply.
  const double slabs = c.accumulators() * 2.0 / 64.0;
  const double clocks = 250.0 * slabs + 500.0;
  return (c.pingpong || c.occupancy > 1 ? 0.25 : 1.0) * clocks / clock;
}

}  // namespace

std::optional<Features> features_of(const DenseConfig& c, const Problem& p,
                                    const DeviceSpec& device) {
  const Grid grid = grid_of(c, p, device, p.m);
  const double tiles = count(grid.pieces);  // of a cluster
  const double blocks = c.cluster_blocks();
  const double padded_k = count(grid.k_tiles * kTileK);
  const double d_bytes =
      count(p.m) * count(p.n) * count(p.batch) * static_cast<double>(bits(p.d)) / 8.0;
  Features f;
  f.math_dtype = p.a;
  f.math_ops = 2.0 * (tiles / c.splits) * blocks * c.tile_m * c.tile_n * padded_k;
  f.math_efficiency = math_efficiency(c);
  f.dram_bytes = dram_read_bytes(c, p, device) + d_bytes;
  double operand_bytes = 0;
  for (const EpilogueOperand& operand : p.epilogue.operands()) {
    if (operand.index == EpilogueIndex::full) {
      operand_bytes += count(p.m) * count(p.n) * count(p.batch) * bits(operand.dtype) / 8.0;
    }
  }
  f.dram_bytes += operand_bytes;
  const double stage_reads =
      static_cast<double>(c.tile_m) / c.cluster_n + static_cast<double>(c.tile_n) / c.cluster_m;
  f.l2_bytes = (tiles / c.splits) * blocks * stage_reads * padded_k * 2.0 + d_bytes + operand_bytes;
  f.shared_bytes = (tiles / c.splits) * blocks * padded_k *
                   ((c.tile_m + c.tile_n) * 2.0 + c.tile_m / 64.0 * (64.0 + c.tile_n) * 2.0);
  f.tiles = tiles * blocks;
  f.slots = count(grid.workers) * blocks;
  f.bytes_in_flight = count(c.stages * c.stage_bytes()) * c.occupancy;
  const double waves = std::ceil(f.tiles / std::max(f.slots, 1.0));
  f.extra_seconds = waves * tile_overhead_seconds(c);
  if (c.splits > 1) {
    const double part = 4.0 * c.tile_m * c.tile_n;
    f.l2_bytes += 2.0 * f.tiles * part;
    // The last block of a tile adds all parts alone, at about 50 bytes a clock, after a trip to L2
    // and back for the count.
    f.extra_seconds += 2e-6 + c.splits * part / (50.0 * 1.6e9);
  }
  return f;
}

}  // namespace culet::sm90_dense
