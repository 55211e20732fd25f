// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A configuration of the Hopper decode kernel as numbers, and what follows from it and the problem:
// shared memory, registers, blocks. Source, launch, space and model all start from here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "culet/backend.h"

namespace culet::sm90_stream {

inline constexpr std::int64_t kMaxM = 128;

inline std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }
inline std::int64_t round_up(std::int64_t x, std::int64_t y) { return ceil_div(x, y) * y; }

/// The Config's values.
struct StreamConfig {
  int rows = 64;       ///< of B, a block
  bool wide_b = true;  ///< B stands on WGMMA's side of 64, else A
  int boxes = 2;       ///< of 128 bytes of k, a stage
  int stages = 4;      ///< of B
  int a_stages = 4;    ///< of A
  int groups = 1;      ///< consumer warpgroups, which take the stages in turn
  int cluster = 1;     ///< blocks that split k
  int share = 1;       ///< blocks that share A

  /// Errors: a key that is missing or a value outside what the kernel can do, in one line. `wide`,
  /// `a_stages` and `share` may be missing.
  static Result<StreamConfig> parse(const Config& config);
  Config config() const;

  friend bool operator==(const StreamConfig&, const StreamConfig&) = default;
};

/// A configuration on a problem; the members mirror StreamShape in sm90_stream.cuh.
struct StreamShape {
  StreamConfig c;
  std::int64_t width = 8;  ///< rows of A that a block holds
  bool promote = false;    ///< a second set of sums
  bool integers = false;

  StreamShape(const StreamConfig& config, const Problem& problem);

  std::int64_t wide() const { return c.wide_b ? c.rows : width; }
  std::int64_t narrow() const { return c.wide_b ? width : c.rows; }
  std::int64_t blocks() const { return ceil_div(wide(), 64); }
  std::int64_t threads() const { return 128 * c.groups + 64; }
  std::int64_t stage_a() const { return c.boxes * width * 128; }
  std::int64_t stage_b() const { return std::int64_t{128} * c.boxes * c.rows; }
  std::int64_t part_bytes() const;
  std::int64_t shared_bytes() const;
  /// A thread's: the sums, and what addressing takes beside them in compiled kernels.
  std::int64_t registers() const;
};

/// Elements of k in a box.
std::int64_t box_k(const Problem& problem);

/// Tiles along n of a batch entry, whole clusters of those that share A.
std::int64_t tiles_of(const StreamConfig& config, const Problem& problem);

/// Why a configuration cannot run the problem; empty if it can.
std::string config_error(const StreamConfig& config, const Problem& problem,
                         const DeviceSpec& device);

/// Blocks a multiprocessor holds, at least one.
std::int64_t occupancy(const StreamShape& shape, const DeviceSpec& device);

/// The whole space for a problem, in a fixed order.
std::vector<StreamConfig> space(const Problem& problem, const DeviceSpec& device);

std::optional<Features> features_of(const StreamConfig& config, const Problem& problem,
                                    const DeviceSpec& device);

}  // namespace culet::sm90_stream
