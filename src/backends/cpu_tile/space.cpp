// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Every cpu_tile configuration worth measuring for a problem.
#include <algorithm>
#include <set>

#include "backends/cpu_tile/tile_config.h"

namespace culet::cpu_tile {

namespace {

struct Tile {
  int mr, nv;
};

/// Collects configurations, each once, in order.
class Space {
 public:
  Space(const Problem& problem, const DeviceSpec& device)
      : problem_(problem), device_(device), lanes_(lanes_of(level_of(device))) {}

  void register_tiles(Math math, bool swap);
  void dot_products(Math math);
  /// One configuration with every way to split it over the threads.
  void add(TileConfig c);
  std::vector<TileConfig> take() { return std::move(out_); }

 private:
  std::vector<Tile> tiles(Math math, std::int64_t rows) const;
  std::vector<int> prefetches(const TileConfig& c) const;
  void blocked(TileConfig c);

  const Problem& problem_;
  const DeviceSpec& device_;
  int lanes_;
  std::set<std::string> seen_;
  std::vector<TileConfig> out_;
};

void Space::add(TileConfig c) {
  // Blocks that hold everything are the same as no blocks: one spelling.
  const kernel::Extent e = extent_of(problem_, c);
  if (c.jit) {
    if (c.blocking.kc >= e.k) c.blocking.kc = 0;
    if (c.blocking.mc >= e.rows) c.blocking.mc = 0;
    if (c.blocking.nc >= e.cols) c.blocking.nc = 0;
  }
  const auto with = [&](HostLaunch::Split split, int threads) {
    c.split = split;
    c.threads = threads;
    if (seen_.insert(c.config().text()).second) out_.push_back(c);
  };
  if (device_.threads <= 1) return with(HostLaunch::Split::none, 1);
  const std::int64_t m = std::max(problem_.m, problem_.m_range.high);
  const std::int64_t m_grain = c.swap ? c.nr : c.mr, n_grain = c.swap ? c.mr : c.nr;
  if (problem_.n > n_grain) with(HostLaunch::Split::n, device_.threads);
  if (m > m_grain && c.columns != Columnwise::through) with(HostLaunch::Split::m, device_.threads);
  if (problem_.n <= n_grain && m <= m_grain) with(HostLaunch::Split::none, 1);
}

std::vector<Tile> Space::tiles(Math math, std::int64_t rows) const {
  if (math == Math::amx) {
    if (rows <= 16) return {{16, 4}, {16, 3}, {16, 2}, {16, 1}};
    return {{32, 2}, {16, 4}, {64, 1}, {48, 1}};
  }
  // As many accumulators as the registers hold beside the operands: 32 registers from AVX-512 on.
  if (lanes_ == 8) {
    if (rows == 1) return {{1, 8}, {1, 12}};
    return {{6, 2}, {4, 3}, {4, 2}, {2, 5}, {3, 4}, {5, 2}, {8, 1}, {12, 1}};
  }
  if (rows == 1) return {{1, 16}, {1, 24}, {1, 8}};
  std::vector<Tile> out = {{14, 2}, {12, 2}, {10, 2}, {6, 4},  {9, 3},  {8, 3}, {7, 3},
                           {5, 4},  {4, 6},  {3, 8},  {2, 12}, {24, 1}, {28, 1}};
  // As many rows as there are, in one tile or two equal ones.
  for (const std::int64_t part : {rows, (rows + 1) / 2}) {
    if (part <= 14 && part > 1)
      out.push_back({static_cast<int>(part), static_cast<int>(std::min<std::int64_t>(
                                                 8, std::max<std::int64_t>(1, 26 / part)))});
  }
  std::erase_if(out, [&](const Tile& t) { return t.mr > rows + 3; });
  return out;
}

/// Steps to look ahead, by what is read from memory.
std::vector<int> Space::prefetches(const TileConfig& c) const {
  if (c.columns == Columnwise::prepack)
    return c.math == Math::amx ? std::vector<int>{0, 4, 8} : std::vector<int>{0, 16, 32};
  if (c.math == Math::amx) return c.swap ? std::vector<int>{0, 8} : std::vector<int>{0, 2};
  if (c.columns == Columnwise::pack)
    return is_tn(problem_) ? std::vector<int>{0} : std::vector<int>{0, 2};
  return c.mr == 1 ? std::vector<int>{0, 8} : std::vector<int>{0, 4, 8};
}

void Space::blocked(TileConfig c) {
  const kernel::Extent e = extent_of(problem_, c);
  for (const std::int64_t kc : {8, 16, 64, 128, 256, 512, 1024, 2048, 0}) {
    // A few rows of B at a time, along all of n, where D is a single row. (AVX2, 1x4096x4096: 3.8
    // ms at kc = 8, 5.3 to 6.3 at 64. Not measured on wider vectors, where 64 does well.)
    const bool streams = e.rows == 1 && lanes_ == 8 && c.columns == Columnwise::direct &&
                         c.math == Math::f32 && !c.copy_rows;
    if (kc > 0 && kc < 64 && !streams) continue;
    for (const std::int64_t mc : {0, 128, 256, 512}) {
      for (const std::int64_t nc : {0, 512, 1024, 2048}) {
        if (mc > 0 && (mc >= e.rows || c.columns == Columnwise::direct)) continue;
        if (nc > 0 && (nc >= e.cols || c.columns == Columnwise::direct)) continue;
        c.blocking.kc = kc;
        c.blocking.mc = mc == 0 ? 0 : kernel::round_up(mc - c.mr + 1, c.mr);
        c.blocking.nc = nc == 0 ? 0 : kernel::round_up(nc - c.nr + 1, c.nr);
        for (const int prefetch : prefetches(c)) {
          c.prefetch = prefetch;
          add(c);
        }
      }
    }
  }
}

void Space::register_tiles(Math math, bool swap) {
  TileConfig c;
  c.math = math;
  c.swap = swap;
  const bool tn = is_tn(problem_);
  const kernel::Extent e = extent_of(problem_, c);
  for (const Tile& tile : tiles(math, e.rows)) {
    c.mr = tile.mr;
    c.nr = tile.nv * lanes_;
    for (const Columnwise columns :
         {Columnwise::direct, Columnwise::pack, Columnwise::through, Columnwise::prepack}) {
      const bool in_place = columns == Columnwise::direct || columns == Columnwise::through;
      if (in_place && (tn || math == Math::amx)) continue;
      if (columns == Columnwise::through && e.rows <= tile.mr) continue;
      if (columns == Columnwise::prepack && (swap || !problem_.pack_b)) continue;
      c.columns = columns;
      const bool always = problem_.b == DType::bf16 && math == Math::f32;
      for (const bool copy : {false, true}) {
        if (always && !copy) continue;
        c.copy_rows = copy;
        blocked(c);
      }
    }
  }
}

void Space::dot_products(Math math) {
  TileConfig c;
  c.dot_products = true;
  c.math = math;
  const std::int64_t m = std::max(problem_.m, problem_.m_range.high);
  const std::vector<Tile> tiles =
      lanes_ == 16
          ? std::vector<Tile>{{1, 1}, {1, 2}, {1, 4}, {1, 8}, {2, 2}, {2, 4}, {2, 8},
                              {3, 4}, {4, 4}, {4, 6}, {5, 5}, {6, 4}, {8, 2}, {8, 3}}
          : std::vector<Tile>{{1, 1}, {1, 2}, {1, 4}, {1, 8}, {2, 2}, {2, 4}, {3, 3}, {4, 2}};
  for (const Tile& tile : tiles) {
    if (tile.mr > m) continue;
    c.mr = tile.mr;
    c.nr = tile.nv;
    c.unroll = std::max(1, 8 / (tile.mr * tile.nv));
    for (const int prefetch : {0, 16}) {
      c.prefetch = prefetch;
      add(c);
    }
  }
}

}  // namespace

std::vector<TileConfig> all_configs(const Problem& problem, const DeviceSpec& device, bool jit) {
  Space space(problem, device);
  const Level level = level_of(device);
  std::vector<Math> maths;
  if (problem.b == DType::bf16) {
    if (level >= Level::v4_amx) maths.push_back(Math::amx);
    if (level >= Level::v4_bf16) maths.push_back(Math::dot);
  }
  if (maths.empty() || problem.m == 1) maths.push_back(Math::f32);
  for (const Math math : maths) {
    if (is_tn(problem) && math != Math::amx && std::max(problem.m, problem.m_range.high) <= 64)
      space.dot_products(math);
    space.register_tiles(math, false);
    if (is_tn(problem)) space.register_tiles(math, true);
  }
  std::vector<TileConfig> out = jit ? space.take() : std::vector<TileConfig>{};
  if (problem.epilogue.is_identity()) {
    Space menu(problem, device);
    for (const TileConfig& config : menu_configs(problem, level)) menu.add(config);
    for (TileConfig& config : menu.take()) out.push_back(config);
  }
  return out;
}

}  // namespace culet::cpu_tile
