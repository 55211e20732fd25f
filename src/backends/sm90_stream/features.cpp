// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the ranking model is told about a configuration of the Hopper decode kernel: the roofline
// terms, and as extra seconds what else was found to tell configurations apart. The weights are a
// least-squares fit (none negative) to 1000 configurations of 21 problems timed on an H200
// (2026-11-30), which it reproduces with a standard deviation of 8 %; the best of its first five is
// within 1 % of the best of those timed on average.
#include <algorithm>
#include <cmath>

#include "backends/sm90_stream/stream_config.h"

namespace culet::sm90_stream {
namespace {

double count(std::int64_t x) { return static_cast<double>(x); }

/// Seconds from asking for a line of memory to having it; the ranking model takes 1 us.
constexpr double kLatency = 0.5e-6;

/// The multiprocessor's clock while memory is the limit, and what it takes in from L2.
constexpr double kClock = 1.75e9, kPortBytesPerSecond = 110e9;

/// A block's way through its stretch of k if everything were in shared memory already: what a group
/// waits at each of its stages, and its chain of instructions. An instruction of a narrow side up
/// to 64 is bound by shared memory, and a dependent one starts 32 clocks after the one before it.
double consumer_seconds(const StreamShape& shape, double stages) {
  const double narrow = count(shape.narrow());
  const double clocks = std::max({narrow / 2, (64 + narrow) / 4, 32.0});
  return 0.18 * stages * count(shape.c.boxes * 4 * shape.blocks()) * clocks / kClock +
         0.028e-6 * stages;
}

/// Barriers of a cluster, its remote reads, and blocks of it that wait for each other.
double cluster_seconds(const StreamShape& shape) {
  const double sixty_fours = count(shape.width) / 64;
  double seconds = 0;
  if (shape.c.cluster > 1) seconds += 0.44e-6 + 0.68e-6 * sixty_fours;
  if (shape.c.cluster > 2) seconds += 1.39e-6 * sixty_fours;
  if (shape.c.share > 1) seconds += 1.23e-6;
  if (shape.c.share > 2) seconds += 1.12e-6;
  return seconds;
}

}  // namespace

std::optional<Features> features_of(const StreamConfig& c, const Problem& p,
                                    const DeviceSpec& device) {
  const StreamShape shape(c, p);
  const double units = device.units;
  const double tiles = count(tiles_of(c, p) * p.batch);
  const double blocks = tiles * c.cluster;
  // GPCs of 16 or 18 multiprocessors: clusters of four or eight leave some idle, one block a
  // multiprocessor 120 of 132, two 240 of 264 (cudaOccupancyMaxActiveClusters).
  const double slots =
      units * count(occupancy(shape, device)) * (c.cluster * c.share > 2 ? 0.909 : 1);
  const double waves = blocks / slots;
  const double rounds = std::ceil(waves);
  const double k_bytes = count(round_up(p.k, box_k(p) * c.boxes)) * bits(p.a) / 8;
  Features f;
  f.math_dtype = p.a;
  const double instructions = tiles * count(shape.blocks()) * k_bytes / 32;
  f.math_ops = instructions * 2 * 64 * count(shape.narrow()) * 256 / bits(p.a);
  // Less than all of it, because what overlaps with reading is in the terms below.
  f.dram_bytes = 0.85 * p.compulsory_bytes();
  f.l2_bytes = tiles * (c.rows + count(shape.width) / c.share) * k_bytes;
  // Blocks that are resident together share memory's bandwidth however they are spread.
  f.tiles = std::min(blocks, units);
  f.slots = units;
  // A group holds on to one stage while it multiplies from the next.
  const double asked = std::min(blocks, slots) * count(shape.stage_b());
  f.bytes_in_flight = asked * (c.stages - c.groups) / f.tiles * (1e-6 / kLatency);

  const double read_seconds = p.compulsory_bytes() / device.dram_bytes_per_s;
  const double fullest = waves <= 1 ? std::ceil(blocks / units) : blocks / units;
  const double port_seconds =
      fullest * count(c.rows + shape.width) * k_bytes / c.cluster / kPortBytesPerSecond;
  const double group_stages = k_bytes / (128.0 * c.boxes) / c.cluster / c.groups;
  f.extra_seconds = 0.3e-6 + rounds * consumer_seconds(shape, group_stages) + 0.16 * port_seconds +
                    0.05 * f.l2_bytes / device.l2_bytes_per_s + cluster_seconds(shape) +
                    0.25e-6 * (c.groups - 1);
  // More than 12 MB asked for at once is served unevenly; a last round of few blocks draws little.
  f.extra_seconds += 0.026e-6 * std::max(0.0, asked * c.stages * 1e-6 - 12);
  if (waves > 1) f.extra_seconds += 0.47 * (rounds - waves) / rounds * read_seconds;
  return f;
}

}  // namespace culet::sm90_stream
