// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A configuration of the Hopper kernel as numbers, and everything that follows from it and the
// problem: shared memory, registers, tiles, workspace. Source, launch and model all start from
// here.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "culet/candidate.h"
#include "culet/device.h"
#include "culet/problem.h"

namespace culet::sm90_dense {

/// The Config's values. Rows (m) and columns (n) here are WGMMA's: D's own, or, turned round, D's
/// columns and rows, A and B having changed places. Config text speaks of D's.
struct DenseConfig {
  /// wide=b: B is on WGMMA's side of multiples of 64, A on the one that goes in steps of eight.
  bool turned = false;
  int tile_m = 128, tile_n = 256;
  int tile_k = 64;  ///< 128 bytes: 64 elements of 16 bits, 128 of 8
  int cluster_m = 1, cluster_n = 1;
  int cluster_k = 1;  ///< blocks of a cluster that each take a part of a tile's k
  int stages = 4;
  bool pingpong = false;
  int occupancy = 1;
  // Run-time values from here on: they cost no compilation.
  bool along_n = false;
  int group = 8;
  int splits = 1;

  /// Errors: a key that is missing or a value outside what the kernel can do, in one line.
  static Result<DenseConfig> parse(const Config& config);
  Config config() const;

  /// Tile and cluster in D's terms, for messages.
  std::string tile_text() const;
  std::string cluster_text() const;

  int sharers() const { return cluster_m * cluster_n; }
  int cluster_blocks() const { return sharers() * cluster_k; }
  /// Columns that a block stores.
  int stored_n() const { return tile_n / cluster_k; }
  int consumers() const;
  int threads() const { return 128 * (1 + consumers()); }
  /// Accumulator registers of a consumer's thread.
  int accumulators() const;
  /// The most of them, with what sums of stages take, that leave registers for the rest.
  int most_sums() const;
  /// How many sets of sums of a stage fit beside them, where stages are promoted to f32: 2, 1 or 0.
  int promotion_parts() const;
  std::int64_t stage_bytes() const { return std::int64_t{128} * (tile_m + tile_n); }
};

/// The size of D along WGMMA's rows and columns, for a number of rows of A.
std::int64_t rows_of(const DenseConfig& config, const Problem& problem, std::int64_t m);
std::int64_t columns_of(const DenseConfig& config, const Problem& problem, std::int64_t m);
/// Whether the operand on the side of WGMMA's rows, and the one of its columns, is contiguous in k.
bool rows_along_k(const DenseConfig& config, const Problem& problem);
bool columns_along_k(const DenseConfig& config, const Problem& problem);

/// Whether lines of an operand start within the 128 bytes that L2 answers at once, so that each
/// line of a stage costs two requests.
bool straddles(std::int64_t ld, DType dtype);

/// Elements of k in a stage, 128 bytes.
int tile_k_of(const Problem& problem);

/// Why the kernel does not compute a problem at all; empty if it does.
std::string refusal(const Problem& problem, const DeviceSpec& device);

/// How D leaves the kernel, which depends on the problem alone.
struct StorePath {
  bool tma = false;    ///< through shared memory and the copy engine
  bool pairs = false;  ///< else: two neighbours in one store
  int element = 2;     ///< bytes of one
};
StorePath store_path(const Problem& problem);

/// Whether registers allow the epilogue to load operands as large as D before it needs them.
bool loads_ahead(const DenseConfig& config, const Problem& problem);

/// The epilogue's shared memory.
struct Slabs {
  int columns = 64;
  int buffers = 1;
};
/// For a configuration with a known number of stages; buffers is 0 where not even one fits.
Slabs slabs_of(const DenseConfig& config, const StorePath& store, std::int64_t shared_limit);

/// Shared memory of a block, bytes, as DenseShape in sm90_dense.cuh lays it out.
std::int64_t shared_bytes(const DenseConfig& config, const StorePath& store, const Slabs& slabs);

/// Shared memory a block may take when `occupancy` blocks are to be resident.
std::int64_t shared_limit(const DeviceSpec& device, int occupancy);

/// The most stages that fit together with an epilogue buffer, at most `cap`.
int fitting_stages(const DenseConfig& config, const StorePath& store, const DeviceSpec& device,
                   int cap);

/// Rows that are loaded at once. Where m has fewer than a tile, only those: filling rows
/// beyond the edge with zeros takes the copy engine longer than loading them (16x4096x4096 in 64x32
/// tiles on an H200: 20.5 us with full boxes, 15.9 without).
MValue row_box(const DenseConfig& config, const Problem& problem);

/// Columns that are loaded at once, likewise. Shares of a cluster's blocks are whole eights, and
/// may overlap.
MValue column_box(const DenseConfig& config, const Problem& problem);

/// Why a configuration cannot run the problem; empty if it can.
std::string config_error(const DenseConfig& config, const Problem& problem,
                         const DeviceSpec& device);

/// The grid of pieces for a number of rows of A.
struct Grid {
  std::int64_t tiles_m = 0, tiles_n = 0;  ///< of a cluster
  std::int64_t k_tiles = 0;
  std::int64_t pieces = 0;   ///< over batches and splits, of a cluster
  std::int64_t workers = 0;  ///< clusters resident at once
};
Grid grid_of(const DenseConfig& config, const Problem& problem, const DeviceSpec& device,
             std::int64_t m);

/// Ways to walk the tiles that really differ: (along n, group).
std::vector<std::pair<bool, int>> rasters(const DenseConfig& config, const Problem& problem,
                                          const DeviceSpec& device);

/// The whole space for a problem, in a fixed order.
std::vector<DenseConfig> space(const Problem& problem, const DeviceSpec& device);

/// Bytes read from memory, A and B together, given how tiles are walked: the footprint of every
/// wave of tiles, unless everything stays in L2.
double dram_read_bytes(const DenseConfig& config, const Problem& problem, const DeviceSpec& device);

}  // namespace culet::sm90_dense
