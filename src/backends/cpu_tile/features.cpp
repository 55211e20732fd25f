// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the ranking model is told of a cpu_tile configuration. Where a constant was measured, it was
// on one core of a server with AVX-512 and AMX (2 MiB of L2), weights cold; docs/cpu.md has the
// figures.
#include <algorithm>
#include <cmath>

#include "backends/cpu_tile/tile_config.h"

namespace culet::cpu_tile {

namespace {

// Seconds to pack one 32-bit unit: columns of k go through a register transpose (4096x4096 f32 took
// 10 ms more than without), into a panel that stays in the cache where no other block of rows comes
// back to it; rows of k are a copy.
constexpr double kPackColumnUnit = 0.5e-9;
constexpr double kPackColumnUnitCached = 0.25e-9;
constexpr double kPackRowUnit = 0.12e-9;
// A visit to a page no translation buffer remembers, in a virtual machine: 32768 visits cost 2 to
// 4 ms.
constexpr double kPageVisit = 6e-8;
constexpr double kPage = 4096;
constexpr double kLine = 64;
// Copying B itself, which is larger than the caches, ran at about 5 GB/s; A stays in them.
constexpr double kCopyRate = 5e9;
// Writing D through the transpose of `swap`, or through the element loop of an epilogue.
constexpr double kTransposedElement = 1e-9;
constexpr double kFinishedElement = 0.15e-9;

// Starting a register tile and adding it to the sums in memory, per 24 accumulators; a single row
// in place is not a call of its own.
constexpr double kTileStart = 5e-8;
constexpr double kRowTileStart = 1e-8;

double ceil_div(double x, double y) { return std::ceil(x / y); }

struct View {
  const Problem& problem;
  const TileConfig& c;
  const DeviceSpec& device;
  double rows, cols, k, element, kc, mc, nc, nv, l2;
  double q_unit_bytes;  ///< bytes of a panel per element of k and column
};

View view_of(const Problem& problem, const TileConfig& c, const DeviceSpec& device) {
  const kernel::Extent e = extent_of(problem, c);
  View v{problem, c, device, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  v.rows = static_cast<double>(std::max<std::int64_t>(e.rows, 1));
  v.cols = static_cast<double>(std::max<std::int64_t>(e.cols, 1));
  v.k = static_cast<double>(std::max<std::int64_t>(e.k, 1));
  v.element = problem.b == DType::bf16 ? 2 : 4;
  v.kc = c.blocking.kc == 0 ? v.k : std::min<double>(static_cast<double>(c.blocking.kc), v.k);
  v.mc = c.blocking.mc == 0 ? v.rows : std::min<double>(static_cast<double>(c.blocking.mc), v.rows);
  v.nc = c.blocking.nc == 0 ? v.cols : std::min<double>(static_cast<double>(c.blocking.nc), v.cols);
  v.nv = c.dot_products ? c.nr : static_cast<double>(c.nr) / lanes_of(level_of(device));
  v.l2 = static_cast<double>(std::max<std::int64_t>(device.l2_bytes, 256 << 10));
  v.q_unit_bytes = c.math == Math::f32 ? 4 : 2;
  return v;
}

/// What is said of AVX2 was measured on one core of a server whose vectors are half as wide inside
/// (512 KiB of L2, 8 MiB of L3).
bool avx2(const View& v) { return lanes_of(level_of(v.device)) == 8; }

/// No block of rows but one, which the second-level cache holds beside a panel.
bool one_row_block(const View& v) {
  return v.mc >= v.rows && (v.rows + 2 * v.c.nr) * v.kc * v.element < 0.8 * v.l2;
}

/// Share of the peak in the steady state of a register tile.
double tile_efficiency(const View& v) {
  const double mr = v.c.mr, accumulators = mr * v.nv;
  if (v.c.math == Math::amx) {
    // A tile load takes half the time of a tile product; 2x2 loads four for four products.
    const double rt = mr / 16, loads = rt + v.nv, products = rt * v.nv;
    double efficiency = 0.85 * std::min(1.0, products / loads) * (products >= 4 ? 1 : 0.7);
    const bool crowded =
        !v.c.copy_rows && !v.c.swap && (v.problem.lda * 2) % static_cast<std::int64_t>(kPage) == 0;
    return crowded ? 0.85 * efficiency : efficiency;
  }
  // Eight to ten accumulators hide the latency of a multiply-add. Fewer loads for each of them are
  // better though two a cycle would do: 6x64 was 5 to 10 % faster than 14x32 and 12x32.
  const double loads = (mr + v.nv) / accumulators;
  double efficiency = 1.09 * std::min(1.0, accumulators / 10) / (1 + 0.35 * loads);
  // Rows a power of two apart meet in one cache set.
  const std::int64_t pitch = (v.c.swap ? v.problem.ldb : v.problem.lda) * 4;
  const bool tall = avx2(v) ? mr > 3 && (!v.c.swap || v.cols > 128) : mr > 8 && !v.c.swap;
  const bool crowded =
      tall && !v.c.copy_rows && !v.c.dot_products && pitch % static_cast<std::int64_t>(kPage) == 0;
  if (crowded) efficiency *= 0.97;
  // In place, every row tile reads rows of k a page apart again: 64x4096x4096 took 45 ms with 8x48
  // at kc = 1024, twice the library's time. Reading so once, on the way, still cost 2048x2048x2048
  // a third.
  if (v.c.columns == Columnwise::direct && !v.c.dot_products && v.rows > 32) efficiency *= 0.5;
  if (v.c.columns == Columnwise::through && v.rows > 512 && !avx2(v)) efficiency *= 0.8;
  // Sixteen registers: one vector wide has a load for each multiply-add, four and five spill or
  // load as much (share of the peak on data in the first cache: 0.81, 0.87, 0.86; two and three:
  // 0.98).
  if (avx2(v) && !v.c.dot_products) efficiency *= v.nv == 1 || v.nv >= 4 ? 0.87 : 1;
  // Lanes are summed once per tile: about ten instructions an accumulator.
  if (v.c.dot_products) efficiency /= 1 + 160 / v.k;
  return efficiency;
}

/// Seconds that row tiles wait for rows of B in place on the AVX2 machine. Rows a multiple of 4 KB
/// apart share a set of the first cache, so every row tile fetches its lines from the second again,
/// and those of a panel of more than 256 rows from memory. 16x4096x4096: 6x16 (three row
/// tiles) 16.3, 37, 44 and 55 ms at kc = 256, 512, 1024 and all; 4x16 (four) 17.7 ms and 4x24,
/// which cuts lines in two, 20.5.
double waiting_in_place(const View& v) {
  const double pitch = static_cast<double>(v.problem.ldb) * v.element;
  if (!avx2(v) || v.c.columns != Columnwise::direct || v.rows == 1) return 0;
  if (std::fmod(pitch, kPage) != 0) return 0;
  const double run = v.c.nr * v.element;
  const double lines = v.k * ceil_div(v.cols, v.c.nr) * ceil_div(run, kLine);
  const double near = std::fmod(run, kLine) == 0 ? 0.5e-9 : 1e-9;
  const double line = v.kc <= 256 ? near : v.kc <= 512 ? 6e-9 : v.kc <= 1024 ? 9e-9 : 12e-9;
  return lines * ceil_div(v.rows, v.c.mr) * line;
}

/// Bytes of B's rows from memory, weighted by how well this order of reading suits it: short runs,
/// and more rows at a time than pages are remembered, keep the prefetchers from following. 8x48
/// took 5.1, 8.8 and 8.9 ms at kc = 64, 128, 256, 4x96 4.7 and 5.5 ms at 64 and 128; a second read
/// of the same weights in one pass came from the cache.
double row_reading(const View& v) {
  const bool packs = v.c.columns == Columnwise::pack;
  // So few rows that every one is a stream of its own, from panel to panel.
  if (!packs && v.kc <= 16) return v.kc <= 8 ? 0.75 : 0.9;
  const double run = (packs ? std::min(v.nc, v.cols) : v.c.nr) * v.element;
  double factor = run >= 1024 ? 1 : run >= 384 ? 1.02 : run >= 256 ? 1.1 : run >= 192 ? 1.15 : 1.25;
  if (!packs) {
    factor *= v.kc <= 64 ? 1 : v.kc <= 128 ? 1.15 : v.kc <= 256 ? 1.35 : v.kc <= 512 ? 1.5 : 1.7;
  }
  return factor;
}

void add_packing(const View& v, Features* f) {
  const double units = v.cols * v.k * (v.c.math == Math::f32 ? 1 : 0.5);
  if (v.c.columns == Columnwise::pack) {
    const bool by_columns = is_tn(v.problem);
    const double column = one_row_block(v) ? kPackColumnUnitCached : kPackColumnUnit;
    f->extra_seconds += units * (by_columns ? column : kPackRowUnit);
    // A block of rows is packed before it is multiplied, so what the last cache does not hold of it
    // is waited for twice. 64x4096x4096: 62, 67, 71 and 73 ms at kc = 128, 256, 512 and 1024.
    if (!by_columns && avx2(v) && v.device.l3_bytes > 0) {
      const double block = v.kc * std::min(v.nc, v.cols) * v.q_unit_bytes;
      const double outside = std::min(1.0, block / static_cast<double>(v.device.l3_bytes));
      f->extra_seconds += 2 * outside * v.cols * v.k * v.q_unit_bytes / v.device.dram_bytes_per_s;
    }
  }
  if (v.c.columns == Columnwise::through) f->extra_seconds += units * kPackRowUnit / 2;
  if (v.c.copy_rows || (v.element == 2 && v.c.math == Math::f32)) {
    const bool once = v.kc >= v.k && v.mc >= v.rows;
    const double times = once ? 1 : ceil_div(v.cols, v.nc);
    const double rate = v.c.swap ? kCopyRate : 2 * kCopyRate;
    f->extra_seconds += v.rows * v.k * v.element * times / rate;
  }
}

void add_traffic(const View& v, Features* f) {
  const double row_bytes = v.rows * v.k * v.element;
  const double col_bytes = v.cols * v.k * v.element;
  const double panels = ceil_div(v.cols, v.c.nr), row_tiles = ceil_div(v.rows, v.c.mr);
  const double k_blocks = ceil_div(v.k, v.kc);
  const bool in_rows = !is_tn(v.problem) && v.c.columns != Columnwise::prepack;

  // R again for every block of columns, or for every panel where its block outgrows the cache.
  const bool r_stays = v.mc * v.kc * v.element < 0.6 * v.l2;
  const double r_reads = row_bytes < 0.6 * v.l2 ? 1 : r_stays ? ceil_div(v.cols, v.nc) : panels;
  f->dram_bytes += row_bytes * r_reads;
  f->l2_bytes += row_bytes * panels;
  // Q once, then its panels again for every row tile.
  f->dram_bytes += col_bytes * (in_rows ? row_reading(v) : 1);
  // The first row tile waits for what it reads in place, whatever the others compute: 64x4096x4096
  // took 22.8 ms at kc = 128 and 24.9 ms at all of k.
  if (v.c.columns == Columnwise::through) {
    f->extra_seconds += (row_reading(v) - 1) * col_bytes / v.device.dram_bytes_per_s;
  }
  f->extra_seconds += waiting_in_place(v);
  const double panel_bytes = v.kc * v.c.nr * v.q_unit_bytes;
  if (panel_bytes > 0.7 * static_cast<double>(v.device.l1_bytes)) {
    f->l2_bytes += v.cols * v.k * v.q_unit_bytes * row_tiles;
  }
  const double block_bytes = panel_bytes * ceil_div(std::min(v.nc, v.cols), v.c.nr);
  const double row_blocks = ceil_div(v.rows, v.mc);
  if (block_bytes > 0.7 * v.l2) f->dram_bytes += col_bytes * (row_blocks - 1);
  if (v.c.columns == Columnwise::pack && in_rows && block_bytes > 0.6 * v.l2) {
    f->dram_bytes += 2 * col_bytes;  // the packed block leaves the cache and comes back
  }
  const double accumulators = std::max(1.0, v.c.mr * v.nv / 24);
  const bool row_in_place = v.c.mr == 1 && v.c.columns == Columnwise::direct;
  const double start = row_in_place ? kRowTileStart : kTileStart;
  f->extra_seconds +=
      row_tiles * panels * k_blocks * start * (v.c.math == Math::amx ? 1 : accumulators);
  // Partial sums, read and written once a block of k.
  const double sums = v.rows * v.cols * 4 * (2 * k_blocks - 1);
  if (std::min(v.nc, v.cols) * v.rows * 4 < 0.5 * v.l2) {
    f->l2_bytes += sums;
  } else {
    f->dram_bytes += sums * (k_blocks > 1 ? 1 : 0.5);
  }

  // Pages visited anew.
  const double pitch = static_cast<double>(v.problem.ldb) * v.element;
  if (in_rows && v.nc < v.cols) {
    f->extra_seconds += v.k * ceil_div(v.cols, v.nc) * std::min(1.0, pitch / kPage) * kPageVisit;
  }
  if (is_tn(v.problem) && v.c.columns != Columnwise::prepack && k_blocks > 1) {
    f->extra_seconds +=
        static_cast<double>(v.problem.n) * k_blocks * std::min(1.0, pitch / kPage) * kPageVisit;
  }
}

/// The prefetch distance that did best where such a configuration led. The others, within a few per
/// cent, are worth measuring only after other tiles and blocks have been.
int usual_prefetch(const View& v) {
  if (v.c.dot_products) return v.rows <= 8 ? 16 : 0;
  if (v.c.columns == Columnwise::prepack) {
    return v.rows > 64 ? 0 : v.c.math == Math::amx ? 4 : 16;
  }
  if (v.c.math == Math::amx) return v.c.swap || is_tn(v.problem) ? 0 : 2;
  if (v.c.columns == Columnwise::pack) return is_tn(v.problem) ? 0 : 2;
  return v.c.mr == 1 ? 0 : 4;
}

}  // namespace

Features features_of(const Problem& problem, const TileConfig& c, const DeviceSpec& device) {
  const View v = view_of(problem, c, device);
  Features f;
  const double row_tiles = ceil_div(v.rows, c.mr);
  double padded_cols = ceil_div(v.cols, c.nr) * c.nr;
  double padded_rows = v.rows;
  const int lanes = lanes_of(level_of(device));
  if (c.math == Math::amx) {
    padded_rows = row_tiles * c.mr;
  } else if (c.jit && !c.dot_products) {
    padded_cols = ceil_div(v.cols, lanes) * lanes;
  }
  if (c.dot_products) padded_cols = v.cols;
  f.math_ops = 2 * padded_rows * padded_cols * v.k;
  f.math_efficiency = tile_efficiency(v);
  // A last tile of few rows has the loads of a whole one.
  if (c.math != Math::amx) {
    f.math_efficiency *= 0.7 + 0.3 * v.rows / (row_tiles * c.mr);
  }
  f.math_dtype = problem.b;
  f.tensor = c.math != Math::f32;
  if (c.math == Math::f32 || (c.math == Math::dot && level_of(device) == Level::v4_amx)) {
    // Where there are tiles too, pairs of bf16 run at about the rate of f32.
    f.tensor = false;
    f.math_dtype = DType::f32;
  }
  // The rate known is that of pairs; tiles do sixteen times as much a cycle where they are fed.
  if (c.math == Math::amx) f.math_ops /= 8;
  if (c.dot_products) {
    const double a_bytes = v.rows * v.k * v.element;
    f.dram_bytes = a_bytes + v.cols * v.k * v.element;
    f.l2_bytes = a_bytes * ceil_div(v.cols, c.nr) + (row_tiles - 1) * v.cols * v.k * v.element;
  } else {
    add_traffic(v, &f);
    add_packing(v, &f);
  }
  // One row reads weights as fast where they lie: 3.6 ms in place, 3.8 ms in panels.
  if (v.rows == 1 && c.columns == Columnwise::prepack) f.dram_bytes *= 1.05;
  const bool plain = problem.d == DType::f32 && problem.epilogue.is_identity();
  f.extra_seconds += v.rows * v.cols * (c.swap ? kTransposedElement : plain ? 0 : kFinishedElement);
  const bool idle_copy = c.copy_rows && v.rows <= 4 && c.math != Math::f32;
  // Of the blocks of R that fit, the largest within 0.4 of the cache did best as often as not; the
  // others only crowd the list.
  const double wanted_mc = (avx2(v) ? 0.55 : 0.4) * v.l2 / (v.kc * v.element);
  const bool panel_stays =
      c.columns == Columnwise::pack && is_tn(problem) && !c.swap && one_row_block(v);
  const bool odd_mc =
      !c.dot_products && v.rows > 128 && !panel_stays &&
      (v.mc > wanted_mc || (v.mc < v.rows && (avx2(v) ? 4 : 2.1) * v.mc < wanted_mc));
  if (odd_mc) f.math_efficiency *= 0.97;
  if (c.prefetch != usual_prefetch(v) || idle_copy) {
    f.dram_bytes *= 1.06;
    f.math_efficiency *= 0.94;
  }
  const double batch = static_cast<double>(problem.batch);
  f.math_ops *= batch;
  f.dram_bytes *= batch;
  f.l2_bytes *= batch;
  f.extra_seconds *= batch / std::max(1, c.threads);
  f.tiles = f.slots = c.threads;
  // The precompiled kernels have their sizes at run time and one blocking for all.
  if (!c.jit) f.math_efficiency *= 0.97;
  return f;
}

}  // namespace culet::cpu_tile
