// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Parsing, resources, space and model of the GEMV kernel's configurations.
#include "backends/gemv/gemv_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "backends/k_major.h"

namespace culet::gemv {
namespace {

double count(std::int64_t x) { return static_cast<double>(x); }
std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::invalid_argument, "gemv: " + std::move(message));
}

/// Number of a "sm_90a"; 0 where there is none.
int architecture(const DeviceSpec& device) {
  int number = 0;
  for (const char c : device.architecture) {
    if (c >= '0' && c <= '9') number = number * 10 + (c - '0');
  }
  return number;
}

std::int64_t chunks_of_k(const GemvConfig& c, const Problem& p) {
  return std::max<std::int64_t>(1, ceil_div(p.k * bits(p.a) / 8, c.chunk_bytes()));
}

}  // namespace

Result<GemvConfig> GemvConfig::parse(const Config& config) {
  GemvConfig c;
  const std::string_view math = config.has("math") ? config.get("math") : "cores";
  if (math != "cores" && math != "mma")
    return wrong(fmt::format("math={}: cores or mma is expected", math));
  c.mma = math == "mma";
  for (const auto& [key, member, high] :
       {std::tuple{"rows", &c.rows, c.mma ? 16 : 8}, std::tuple{"unroll", &c.unroll, 8},
        std::tuple{"warps", &c.warps, 32}, std::tuple{"k_warps", &c.k_warps, 32},
        std::tuple{"cluster", &c.cluster, 8}}) {
    const std::int64_t value = config.get_int(key, member == &c.cluster ? 1 : 0);
    if (value < 1 || value > high || (value & (value - 1)) != 0) {
      return wrong(
          fmt::format("{}={}: a power of two of 1..{} is expected", key, config.get(key), high));
    }
    *member = static_cast<int>(value);
  }
  if (c.mma && c.rows != 16) return wrong(fmt::format("rows={}: math=mma has 16", c.rows));
  if (c.k_warps > c.warps)
    return wrong(fmt::format("k_warps={}: a block has {}", c.k_warps, c.warps));
  return c;
}

Config GemvConfig::config() const {
  Config config;
  config.set("math", mma ? "mma" : "cores").set("rows", rows).set("unroll", unroll);
  config.set("warps", warps).set("k_warps", k_warps).set("cluster", cluster);
  return config;
}

std::int64_t registers(const GemvConfig& c, const Problem& p) {
  const std::int64_t m = p.m_range.high;
  if (c.mma) return 16 * c.unroll + (hopper::is_8_bit_float(p.a) ? 56 : 48);
  // The weights in flight, the sums, the rows' addresses, the vectors of A that are loaded ahead;
  // of 8-bit floats the weights a second time, unpacked.
  const std::int64_t unpacked = hopper::is_8_bit_float(p.a) ? 12 * c.rows : 0;
  return (4 * c.rows * c.unroll + c.rows * m + 3 * c.rows + 5 * m + 20 + unpacked + 7) / 8 * 8;
}

std::int64_t occupancy(const GemvConfig& c, const Problem& p, const DeviceSpec& device) {
  const std::int64_t threads = 32 * c.warps;
  return std::max<std::int64_t>(1, std::min(device.registers_per_unit / (threads * registers(c, p)),
                                            device.max_threads_per_unit / threads));
}

std::int64_t tiles_of(const GemvConfig& c, const Problem& p) {
  return ceil_div(p.n, c.tile_rows());
}

std::string config_error(const GemvConfig& c, const Problem& p, const DeviceSpec& device) {
  const std::int64_t m = p.m_range.high;
  if (!c.mma && c.rows * m > 32)
    return fmt::format("rows={}: at most 32 sums a lane, {} for m={}", c.rows, 32 / m, m);
  if (c.mma && architecture(device) < 80)
    return fmt::format("math=mma: {} is older than sm_80", device.architecture);
  if (c.cluster > 1 && architecture(device) < 90)
    return fmt::format("cluster={}: {} has no clusters", c.cluster, device.architecture);
  if (c.cluster > chunks_of_k(c, p))
    return fmt::format("cluster={}: k={} is too short", c.cluster, p.k);
  if (registers(c, p) * 32 * c.warps > device.registers_per_unit)
    return fmt::format("warps={}: more registers than there are", c.warps);
  if (tiles_of(c, p) * p.batch * c.cluster > INT32_MAX) return "more than 2^31 blocks";
  return {};
}

std::vector<GemvConfig> space(const Problem& p, const DeviceSpec& device) {
  std::vector<GemvConfig> all;
  const bool bytes = bits(p.a) == 8;
  GemvConfig c;
  for (const bool mma : {false, true}) {
    c.mma = mma;
    for (const int rows : {1, 2, 4, 16}) {
      if ((rows == 16) != mma) continue;
      // Unpacked, 8-bit floats of four rows leave no room for warps.
      if (rows == 4 && bytes && !is_integer(p.a)) continue;
      c.rows = rows;
      for (const int unroll : {1, 2, 4}) {
        if (unroll == 4 && (mma || rows == 4)) continue;
        c.unroll = unroll;
        for (const int warps : {4, 8, 16}) {
          c.warps = warps;
          for (const int k_warps : {1, 2, 4, 8, 16}) {
            c.k_warps = k_warps;
            for (const int cluster : {1, 2, 4, 8}) {
              c.cluster = cluster;
              // On ordinary cores blocks are small enough without splitting k over them.
              if (cluster > 1 && !mma) continue;
              if (k_warps > warps || k_warps * cluster > chunks_of_k(c, p)) continue;
              // No more blocks than fill the device a few times.
              if (cluster > 1 && tiles_of(c, p) * p.batch * cluster > 4 * device.units) continue;
              if (registers(c, p) > 128) continue;  // fewer than 16 warps a multiprocessor
              if (config_error(c, p, device).empty()) all.push_back(c);
            }
          }
        }
      }
    }
  }
  return all;
}

namespace {

/// Seconds from asking for a line of memory to having it, fitted to 350 timed configurations on an
/// H200: blocks with 24 KB in flight a multiprocessor still reach 90 % of what they could.
constexpr double kLatency = 0.6e-6;

/// The ranking model takes 1 us for that latency.
constexpr double kRunAhead = 1e-6 / kLatency;

/// Blocks that do not fit at once run after the others, with few loads in flight: 1x4096x4096 took
/// an H200 10.6 us in one wave of 1024 blocks, 13.8 where 924 fitted. And in one wave the fullest
/// multiprocessor decides.
double seconds_lost_to_waves(const GemvConfig& c, const Problem& p, const DeviceSpec& device,
                             double blocks, double resident) {
  const double units = device.units;
  const double block_bytes = count(c.tile_rows()) * count(p.k) * bits(p.b) / 8 / count(c.cluster);
  // GPCs of 16 or 18 multiprocessors do not divide by clusters of four or eight.
  const double slots = units * resident * (c.cluster > 2 ? 0.909 : 1.0);
  const double read_seconds = blocks * block_bytes / device.dram_bytes_per_s;
  if (blocks <= slots) {
    const double most = std::ceil(blocks / units);
    return 0.5 * std::max(0.0, most * units / blocks - 1) * read_seconds;
  }
  const double waves = blocks / slots;
  const double last = blocks - std::floor(waves) * slots;
  double lost = std::min(0.3e-6 * (waves - 1), 1e-6);
  if (last > 0) {
    const double together = std::ceil(last / units);
    const double in_flight = std::min(together * c.bytes_in_flight(), together * block_bytes);
    const double rate = std::min(in_flight / kLatency, device.l2_bytes_per_s / units);
    lost += std::max(
        0.0, together * block_bytes / rate + 0.5e-6 - last * block_bytes / device.dram_bytes_per_s);
  }
  return lost;
}

}  // namespace

std::optional<Features> features_of(const GemvConfig& c, const Problem& p,
                                    const DeviceSpec& device) {
  const double m = count(p.m_range.high);
  const std::int64_t tiles = tiles_of(c, p) * p.batch;
  const double element = bits(p.b) / 8.0;
  const double weights = count(tiles * c.tile_rows()) * count(p.k) * element;
  const std::int64_t resident = occupancy(c, p, device);
  Features f;
  f.tensor = false;
  f.math_dtype = DType::f32;
  // Issue slots of a weight: on ordinary cores m multiply-adds, an unpacking, and its share of
  // loading and unpacking A; for four integers one slot does it.
  double slots = m + 1 + 1.5 * m / c.rows;
  if (c.mma) slots = hopper::is_8_bit_float(p.a) ? 1.5 : 0.75;
  if (!c.mma && hopper::is_8_bit_float(p.a)) slots += 1;
  if (!c.mma && is_integer(p.a)) slots = (m + 1 + 0.5 * m / c.rows) / 4;
  f.math_ops = 2.0 * slots * count(p.n) * count(p.k * p.batch);
  f.math_efficiency = 0.65;  // of a prototype of this loop on an H200
  f.dram_bytes = p.compulsory_bytes();
  // A comes through L1 once for every `rows` rows of B.
  f.l2_bytes = f.dram_bytes + weights * m / c.tile_rows();
  f.shared_bytes = weights * m / c.rows;
  const double blocks = count(tiles * c.cluster);
  f.tiles = blocks;
  f.slots = count(device.units * resident);
  const double busy = std::clamp(blocks / device.units, 1.0, count(resident));
  f.bytes_in_flight = kRunAhead * busy * c.bytes_in_flight();
  // Sums over lanes and warps; the latency of the loads in flight at the end; a cluster's barriers
  // and remote reads.
  f.extra_seconds = 0.3e-6 + 0.05e-6 * (c.mma ? 2 * c.unroll : c.unroll * c.rows) +
                    (c.cluster > 1 ? 0.7e-6 : 0) +
                    seconds_lost_to_waves(c, p, device, blocks, count(resident));
  return f;
}

}  // namespace culet::gemv
