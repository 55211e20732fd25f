// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A configuration of the general CUDA kernels as numbers, and what follows from it and the problem.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "culet/backend.h"
#include "culet/candidate.h"
#include "culet/device.h"
#include "culet/problem.h"

namespace culet::simt {

/// Two kernels: `tile`, a tiled GEMM, and `rows`, which streams B past a few rows of A.
struct SimtConfig {
  bool rows_kernel = false;
  // tile
  int tile_m = 64, tile_n = 64, tile_k = 16;
  int thread_m = 4, thread_n = 4;
  // rows
  int rows = 1;     ///< compiled for
  int columns = 1;  ///< per warp or lane, see simt_rows.cuh
  int warps_k = 1, warps_n = 4;

  static Result<SimtConfig> parse(const Config& config);
  Config config() const;
  int threads() const;
};

/// Elements that one load may take: as many as fit into 16 bytes and every line and batch starts at
/// a multiple of.
struct Vectors {
  int a = 1, b = 1;
};
Vectors vectors_of(const Problem& problem);

/// Columns of D that a block of the rows kernel computes.
std::int64_t block_columns(const SimtConfig& config, const Problem& problem);

/// Bytes of a number of the type that sums are held in.
int computing_bytes(const Problem& problem);

/// Why a configuration cannot run the problem; empty if it can.
std::string config_error(const SimtConfig& config, const Problem& problem);

std::vector<SimtConfig> space(const Problem& problem);

Features features_of(const SimtConfig& config, const Problem& problem, const DeviceSpec& device);

}  // namespace culet::simt
