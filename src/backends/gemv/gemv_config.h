// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A configuration of the GEMV kernel as numbers, and what follows from it and the problem.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "culet/backend.h"

namespace culet::gemv {

inline constexpr std::int64_t kMaxM = 8;

/// The Config's values.
struct GemvConfig {
  bool mma = false;  ///< multiplies with mma.sync, else on ordinary cores
  int rows = 2;      ///< of B, a warp; 16 with mma
  int unroll = 2;    ///< loads of a row in flight; with mma, pairs of them
  int warps = 8;     ///< of a block
  int k_warps = 1;   ///< of these, that share rows and split k
  int cluster = 1;   ///< blocks that split k

  /// Errors: a key that is missing or a value outside what the kernel can do, in one line. `math`
  /// and `cluster` may be missing.
  static Result<GemvConfig> parse(const Config& config);
  Config config() const;

  int tile_rows() const { return warps / k_warps * rows; }
  /// Bytes of k of one row that a warp takes at once.
  int chunk_bytes() const { return mma ? 128 : 512; }
  /// Bytes of B that a block has in flight.
  int bytes_in_flight() const { return warps * rows * unroll * chunk_bytes(); }
};

/// Registers a thread needs without spilling, fitted to compiled kernels.
std::int64_t registers(const GemvConfig& config, const Problem& problem);
/// Blocks a multiprocessor holds, at least one; the compiler is told.
std::int64_t occupancy(const GemvConfig& config, const Problem& problem, const DeviceSpec& device);
/// Blocks along n of a batch entry, those of a cluster counted once.
std::int64_t tiles_of(const GemvConfig& config, const Problem& problem);

/// Why a configuration cannot run the problem; empty if it can.
std::string config_error(const GemvConfig& config, const Problem& problem,
                         const DeviceSpec& device);

/// The whole space for a problem, in a fixed order.
std::vector<GemvConfig> space(const Problem& problem, const DeviceSpec& device);

std::optional<Features> features_of(const GemvConfig& config, const Problem& problem,
                                    const DeviceSpec& device);

}  // namespace culet::gemv
