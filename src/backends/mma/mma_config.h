// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A configuration of the general tensor-core kernel as numbers, and everything that follows from it
// and the problem: how operands are loaded, shared memory, registers, tiles, workspace. Source,
// launch and model all start from here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "culet/backend.h"
#include "culet/candidate.h"
#include "culet/device.h"
#include "culet/problem.h"

namespace culet::mma {

/// The Config's values.
struct MmaConfig {
  int tile_m = 128, tile_n = 128, tile_k = 32;  ///< of a block
  int warps_m = 2, warps_n = 4;
  int stages = 4;
  int occupancy = 1;                    ///< blocks a multiprocessor that registers are limited for
  bool pack_a = false, pack_b = false;  ///< copied to aligned rows, by the kernel itself, first
  // Run-time values from here on: they cost no compilation.
  bool along_n = false;
  int group = 8;
  int splits = 1;

  /// Errors: a key that is missing or a value outside what the kernel can do, in one line.
  static Result<MmaConfig> parse(const Config& config);
  Config config() const;

  int threads() const { return 32 * warps_m * warps_n; }
  int warp_m() const { return tile_m / warps_m; }
  int warp_n() const { return tile_n / warps_n; }
  /// Accumulators of a thread.
  int sums() const { return warp_m() * warp_n() / 32; }
};

/// How an operand is read, which depends on the problem alone.
struct Access {
  bool k_fast = true;       ///< contiguous in k
  int bytes = 16;           ///< what every line and batch entry starts at a multiple of, at most 16
  bool transposes = false;  ///< bytes that are not contiguous in k
  /// Asynchronous copies take 4, 8 or 16 bytes; all else passes through registers.
  bool through_registers() const { return transposes || bytes < 4; }
};
Access access_a(const Problem& problem);
Access access_b(const Problem& problem);
/// The same for tiles of a configuration, which may pack an operand.
Access tile_access_a(const MmaConfig& config, const Problem& problem);
Access tile_access_b(const MmaConfig& config, const Problem& problem);

/// Packed operands: elements from row to row, and bytes. A's rows depend on m where they are not
/// contiguous in k, and there is room for whole tiles of them: bytes a tile.
MValue packed_lda(const MmaConfig& config, const Problem& problem);
std::int64_t packed_ldb(const MmaConfig& config, const Problem& problem);
std::int64_t packed_a_bytes_of_tile(const MmaConfig& config, const Problem& problem);
std::int64_t packed_b_bytes(const MmaConfig& config, const Problem& problem);

/// D takes stores of two neighbours.
bool d_pairs(const Problem& problem);

std::int64_t stage_bytes(const MmaConfig& config, const Problem& problem);
std::int64_t shared_bytes(const MmaConfig& config, const Problem& problem);

/// Registers a thread needs without spilling: sums, fragments, what is on its way through
/// registers, and addresses.
int registers(const MmaConfig& config, const Problem& problem);

/// Blocks that a multiprocessor holds.
int fitting_occupancy(const MmaConfig& config, const Problem& problem, const DeviceSpec& device);

/// The grid of pieces for a number of rows of A.
struct Grid {
  std::int64_t tiles_m = 0, tiles_n = 0, k_tiles = 0;
  std::int64_t pieces = 0;  ///< over batches and splits
};
Grid grid_of(const MmaConfig& config, const Problem& problem, std::int64_t m);

/// Why a configuration cannot run the problem; empty if it can.
std::string config_error(const MmaConfig& config, const Problem& problem, const DeviceSpec& device);

/// Ways to walk the tiles that really differ: (along n, group).
std::vector<std::pair<bool, int>> rasters(const MmaConfig& config, const Problem& problem,
                                          const DeviceSpec& device);

/// The whole space for a problem, in a fixed order.
std::vector<MmaConfig> space(const Problem& problem, const DeviceSpec& device);

/// What the ranking model is told.
Features features_of(const MmaConfig& config, const Problem& problem, const DeviceSpec& device);

}  // namespace culet::mma
