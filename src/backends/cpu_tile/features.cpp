// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the ranking model is told of a cpu_tile configuration.
#include <algorithm>
#include <cmath>

#include "backends/cpu_tile/tile_config.h"

namespace culet::cpu_tile {

namespace {

double tiles_of(std::int64_t size, std::int64_t tile) {
  return static_cast<double>((size + tile - 1) / tile);
}

}  // namespace

Features features_of(const Problem& problem, const TileConfig& c, const DeviceSpec& device) {
  Features f;
  const kernel::Extent e = extent_of(problem, c);
  const double batch = static_cast<double>(problem.batch);
  const double rows = static_cast<double>(e.rows), cols = static_cast<double>(e.cols);
  const double k = static_cast<double>(problem.k);
  const int lanes = lanes_of(level_of(device));
  const double element = problem.b == DType::bf16 ? 2 : 4;
  f.tensor = c.math != Math::f32;
  f.math_dtype = problem.b;
  const double mr = c.mr, nv = c.dot_products ? c.nr : static_cast<double>(c.nr) / lanes;
  f.math_ops = 2 * tiles_of(e.rows, c.mr) * mr * tiles_of(e.cols, c.nr) * c.nr * k * batch;
  f.math_efficiency = std::min(1.0, 1.35 * mr * nv / (mr + nv) / (mr * nv / (mr + nv) + 1));
  f.dram_bytes = (rows * k + cols * k) * element * batch;
  f.tiles = f.slots = c.threads;
  return f;
}

}  // namespace culet::cpu_tile
