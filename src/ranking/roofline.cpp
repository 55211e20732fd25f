// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The ranking model: a roofline over a candidate's totals, corrected for what makes candidates of
// one problem differ - work that does not divide evenly over the device, too little memory traffic
// in flight, imperfect overlap and fixed costs. docs/ranking.md explains it with its evidence.
#include <algorithm>
#include <cmath>
#include <limits>

#include "culet/ranking.h"

namespace culet {
namespace {

// Time from asking for a line of memory to having it, under load. GPU: an H200 needs about 36 KB in
// flight per multiprocessor at 4.7 TB/s, and decode kernels there lost 27-44 % with rings below
// 48 KB, 12-16 % with 48-72 KB and next to nothing from 72 KB on, which the sum of squares below
// reproduces with 1 us (33, 16 and 6 % at 40, 60 and 100 KB). CPU: a usual figure for DDR5 servers,
// not measured.
constexpr double kMemoryLatencyGpu = 1e-6;
constexpr double kMemoryLatencyCpu = 1e-7;

// The share of every term but the longest that is not hidden behind it. Between cuBLAS GEMMs on an
// H200 it varies from 0 (m = 256, N x K = 8192 x 28672) to 0.2 (m = 64); a tenth keeps candidates
// apart that share their longest term.
constexpr double kOverlapLoss = 0.1;

// More than this part of the time lost to uneven work, and that is what limits.
constexpr double kWavesShare = 1.25;

double lookup(const std::map<DType, double>& rates, DType dtype) {
  const auto found = rates.find(dtype);
  return found == rates.end() ? 0 : found->second;
}

// Peak operations per second of the pipe the candidate uses. A pipe the device data does not list
// is taken as the ordinary f32 one, and where even that is missing, as one multiply-add a clock.
double peak_ops(const Features& features, const DeviceSpec& device) {
  double rate = features.tensor ? lookup(device.tensor_ops, features.math_dtype) : 0;
  if (rate <= 0) rate = lookup(device.vector_ops, features.math_dtype);
  if (rate <= 0) rate = lookup(device.vector_ops, DType::f32);
  if (rate <= 0) rate = 2e9 * std::max(device.clock_ghz, 0.1) * std::max(device.units, 1);
  return rate;
}

/// How the tiles spread over the device.
struct Spread {
  double parallel;   ///< units that can work at once
  double full;       ///< share of the tiles that are computed while all of those work
  double tail;       ///< units at work in the last, incomplete round
  double imbalance;  ///< rounds needed / rounds if the work divided evenly, >= 1
};

Spread spread(const Features& features, const DeviceSpec& device) {
  // Several tiles on one unit share its pipes, so rounds are counted in units: 200 tiles on 132
  // units take two rounds, whether or not each unit holds two at a time.
  const double units = std::max(device.units, 1);
  const double parallel = std::clamp(features.slots, 1.0, units);
  const double tiles = std::max(features.tiles, 1.0);
  const double full_rounds = std::floor(tiles / parallel);
  const double tail = tiles - full_rounds * parallel;
  return {parallel, full_rounds * parallel / tiles, tail,
          std::ceil(tiles / parallel) * parallel / tiles};
}

// Seconds for `bytes` through a memory level of `rate`, by `active` units at once. One unit cannot
// take more than its share of the on-chip bandwidth, nor than its requests in flight allow
// (Little's law). Near the limit both delays show, hence the sum of squares.
double transfer(double bytes, double rate, double active, double latency, const Features& features,
                const DeviceSpec& device) {
  if (bytes <= 0) return 0;
  const double share = device.l2_bytes_per_s * active / std::max(device.units, 1);
  const double by_rate = bytes / std::min(rate, share);
  if (features.bytes_in_flight <= 0 || latency <= 0) return by_rate;
  const double by_latency = bytes * latency / (features.bytes_in_flight * active);
  return std::hypot(by_rate, by_latency);
}

// Full rounds run with every unit, the last one with what is left.
double transfer_in_rounds(double bytes, double rate, const Spread& rounds, double latency,
                          const Features& features, const DeviceSpec& device) {
  double seconds = transfer(bytes * rounds.full, rate, rounds.parallel, latency, features, device);
  if (rounds.tail > 0) {
    seconds += transfer(bytes * (1 - rounds.full), rate, rounds.tail, latency, features, device);
  }
  return seconds;
}

struct Terms {
  double math, dram, l2, shared;

  double longest() const { return std::max({math, dram, l2, shared}); }
  double total() const {
    return (1 - kOverlapLoss) * longest() + kOverlapLoss * (math + dram + l2 + shared);
  }
};

Terms terms(const Features& f, const DeviceSpec& device, const Spread& rounds) {
  const double units = std::max(device.units, 1);
  const double part = rounds.parallel / units;  // of the device's pipes that can be used
  const double latency = device.is_cuda() ? kMemoryLatencyGpu : kMemoryLatencyCpu;
  const double efficiency = std::clamp(f.math_efficiency, 1e-3, 1.0);
  Terms t{};
  t.math = f.math_ops / (peak_ops(f, device) * efficiency * part) * rounds.imbalance;
  t.dram = transfer_in_rounds(f.dram_bytes, device.dram_bytes_per_s, rounds, latency, f, device);
  // The on-chip levels answer several times faster than memory; what is in flight suffices there.
  t.l2 = transfer_in_rounds(f.l2_bytes, device.l2_bytes_per_s, rounds, 0, f, device);
  t.shared = f.shared_bytes / (device.shared_bytes_per_s * part) * rounds.imbalance;
  return t;
}

Limiter longest_term(const Terms& t) {
  const double longest = t.longest();
  if (t.math == longest) return Limiter::math;
  if (t.dram == longest) return Limiter::dram;
  return t.l2 == longest ? Limiter::l2 : Limiter::shared;
}

}  // namespace

Estimate estimate(const Features& features, const DeviceSpec& device) {
  const Spread rounds = spread(features, device);
  const Spread even{std::max(1.0, static_cast<double>(device.units)), 1, 0, 1};
  const Terms real = terms(features, device, rounds);
  const double ideal = terms(features, device, even).total();
  const double body = real.total();
  const double fixed = std::max(features.launches, 0.0) * device.launch_seconds +
                       device.latency_seconds + std::max(features.extra_seconds, 0.0);
  Estimate result;
  result.seconds = body + fixed;
  if (fixed > body) {
    result.limiter = Limiter::latency;
  } else if (body > kWavesShare * ideal) {
    result.limiter = Limiter::waves;
  } else {
    result.limiter = longest_term(real);
  }
  return result;
}

}  // namespace culet
