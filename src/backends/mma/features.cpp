// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the ranking model is told about a configuration of the general tensor-core kernel.
#include <algorithm>
#include <cmath>

#include "backends/mma/mma_config.h"
#include "kernels/split_groups.h"

namespace culet::mma {

namespace {

double count(std::int64_t x) { return static_cast<double>(x); }

/// mma.sync is reported to reach 62 to 66 % of the rate of Hopper's warpgroup instructions, which
/// device data state; 40 % were measured at 4096^3 in bf16 (H200, 2026-11-30) when every product
/// still took two moves of registers. On older parts it is what they state.
double math_efficiency(const DeviceSpec& device) {
  return device.architecture.starts_with("sm_90") ? 0.5 : 0.85;
}

/// Filling a stage, its barrier and the first fragments: a block's time for a tile of k, however
/// small it is.
constexpr double kStageSeconds = 2.0e-7;
/// The same where operands pass through registers, one tile ahead: a trip to L2 and back.
constexpr double kRegisterStageSeconds = 5.0e-7;

/// Accesses of L1 or shared memory for each 128 bytes of an operand on its way into a stage, beside
/// the write. By count: 4-byte copies read a line four times for its 128 bytes less what they
/// share; pieces that start anywhere are read twice, and half of them lie in two lines.
double loading_accesses(const Access& access) {
  if (access.transposes) return 4;
  if (access.bytes < 4) return 3;
  return access.bytes == 4 ? 2 : access.bytes == 8 ? 1 : 0;
}

/// Packing operands first: starting, two trips to a counter, and the wait for all; then reading and
/// writing at about this rate, which nothing else overlaps. Not measured yet.
constexpr double kPackSeconds = 3.5e-6;
constexpr double kPackBytesPerSecond = 3e12;

/// Rows of 64 bytes are read from memory at two thirds of the rate of longer ones (64x50257x2048).
constexpr double kShortRows = 1.4;

}  // namespace

Features features_of(const MmaConfig& c, const Problem& p, const DeviceSpec& device) {
  const Grid grid = grid_of(c, p, p.m);
  const Access a = tile_access_a(c, p), b = tile_access_b(c, p);
  const double size = bits(p.a) / 8.0, size_d = bits(p.d) / 8.0;
  const double tiles = count(grid.pieces) / c.splits;
  const double padded_k = count(grid.k_tiles * c.tile_k);
  const double bytes_a = tiles * c.tile_m * padded_k * size;
  const double bytes_b = tiles * c.tile_n * padded_k * size;
  const double d_bytes = count(p.m) * count(p.n) * count(p.batch) * size_d;
  Features f;
  // 8-bit floats are multiplied as f16.
  f.math_dtype = p.a == DType::e4m3 || p.a == DType::e5m2 ? DType::f16 : p.a;
  f.math_ops = 2.0 * tiles * c.tile_m * c.tile_n * padded_k;
  f.math_efficiency = math_efficiency(device);
  const int row_bytes = c.tile_k * static_cast<int>(bits(p.a)) / 8;
  f.dram_bytes = p.compulsory_bytes();
  if (row_bytes == 64 && (a.k_fast || b.k_fast)) {
    f.dram_bytes = kShortRows * (f.dram_bytes - d_bytes) + d_bytes;
  }
  f.l2_bytes = bytes_a + bytes_b + d_bytes;
  // Written once, and read by every warp that shares it.
  f.shared_bytes = bytes_a * (1 + c.warps_n + loading_accesses(a)) +
                   bytes_b * (1 + c.warps_m + loading_accesses(b));
  f.tiles = count(grid.pieces);
  f.slots = count(device.units) * c.occupancy;
  const bool registers = a.through_registers() && b.through_registers();
  f.bytes_in_flight =
      count(stage_bytes(c, p)) * (registers ? 1 : std::max(c.stages - 1, 1)) * c.occupancy;
  const double waves = std::ceil(f.tiles / std::max(f.slots, 1.0));
  const double least =
      a.through_registers() || b.through_registers() ? kRegisterStageSeconds : kStageSeconds;
  // Resident blocks hide each other's waits; the model sees the longest chain of them.
  const double resident = std::clamp(f.tiles / count(device.units), 1.0, count(c.occupancy));
  f.extra_seconds = waves * count(grid.k_tiles) / c.splits * least / resident + 0.5e-6;
  const auto [along_n, group] = rasters(c, p, device).front();
  if (c.along_n != along_n || c.group != group) {
    // What the walk is worth is small and uncertain, and it costs no compilation. The few
    // candidates that a tuning run takes should differ in more than that.
    const auto peak = device.tensor_ops.find(f.math_dtype);
    if (peak != device.tensor_ops.end()) f.extra_seconds += 0.1 * f.math_ops / peak->second;
    f.extra_seconds += 0.05 * f.dram_bytes / device.dram_bytes_per_s;
  }
  if (c.splits > 1) {
    const double part = 4.0 * c.tile_m * c.tile_n;
    f.l2_bytes += 2.0 * f.tiles * part;
    // The last block of a group of splits adds its parts alone, and the last of all the groups'
    // sums, at about 50 bytes a clock each, after a trip to L2 and back for the count.
    const int group = kernels::split_group(c.splits);
    const bool two_steps = group < c.splits;
    const double added = two_steps ? group + kernels::split_counters(c.splits) - 1 : group;
    f.extra_seconds += (two_steps ? 3.5e-6 : 2e-6) + added * part / (50.0 * 1.6e9);
  }
  if (c.pack_a || c.pack_b) {
    const double packed =
        count(grid.tiles_m) * count(packed_a_bytes_of_tile(c, p)) + count(packed_b_bytes(c, p));
    f.l2_bytes += packed;
    // What does not stay in L2 goes to memory and back.
    const double beyond = std::max(packed - 0.6 * count(device.l2_bytes), 0.0);
    f.extra_seconds += kPackSeconds + (2 * packed + 2 * beyond) / kPackBytesPerSecond;
  }
  return f;
}

}  // namespace culet::mma
