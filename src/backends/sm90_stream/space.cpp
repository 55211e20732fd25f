// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The configuration space of the Hopper decode kernel for a problem. It follows from the device:
// how many rows of B a block takes so that the grid fills every multiprocessor evenly, how often k
// is split, who shares A, and how much shared memory is in flight.
#include <algorithm>
#include <set>

#include "backends/sm90_stream/stream_config.h"

namespace culet::sm90_stream {
namespace {

/// Rows of B a block: what spreads n over all multiprocessors once to four times, or over half of
/// them and more: those suffice to draw all the memory gives, and the fewer they are the less often
/// A is read (64x4096x4096 on an H200: 11.6 us in 64 blocks of 64 rows, 12.4 in 128 of 32).
std::set<int> row_choices(const Problem& p, const DeviceSpec& device, std::int64_t cluster,
                          bool wide_b) {
  std::set<int> rows;
  // Where there are more they differ in nothing below; n * batch itself is at most 2^62.
  const std::int64_t all = std::min(p.n * p.batch, std::int64_t{1} << 40) * cluster;
  const std::int64_t most = wide_b ? 192 : 256;
  for (const std::int64_t eighths : {4, 5, 6, 7, 8, 16, 24, 32}) {
    const std::int64_t even = round_up(ceil_div(all * 8, device.units * eighths), 8);
    if (even >= 8 && even <= most) rows.insert(static_cast<int>(even));
  }
  rows.insert(64);
  if (all >= 64 * device.units) rows.insert(128);
  if (all >= 512 * device.units && !wide_b) rows.insert(256);
  if (all < 64 * device.units) rows.insert(32);
  if (all < 32 * device.units) rows.insert(16);
  return rows;
}

/// Blocks that split k, only as far as multiprocessors would idle, and no more of them than tiles
/// of 32 rows leave of the device to fill: 4096 rows of 14336 in clusters of four or eight took 33
/// to 45 us on an H200 where clusters of two took 29, and 128x4096 in clusters of eight 14.7
/// for 10.5.
bool fills_idle_units(int rows, int cluster, const Problem& p, const DeviceSpec& device) {
  if (cluster == 1) return true;
  const std::int64_t small_tiles = ceil_div(p.n, 32) * p.batch;
  if (cluster > 2 && small_tiles * cluster >= 2 * device.units) return false;
  const std::int64_t blocks = ceil_div(p.n, rows) * p.batch * cluster;
  return blocks <= 2 * device.units + 16;
}

/// A stage of B between 4 and 32 KiB: smaller ones cost barriers, larger ones leave too much of the
/// last one to wait for.
bool suits(const StreamConfig& c) {
  const int bytes = c.rows * c.boxes * 128;
  if (bytes < 4096) return c.boxes == 4;
  return bytes <= 32768 || c.boxes == 1;
}

class Builder {
 public:
  Builder(const Problem& p, const DeviceSpec& device) : p_(p), device_(device) {}

  /// All ring sizes of a configuration that is complete otherwise.
  void add_rings(StreamConfig c) {
    // One block's rings a multiprocessor, or two.
    for (const std::int64_t budget :
         {device_.shared_per_block, device_.shared_per_unit / 2 - 1024}) {
      int stages = 0;
      for (const bool shallow_a : {false, true}) {
        if (!fit(c, budget, shallow_a)) continue;
        // A gives way only where B gains.
        if (c.stages == stages) continue;
        stages = c.stages;
        if (!config_error(c, p_, device_).empty()) continue;
        if (std::find(all.begin(), all.end(), c) == all.end()) all.push_back(c);
      }
    }
  }

  std::vector<StreamConfig> all;

 private:
  /// The most stages that fit; with `shallow_a` A has half as many, since it comes out of L2.
  bool fit(StreamConfig& c, std::int64_t budget, bool shallow_a) const {
    const StreamShape shape(c, p_);
    if (shallow_a && shape.width <= 16) return false;  // nothing to gain
    const std::int64_t share = ceil_div(ceil_div(p_.k, box_k(p_) * c.boxes), c.cluster);
    // More than the block's share of k is never used; a group with one stage would wait for itself.
    const std::int64_t useful = std::max<std::int64_t>(round_up(share, c.groups), 2 * c.groups);
    // With two, reading stops while one is multiplied.
    const std::int64_t least = std::min<std::int64_t>(useful, std::max(2 * c.groups, 3));
    for (std::int64_t stages = std::min<std::int64_t>(24, useful); stages >= least; --stages) {
      if (stages % c.groups != 0) continue;
      c.stages = static_cast<int>(stages);
      c.a_stages = shallow_a ? static_cast<int>(std::max<std::int64_t>(
                                   2 * c.groups, stages / 2 / c.groups * c.groups))
                             : c.stages;
      if (StreamShape(c, p_).shared_bytes() <= budget) return c.a_stages < c.stages || !shallow_a;
    }
    return false;
  }

  const Problem& p_;
  const DeviceSpec& device_;
};

}  // namespace

std::vector<StreamConfig> space(const Problem& p, const DeviceSpec& device) {
  Builder builder(p, device);
  const std::int64_t m = p.m_range.high;
  StreamConfig c;
  for (const bool wide_b : {true, false}) {
    // With few rows of A its side of 64 would be nearly all padding; where they fill it, B there is
    // 5 % slower.
    if (wide_b ? m > 48 && m <= 64 : m <= 32) continue;
    c.wide_b = wide_b;
    for (const auto& [cluster, share] : {std::pair{1, 1}, {2, 1}, {4, 1}, {8, 1}, {1, 2}, {1, 4}}) {
      // Sharing A pays where A is a burden at all.
      if (share > 1 && (m <= 16 || p.n <= 64 * share)) continue;
      if (share == 4 && wide_b) continue;
      c.cluster = cluster;
      c.share = share;
      for (const int rows : row_choices(p, device, cluster, wide_b)) {
        if (!fills_idle_units(rows, cluster, p, device)) continue;
        c.rows = rows;
        for (const int boxes : {1, 2, 4}) {
          c.boxes = boxes;
          if (!suits(c)) continue;
          for (const int groups : {1, 2, 4}) {
            c.groups = groups;
            builder.add_rings(c);
          }
        }
      }
    }
  }
  return builder.all;
}

}  // namespace culet::sm90_stream
