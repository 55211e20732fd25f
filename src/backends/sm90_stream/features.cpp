// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the ranking model is told about a configuration of the Hopper decode kernel.
#include <algorithm>

#include "backends/sm90_stream/stream_config.h"

namespace culet::sm90_stream {
namespace {

double count(std::int64_t x) { return static_cast<double>(x); }

}  // namespace

std::optional<Features> features_of(const StreamConfig& c, const Problem& p,
                                    const DeviceSpec& device) {
  const StreamShape shape(c, p);
  const std::int64_t resident = occupancy(shape, device);
  const std::int64_t tiles = tiles_of(c, p) * p.batch;
  // Blocks there are for a multiprocessor, of those that it can hold.
  const double busy =
      std::clamp(count(tiles * c.cluster) / count(device.units), 1.0, count(resident));
  const double k_bytes = count(round_up(p.k, box_k(p) * c.boxes)) * bits(p.a) / 8;
  const double instructions = count(tiles * shape.blocks()) * k_bytes / 32;
  Features f;
  f.math_dtype = p.a;
  // An instruction reads its 64 rows and the narrow side from shared memory, which takes longer
  // than multiplying a narrow side of less than 64.
  f.math_ops =
      instructions * 2 * 64 * count(std::max<std::int64_t>(shape.narrow(), 32)) * 256 / bits(p.a);
  f.math_efficiency = c.groups * busy > 1.5 ? 0.7 : 0.45;  // one group's chain leaves gaps
  f.dram_bytes = p.compulsory_bytes();
  f.l2_bytes = count(tiles) * (count(c.rows) + count(shape.width) / c.share) * k_bytes;
  f.shared_bytes = instructions * count(64 + shape.narrow()) * 32;
  f.tiles = count(tiles * c.cluster);
  // GPCs of 16 or 18 multiprocessors: clusters of four or eight leave some idle, one block a
  // multiprocessor 120 of 132, two 240 of 264 (cudaOccupancyMaxActiveClusters).
  const double usable = c.cluster * c.share > 2 ? 0.909 : 1.0;
  f.slots = count(device.units * resident) * usable;
  f.bytes_in_flight = std::min(busy, 2.0) * 1.6 * count(c.stages * shape.stage_b());
  // One cluster too many runs alone, after all others.
  const double read_seconds = f.dram_bytes / device.dram_bytes_per_s;
  const double late = c.cluster * c.share > 1 && f.tiles > f.slots && f.tiles < 2 * f.slots
                          ? 0.25 * read_seconds
                          : 0;
  const double m8 = count(shape.width) / 8;
  // Prototypes: barriers and the first copy 0.6 us; a cluster's barriers and remote reads 0.7 us
  // and 0.1 us for every 8 rows of A; parts of several warpgroups 0.1 us.
  f.extra_seconds = late + 0.6e-6 + (c.cluster > 1 ? 0.7e-6 + 0.1e-6 * (m8 - 1) : 0) +
                    (c.share > 1 ? 0.3e-6 : 0) + 0.1e-6 * count(c.groups - 1) +
                    (c.boxes == 2 ? 0 : 0.1e-6);
  return f;
}

}  // namespace culet::sm90_stream
