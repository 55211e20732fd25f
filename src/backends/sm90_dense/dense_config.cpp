// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Parsing, printing and resource arithmetic of the Hopper kernel's configurations.
#include "backends/sm90_dense/dense_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "backends/hopper_operands.h"

namespace culet::sm90_dense {

namespace {

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::invalid_argument, "sm90_dense: " + std::move(message));
}

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

/// A word that must be one of two; true for the first.
Result<bool> choice(const Config& config, std::string_view key, std::string_view yes,
                    std::string_view no) {
  const std::string_view value = config.get(key);
  if (value == yes) return true;
  if (value == no) return false;
  return wrong(fmt::format("{}={}: {} or {} is expected", key, value, yes, no));
}

Result<void> check_range(std::string_view key, std::int64_t value, std::int64_t low,
                         std::int64_t high) {
  if (value >= low && value <= high) return {};
  return wrong(fmt::format("{}={}: {}..{} is expected", key, value, low, high));
}

Result<void> check_shape(const DenseConfig& c) {
  const bool rows_ok = c.tile_m == 64 || c.tile_m == 128 || c.tile_m == 192 || c.tile_m == 256;
  const std::string_view rows = c.turned ? "columns" : "rows";
  const std::string_view columns = c.turned ? "rows" : "columns";
  if (!rows_ok) {
    return wrong(
        fmt::format("tile={}: {} {}; 64, 128, 192 or 256 can be", c.tile_text(), c.tile_m, rows));
  }
  if (c.tile_n < 16 || c.tile_n > 256 || c.tile_n % 8 != 0) {
    return wrong(fmt::format("tile={}: {} {}; 16..256 in steps of 8 can be", c.tile_text(),
                             c.tile_n, columns));
  }
  if (c.cluster_m == 3 || c.cluster_n == 3 || c.cluster_blocks() > 8) {
    return wrong(
        fmt::format("cluster={}: 1, 2 or 4 each way can be, times parts of k up to 8 blocks",
                    c.cluster_text()));
  }
  if (c.cluster_k > 1 && (c.pingpong || c.occupancy > 1 || c.splits > 1)) {
    return wrong(
        fmt::format("cluster={}: parts of k go with schedule=cooperative, occupancy=1 and splits=1",
                    c.cluster_text()));
  }
  if (c.tile_n % (8 * c.cluster_k) != 0 || c.stored_n() < 16) {
    return wrong(fmt::format("tile={}: {} {} in {} parts: multiples of 8, at least 16, can be",
                             c.tile_text(), c.tile_n, columns, c.cluster_k));
  }
  if (c.pingpong && c.tile_m > 128) {
    return wrong(fmt::format("tile={}: {} {} with schedule=pingpong; 64 or 128 can be",
                             c.tile_text(), c.tile_m, rows));
  }
  if (c.accumulators() > c.most_sums()) {
    return wrong(fmt::format("tile={}: {} accumulators a thread, at most {} fit", c.tile_text(),
                             c.accumulators(), c.most_sums()));
  }
  return {};
}

}  // namespace

std::string DenseConfig::tile_text() const {
  return turned ? fmt::format("{}x{}", tile_n, tile_m) : fmt::format("{}x{}", tile_m, tile_n);
}

std::string DenseConfig::cluster_text() const {
  const auto [m, n] = turned ? std::pair{cluster_n, cluster_m} : std::pair{cluster_m, cluster_n};
  return cluster_k == 1 ? fmt::format("{}x{}", m, n) : fmt::format("{}x{}x{}", m, n, cluster_k);
}

int DenseConfig::consumers() const {
  if (pingpong) return 2;
  return tile_m == 64 ? 1 : tile_m == 192 ? 3 : 2;
}

int DenseConfig::accumulators() const {
  const int rows = pingpong ? tile_m : tile_m / consumers();
  return rows / 64 * tile_n / 2;
}

int DenseConfig::most_sums() const {
  // Three consumers have 152 registers a thread, two have 232.
  return consumers() == 3 ? 100 : occupancy == 2 ? 128 : 192;
}

int DenseConfig::promotion_parts() const {
  const int rows_64 = accumulators() / (tile_n / 2);
  // Two sets take turns where a consumer has one block of 64 rows.
  if (rows_64 == 1 && accumulators() + tile_n <= most_sums()) return 2;
  return accumulators() + tile_n / 2 <= most_sums() ? 1 : 0;
}

Result<DenseConfig> DenseConfig::parse(const Config& config) {
  DenseConfig c;
  const auto tile = config.get_dims("tile");
  if (tile.size() != 3 || (tile[2] != 64 && tile[2] != 128)) {
    return wrong(fmt::format("tile={}: MxNx64 (16 bits) or MxNx128 (8 bits) is expected",
                             config.get("tile")));
  }
  const auto cluster = config.get_dims("cluster");
  if (cluster.size() != 2 && cluster.size() != 3) {
    return wrong(fmt::format("cluster={}: MxN or MxNxK is expected", config.get("cluster")));
  }
  for (const auto& [key, value, low, high] :
       {std::tuple{"tile", tile[0], 8, 256}, std::tuple{"tile", tile[1], 8, 256},
        std::tuple{"cluster", cluster[0], 1, 4}, std::tuple{"cluster", cluster[1], 1, 4},
        std::tuple{"cluster", cluster.size() == 3 ? cluster[2] : 1, 1, 8}}) {
    if (auto ok = check_range(key, value, low, high); !ok) return tl::unexpected(ok.error());
  }
  for (const auto& [key, high] : {std::pair{"stages", 32}, std::pair{"occupancy", 2},
                                  std::pair{"group", 1 << 20}, std::pair{"splits", 1024}}) {
    if (auto ok = check_range(key, config.get_int(key, 1), 1, high); !ok) {
      return tl::unexpected(ok.error());
    }
  }
  const auto pingpong = choice(config, "schedule", "pingpong", "cooperative");
  if (!pingpong) return tl::unexpected(pingpong.error());
  const auto along_n = choice(config, "raster", "n", "m");
  if (!along_n) return tl::unexpected(along_n.error());
  if (!config.get("wide").empty()) {
    const auto turned = choice(config, "wide", "b", "a");
    if (!turned) return tl::unexpected(turned.error());
    c.turned = *turned;
  }
  c.tile_m = static_cast<int>(tile[c.turned ? 1 : 0]);
  c.tile_n = static_cast<int>(tile[c.turned ? 0 : 1]);
  c.tile_k = static_cast<int>(tile[2]);
  c.cluster_m = static_cast<int>(cluster[c.turned ? 1 : 0]);
  c.cluster_n = static_cast<int>(cluster[c.turned ? 0 : 1]);
  c.cluster_k = cluster.size() == 3 ? static_cast<int>(cluster[2]) : 1;
  c.stages = static_cast<int>(config.get_int("stages", 4));
  c.pingpong = *pingpong;
  c.occupancy = static_cast<int>(config.get_int("occupancy", 1));
  c.along_n = *along_n != c.turned;
  c.group = static_cast<int>(config.get_int("group", 8));
  c.splits = static_cast<int>(config.get_int("splits", 1));
  if (auto ok = check_shape(c); !ok) return tl::unexpected(ok.error());
  return c;
}

Config DenseConfig::config() const {
  Config config;
  config.set("tile", fmt::format("{}x{}", tile_text(), tile_k));
  if (turned) config.set("wide", "b");
  config.set("cluster", cluster_text());
  config.set("stages", stages);
  config.set("schedule", pingpong ? "pingpong" : "cooperative");
  config.set("occupancy", occupancy);
  config.set("raster", along_n != turned ? "n" : "m");
  config.set("group", group);
  config.set("splits", splits);
  return config;
}

std::int64_t rows_of(const DenseConfig& config, const Problem& problem, std::int64_t m) {
  return config.turned ? problem.n : m;
}
std::int64_t columns_of(const DenseConfig& config, const Problem& problem, std::int64_t m) {
  return config.turned ? m : problem.n;
}
bool rows_along_k(const DenseConfig& config, const Problem& problem) {
  return config.turned ? hopper::b_along_k(problem) : hopper::a_along_k(problem);
}
bool columns_along_k(const DenseConfig& config, const Problem& problem) {
  return config.turned ? hopper::a_along_k(problem) : hopper::b_along_k(problem);
}

bool straddles(std::int64_t ld, DType dtype) { return ld * bits(dtype) % 1024 != 0; }

int tile_k_of(const Problem& problem) { return 128 * 8 / bits(problem.a); }

std::string refusal(const Problem& p, const DeviceSpec& device) {
  if (auto error = hopper::operands_error(p, device); !error.empty()) return error;
  const bool integers = is_integer(p.a);
  const bool float_d = hopper::is_16_bit_float(p.d) || p.d == DType::f32;
  if (!float_d && !(integers && p.d == DType::s32)) {
    return fmt::format("d={}: stores bf16, f16, f32 and, of integers, s32", to_string(p.d));
  }
  // Sums in f32 are more than acc=f16 asks for; integers and 16-bit floats have one way each.
  if (p.accumulate == Accumulate::f64) return "acc=f64: sums in f32 or s32";
  if (p.stride_d >= (std::int64_t{1} << 40) * 8 / bits(p.d)) {
    return fmt::format("strided={}: TMA needs batches less than 2^40 bytes apart", p.stride_d);
  }
  return {};
}

StorePath store_path(const Problem& problem) {
  const std::int64_t size = bits(problem.d) / 8;
  const auto rows_are_multiples_of = [&](std::int64_t bytes) {
    return problem.ldd * size % bytes == 0 && problem.stride_d * size % bytes == 0 &&
           problem.align_d % bytes == 0;
  };
  StorePath path;
  // The copy engine clips a store to whole 16-byte pieces of a row: with another n it would write
  // beyond D's columns (seen on an H200).
  path.tma = size >= 2 && problem.n * size % 16 == 0 && rows_are_multiples_of(16);
  path.element = static_cast<int>(size);
  path.pairs = rows_are_multiples_of(2 * size);
  return path;
}

namespace {

/// Stages, what a block receives where k is split in the cluster, and barriers.
std::int64_t bytes_without_slabs(const DenseConfig& config) {
  const std::int64_t received =
      std::int64_t{4} * config.tile_m * config.stored_n() * (config.cluster_k - 1);
  return config.stages * config.stage_bytes() + received + 16 * config.stages + 24;
}

}  // namespace

bool loads_ahead(const DenseConfig& config, const Problem& problem) {
  bool any_full = false;
  int words = 0;  // of a pair of elements, of all operands that are loaded so
  for (const EpilogueOperand& operand : problem.epilogue.operands()) {
    any_full = any_full || operand.index == EpilogueIndex::full;
    if (operand.index == EpilogueIndex::full || operand.index == EpilogueIndex::column)
      words += std::max(1, bits(operand.dtype) / 16);
  }
  // Two strips of eight pairs, by ptxas 13.0.
  const bool several = problem.epilogue.operands().size() > 1;
  const int most = config.occupancy == 2 ? 80 : several ? 144 : 160;
  return any_full && config.accumulators() + 16 * words <= most;
}

Slabs slabs_of(const DenseConfig& config, const StorePath& store, std::int64_t shared_limit) {
  Slabs slabs;
  // Rows of 128 bytes, or what divides the tile.
  slabs.columns = 128 / store.element;
  while (slabs.columns > config.stored_n()) slabs.columns /= 2;
  if (!store.tma) return slabs;
  const std::int64_t slab_bytes = std::int64_t{64} * slabs.columns * store.element;
  const std::int64_t left = shared_limit - bytes_without_slabs(config);
  // Four in flight hide a store's latency; a tile has no use for more than its own slabs.
  const std::int64_t useful =
      std::clamp(config.accumulators() * 2 / config.cluster_k / slabs.columns, 1, 4);
  slabs.buffers = static_cast<int>(
      std::clamp<std::int64_t>(left / (config.consumers() * slab_bytes), 0, useful));
  return slabs;
}

std::int64_t shared_bytes(const DenseConfig& config, const StorePath& store, const Slabs& slabs) {
  const std::int64_t slab_bytes = store.tma ? std::int64_t{64} * slabs.columns * store.element *
                                                  slabs.buffers * config.consumers()
                                            : 0;
  return bytes_without_slabs(config) + slab_bytes;
}

std::int64_t shared_limit(const DeviceSpec& device, int occupancy) {
  // A resident block takes 1 KiB more than it asks for.
  return std::min(device.shared_per_block, device.shared_per_unit / occupancy - 1024);
}

int fitting_stages(const DenseConfig& config, const StorePath& store, const DeviceSpec& device,
                   int cap) {
  const std::int64_t limit = shared_limit(device, config.occupancy);
  DenseConfig c = config;
  for (c.stages = cap; c.stages >= 2; --c.stages) {
    const Slabs slabs = slabs_of(c, store, limit);
    if (slabs.buffers > 0 && shared_bytes(c, store, slabs) <= limit) return c.stages;
  }
  return 0;
}

namespace {

/// Of the `lines` of a box only those that exist, where a block loads its tile alone and in lines
/// along k; else all.
MValue box(std::int64_t lines, bool of_m, const Problem& problem, bool alone_along_k) {
  if (!alone_along_k) return lines;
  if (of_m) return MValue::tiles_of_m(1, 1, lines);
  return std::clamp<std::int64_t>(problem.n, 1, lines);
}

}  // namespace

MValue row_box(const DenseConfig& config, const Problem& problem) {
  return box(config.tile_m / config.cluster_n, !config.turned, problem,
             config.cluster_n == 1 && rows_along_k(config, problem));
}

MValue column_box(const DenseConfig& config, const Problem& problem) {
  return box(ceil_div(config.tile_n / 8, config.cluster_m) * 8, config.turned, problem,
             config.cluster_m == 1 && columns_along_k(config, problem));
}

namespace {

/// What the operands' types and layouts ask of the tile's width.
std::string layout_error(const DenseConfig& config, const Problem& problem) {
  if (is_integer(problem.a) && config.tile_n % 16 != 0 && config.tile_n != 24) {
    return fmt::format("tile={}: WGMMA takes integers in widths of a multiple of 16",
                       config.tile_text());
  }
  // Every block's share of B is at least an atom of eight columns.
  if (config.tile_n < 8 * config.cluster_m) {
    return fmt::format("tile={} cluster={}: fewer than 8 {} a block", config.tile_text(),
                       config.cluster_text(), config.turned ? "rows" : "columns");
  }
  if (columns_along_k(config, problem) || config.tile_n % 32 == 0) return {};
  return fmt::format("tile={}: {} at a time", config.tile_text(),
                     config.turned ? "A contiguous in m is loaded 32 rows"
                                   : "B contiguous in n is loaded 32 columns");
}

}  // namespace

std::string config_error(const DenseConfig& config, const Problem& problem,
                         const DeviceSpec& device) {
  if (config.tile_k != tile_k_of(problem)) {
    return fmt::format("tile={}x{}: a stage of {} operands is {} of k", config.tile_text(),
                       config.tile_k, to_string(problem.a), tile_k_of(problem));
  }
  const StorePath store = store_path(problem);
  if (config.turned && !(store.tma && store.element == 2)) {
    return "wide=b: D has to be of 16 bits and in rows of a multiple of 16 bytes";
  }
  if (auto error = layout_error(config, problem); !error.empty()) return error;
  if (hopper::needs_promotion(problem) && config.promotion_parts() == 0) {
    return fmt::format("tile={}: {} sums a thread and those of a stage, at most {} fit",
                       config.tile_text(), config.accumulators(), config.most_sums());
  }
  const std::int64_t k_tiles = ceil_div(problem.k, config.tile_k);
  if (std::max(config.splits, config.cluster_k) > k_tiles) {
    return fmt::format("splits={} cluster={}: k={} has only {} tiles of {}", config.splits,
                       config.cluster_text(), problem.k, k_tiles, config.tile_k);
  }
  if (config.splits > 1 && config.accumulators() >= 192) {
    return fmt::format("splits={}: tile={} leaves no registers to sum parts", config.splits,
                       config.tile_text());
  }
  const std::int64_t limit = shared_limit(device, config.occupancy);
  const Slabs slabs = slabs_of(config, store, limit);
  if (config.stages < 2 || slabs.buffers == 0 || shared_bytes(config, store, slabs) > limit) {
    return fmt::format("stages={}: does not fit into {} bytes of shared memory", config.stages,
                       limit);
  }
  const Grid grid = grid_of(config, problem, device, problem.m_range.high);
  if (grid.pieces * config.cluster_blocks() > std::int64_t{1} << 30) {
    return fmt::format("{} tiles: more than 2^30", grid.pieces);
  }
  // Coordinates have 32 bits, also those of the last cluster's tiles beyond the edge.
  const std::int64_t rows = grid.tiles_m * config.cluster_m * config.tile_m;
  const std::int64_t columns = grid.tiles_n * config.cluster_n * config.tile_n;
  if (std::max(rows, columns) > INT32_MAX) {
    return fmt::format("tile={} cluster={}: the last tile ends beyond 2^31", config.tile_text(),
                       config.cluster_text());
  }
  return {};
}

Grid grid_of(const DenseConfig& config, const Problem& problem, const DeviceSpec& device,
             std::int64_t m) {
  Grid grid;
  grid.tiles_m =
      ceil_div(rows_of(config, problem, m), std::int64_t{config.tile_m} * config.cluster_m);
  grid.tiles_n =
      ceil_div(columns_of(config, problem, m), std::int64_t{config.tile_n} * config.cluster_n);
  grid.k_tiles = ceil_div(problem.k, config.tile_k);
  grid.pieces = grid.tiles_m * grid.tiles_n * problem.batch * config.splits;
  // Clusters lie within a GPC, which leaves multiprocessors over: of an H200's 132, clusters of 3,
  // 4, 6 and 8 blocks that fill shared memory get 117, 120, 102 and 120 (asked of the driver,
  // 2026-11-29). One cluster too many runs alone, after all others.
  const std::int64_t units = config.cluster_blocks() <= 2   ? device.units
                             : config.cluster_blocks() == 6 ? device.units * 102 / 132
                             : config.cluster_blocks() == 3 ? device.units * 117 / 132
                                                            : device.units * 120 / 132;
  grid.workers = std::max<std::int64_t>(units * config.occupancy / config.cluster_blocks(), 1);
  return grid;
}

}  // namespace culet::sm90_dense
