// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the ranking model is told about a configuration of the Hopper kernel.
#include <algorithm>
#include <cmath>
#include <optional>

#include "backends/hopper_operands.h"
#include "backends/sm90_dense/dense_config.h"
#include "culet/backend.h"

namespace culet::sm90_dense {

namespace {

double count(std::int64_t x) { return static_cast<double>(x); }

/// How far the power limit brings an H200 below the rate that its device data states: by the energy
/// of a multiply-add, of which a tile decides what goes through shared memory (1/m + 1/n when it is
/// written, 1/n for every 64 rows when it is read), and by the share of the places for blocks that
/// are taken. Ping-pong idles less between tiles. Fitted to some 24 configurations in bf16 at each
/// of 8 problems that are bound by arithmetic, each at the clock that its own power leaves (H200,
/// 2026-12-01, docs/performance-log.md): what is left within a problem is 2.2 % rms, 2.9 % without
/// the energy. 8-bit types have been timed at a shared clock only, where small tiles look better.
double power_efficiency(const DenseConfig& c, const Problem& p, double busy) {
  if (bits(p.a) == 8) {
    if (c.pingpong) return 0.96;
    return c.tile_m == 256 && c.tile_n > 128 ? 0.905 : 0.93;
  }
  const double energy = 4.0 * (1.0 / c.tile_m + 2.0 / c.tile_n);
  return (c.pingpong ? 1.01 : 0.985) * std::exp(-energy * busy);
}

/// Adding a stage's sums to f32 registers takes a quarter of the stage's time on the ordinary
/// pipes, hidden as far as another consumer multiplies meanwhile; in ping-pong none does.
double promotion_efficiency(const DenseConfig& c, const Problem& p) {
  if (!hopper::needs_promotion(p)) return 1;
  if (c.promotion_parts() == 2) return 0.9;
  return c.pingpong || (c.consumers() == 1 && c.occupancy == 1) ? 0.7 : 0.86;
}

/// So what shared memory has to do overlaps with the tensor cores' pauses too: by count, 128x128
/// tiles are bound by it at 1.25 times the time of their arithmetic, yet they are as fast as
/// 128x256.
constexpr double kSharedOverlap = 0.75;

/// A stage takes a block at least this long, however small it is: four dependent instructions and
/// the hand-over.
constexpr double kStageSeconds = 1.2e-7;
/// What of it the model sees already, as loads through L2.
constexpr double kLoadBytesPerSecond = 115e9;

// What multiprocessors take in. This and what follows was fitted to 23 problems of m = 96 to 8192
// with some 28 timed configurations each (H200, 2026-11-30): the best of the first five by estimate
// was 0.1 % behind the best timed one, 0.8 % with the numbers of before.

/// All of them, 18 TB/s, in terms of the 10 TB/s that the device data state of L2.
constexpr double kIngest = 0.56;
/// Where few have work, each of these gets up to so many times its share.
constexpr double kMostOfAShare = 1.6;
/// Requests to L2 for a line that straddles what it answers at once.
constexpr double kStraddling = 1.85;
/// In front of L2 equal requests of a GPC's multiprocessors become one, to a third of them (64x80
/// at 2048x320x1280); those of clusters that share an operand hardly do, nor where blocks of a
/// cluster are at different k.
constexpr double kSharedRequests = 1.25, kSplitRequests = 1.15;

/// A cluster starts when all of its blocks can, and they wait for each other.
double cluster_seconds(const DenseConfig& c) {
  const int blocks = c.cluster_blocks();
  return blocks == 1 ? 0 : blocks == 2 ? 2.5e-7 : blocks <= 4 ? 7.5e-7 : 1.4e-6;
}

/// A ring of three stages does not quite cover the latency of memory: 256x192 with three stages
/// fell behind 128x192 with five by 5 % (H200, 8192^3, 2026-11-29); one of two is no ring.
double ring_efficiency(const DenseConfig& c) {
  return c.stages >= 4 ? 1.0 : c.stages == 3 ? 0.95 : 0.6;
}

/// Instructions of an element's epilogue, by the code of src/kernels/epilogue_math.h.
double epilogue_instructions(const Epilogue& epilogue) {
  double total = 0;
  for (const EpilogueNode& node : epilogue.nodes()) {
    if (node.kind == EpilogueNode::Kind::binary) total += node.op == "/" ? 8 : 1;
    if (node.kind != EpilogueNode::Kind::unary) continue;
    if (node.op == "gelu") {
      total += 40;
    } else if (node.op == "tanh") {
      total += 30;
    } else if (node.op == "gelu_tanh" || node.op == "silu" || node.op == "sigmoid") {
      total += 20;
    } else {
      total += node.op == "exp" || node.op == "sqrt" || node.op == "rcp" ? 10 : 1;
    }
  }
  for (const EpilogueOperand& operand : epilogue.operands()) {
    // A bias serves two rows, a whole matrix nothing but its element: address, load, conversion.
    total += operand.index == EpilogueIndex::full     ? 4
             : operand.index == EpilogueIndex::column ? 2
                                                      : 0;
  }
  return total;
}

/// Time in which a block's tensor cores stand still for its tiles: filling the pipeline is hidden
/// after the first tile, storing is not, unless the other consumer or the other block multiplies
/// meanwhile, which for the last tile none does.
double tile_overhead_seconds(const DenseConfig& c, const Problem& p, double waves) {
  const double clock = 1.6e9;
  // Converting and staging a 64-row slab of 64 columns takes about 250 clocks of a warpgroup, and
  // the consumers' slabs go side by side; 500 clocks for the last wait and the first multiply.
  // Fitted to 128x128 ping-pong against 128x256 cooperative: 197 and 201 us at 4096^3.
  const double slabs = c.accumulators() * 2.0 / 64.0 / c.cluster_k;
  // A multiprocessor issues 128 lanes' instructions a clock.
  const double compute = epilogue_instructions(p.epilogue) * c.tile_m * c.tile_n / 128.0;
  const double clocks = 250.0 * slabs + 500.0 + compute;
  const double shown = c.pingpong ? 0.1 : c.occupancy > 1 ? 0.25 : 1.0;
  return (shown * (waves - 1) + 1) * clocks / clock;
}

/// Whether this is the walk over the tiles that reads least from memory, the first such in the
/// order of the space.
bool is_preferred_walk(const DenseConfig& c, const Problem& p, const DeviceSpec& device) {
  DenseConfig best = c;
  double least = -1;
  for (const auto& [along_n, group] : rasters(c, p, device)) {
    DenseConfig other = c;
    other.along_n = along_n;
    other.group = group;
    const double bytes = dram_read_bytes(other, p, device);
    if (least < 0 || bytes < least) {
      best = other;
      least = bytes;
    }
  }
  return best.along_n == c.along_n && best.group == c.group;
}

}  // namespace

std::optional<Features> features_of(const DenseConfig& c, const Problem& p,
                                    const DeviceSpec& device) {
  const Grid grid = grid_of(c, p, device, p.m);
  const double tiles = count(grid.pieces);  // of a cluster
  const double blocks = c.sharers();        // that compute different tiles
  const double padded_k = count(grid.k_tiles * c.tile_k);
  const double d_bytes =
      count(p.m) * count(p.n) * count(p.batch) * static_cast<double>(bits(p.d)) / 8.0;
  Features f;
  f.math_dtype = p.a;
  f.math_ops = 2.0 * (tiles / c.splits) * blocks * c.tile_m * c.tile_n * padded_k;
  f.tiles = tiles * c.cluster_blocks();
  f.slots = count(grid.workers) * c.cluster_blocks();
  const double waves = std::ceil(f.tiles / std::max(f.slots, 1.0));
  const double busy = f.tiles / std::max(waves * f.slots, 1.0);
  f.math_efficiency =
      power_efficiency(c, p, busy) * ring_efficiency(c) * promotion_efficiency(c, p);
  f.dram_bytes = dram_read_bytes(c, p, device) + d_bytes;
  double operand_bytes = 0;
  for (const EpilogueOperand& operand : p.epilogue.operands()) {
    if (operand.index == EpilogueIndex::full) {
      operand_bytes += count(p.m) * count(p.n) * count(p.batch) * bits(operand.dtype) / 8.0;
    }
  }
  f.dram_bytes += operand_bytes;
  const double a_rows = count(row_box(c, p).at(p.m));
  const double b_columns = count(column_box(c, p).at(p.m));
  const auto requests = [&](std::int64_t ld) { return straddles(ld, p.a) ? kStraddling : 1; };
  const double stage_reads =
      a_rows * requests(c.turned ? p.ldb : p.lda) + b_columns * requests(c.turned ? p.lda : p.ldb);
  const double stage_lines = (tiles / c.splits) * blocks * count(grid.k_tiles) * 128.0;
  // What blocks share crosses L2's ports once, but enters every multiprocessor.
  const double b_rows = std::min(b_columns * c.cluster_m, count(c.tile_n));
  const double active = std::min(tiles * c.cluster_blocks(), count(device.units));
  const double delivered =
      stage_lines * kIngest * std::max(stage_reads, a_rows * c.cluster_n + b_rows) *
      (c.sharers() > 1 ? kSharedRequests : 1) * (c.cluster_k > 1 ? kSplitRequests : 1) /
      std::min(kMostOfAShare, std::max(device.units / active, 1.0));
  f.l2_bytes = delivered + d_bytes + operand_bytes;
  // Stages are written once; WGMMA reads 64 rows of A and all of B for every 64 rows.
  f.shared_bytes =
      kSharedOverlap * stage_lines * (c.tile_m + c.tile_n + c.tile_m / 64.0 * (64.0 + c.tile_n));
  f.bytes_in_flight = count(c.stages * c.stage_bytes()) * c.occupancy;
  const double stages = waves / c.occupancy * count(grid.k_tiles) / c.splits / c.cluster_k;
  f.extra_seconds =
      tile_overhead_seconds(c, p, waves) + cluster_seconds(c) +
      stages * std::max(0.0, kStageSeconds - stage_reads * 128.0 / kLoadBytesPerSecond);
  if (!is_preferred_walk(c, p, device)) {
    // What the walk is worth is small and uncertain (5 % at most at 4096^3), and it costs no
    // compilation. The few candidates that a tuning run takes should differ in more than that.
    const auto peak = device.tensor_ops.find(p.a);
    if (peak != device.tensor_ops.end()) f.extra_seconds += 0.05 * f.math_ops / peak->second;
    f.extra_seconds += 0.05 * f.dram_bytes / device.dram_bytes_per_s;
  }
  if (c.cluster_k > 1) {
    // Two barriers of the cluster, and what a block sends, at about 32 bytes a clock.
    const double sent = 4.0 * c.tile_m * c.tile_n * (c.cluster_k - 1) / c.cluster_k;
    f.extra_seconds += 6e-7 + sent / (32 * 1.6e9);
  }
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
