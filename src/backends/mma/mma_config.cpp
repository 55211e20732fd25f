// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Parsing, printing and resource arithmetic of the general tensor-core kernel's configurations.
#include "backends/mma/mma_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace culet::mma {

namespace {

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::invalid_argument, "mma: " + std::move(message));
}

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

/// More than any shape where copying operands pays, and pieces of 16 bytes are counted in 32 bits.
constexpr std::int64_t kMostPackedBytes = std::int64_t{1} << 32;
/// Products of sizes may need more than 64 bits. Beyond 2^62 they stop instead of wrapping:
/// config_error() refuses far less.
__extension__ typedef __int128 Wide;
std::int64_t bounded(Wide bytes) {
  return static_cast<std::int64_t>(std::min(bytes, Wide{1} << 62));
}

/// Bytes of a row are counted in 31 bits, padding included.
constexpr std::int64_t kMostPackedRowBytes = INT32_MAX - 256;

bool power_of_two(std::int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

Result<void> check_shape(const MmaConfig& c) {
  if (c.tile_m % (16 * c.warps_m) != 0 || c.tile_n % (16 * c.warps_n) != 0) {
    return wrong(fmt::format("warps={}x{}: each must have a multiple of 16x16 of the tile {}x{}",
                             c.warps_m, c.warps_n, c.tile_m, c.tile_n));
  }
  if (!power_of_two(c.tile_k) || c.tile_k < 32 || c.tile_k > 128) {
    return wrong(fmt::format("tile: {} of k; 32, 64 or 128 can be", c.tile_k));
  }
  if (c.threads() != 128 && c.threads() != 256) {
    return wrong(fmt::format("warps={}x{}: 4 or 8 warps can be", c.warps_m, c.warps_n));
  }
  if (c.sums() > 128) {
    return wrong(fmt::format("warps={}x{}: {} sums a thread, at most 128 fit", c.warps_m, c.warps_n,
                             c.sums()));
  }
  return {};
}

/// The largest power of two up to 16 bytes that every line and batch entry starts at a multiple of.
int access_bytes(DType dtype, std::int64_t ld, std::int64_t stride, int align) {
  const std::int64_t size = bits(dtype) / 8;
  std::int64_t bytes = 16;
  while (bytes > size && (align % bytes != 0 || ld * size % bytes != 0 || stride * size % bytes)) {
    bytes /= 2;
  }
  return static_cast<int>(bytes);
}

Access access_of(DType dtype, bool k_fast, std::int64_t ld, std::int64_t stride, int align) {
  Access access;
  access.k_fast = k_fast;
  access.bytes = access_bytes(dtype, ld, stride, align);
  access.transposes = bits(dtype) == 8 && !k_fast;
  return access;
}

std::int64_t shared_limit(const DeviceSpec& device, int occupancy) {
  // A resident block takes 1 KiB more than it asks for.
  return std::min(device.shared_per_block, device.shared_per_unit / occupancy - 1024);
}

/// Registers for an operand's tile on its way to shared memory: two words for each of its own where
/// lines start anywhere, and addresses. Transposing takes some more. Fitted to compiled kernels.
int words_under_way(const Access& access, int lines, const MmaConfig& c, int size) {
  if (!access.through_registers()) return 0;
  const int words =
      static_cast<int>(ceil_div(std::int64_t{lines} * c.tile_k * size / 4, c.threads()));
  if (access.bytes >= 4) return words + 44;  // transposing
  return 2 * words + (access.transposes ? words + 32 : words / 2);
}

}  // namespace

Result<MmaConfig> MmaConfig::parse(const Config& config) {
  MmaConfig c;
  const auto tile = config.get_dims("tile"), warps = config.get_dims("warps");
  if (tile.size() != 3) {
    return wrong(fmt::format("tile={}: MxNxK is expected", config.get("tile")));
  }
  if (warps.size() != 2) {
    return wrong(fmt::format("warps={}: MxN is expected", config.get("warps")));
  }
  const std::string_view pack = config.has("pack") ? config.get("pack") : "none";
  if (pack != "none" && pack != "a" && pack != "b" && pack != "ab") {
    return wrong(fmt::format("pack={}: none, a, b or ab is expected", pack));
  }
  const std::string_view raster = config.get("raster");
  if (raster != "m" && raster != "n") {
    return wrong(fmt::format("raster={}: m or n is expected", raster));
  }
  for (const auto& [key, value, high] :
       {std::tuple{"tile", tile[0], 256}, std::tuple{"tile", tile[1], 256},
        std::tuple{"tile", tile[2], 128}, std::tuple{"warps", warps[0], 8},
        std::tuple{"warps", warps[1], 8}, std::tuple{"stages", config.get_int("stages", 4), 8},
        std::tuple{"occupancy", config.get_int("occupancy", 1), 16},
        std::tuple{"group", config.get_int("group", 8), 1 << 20},
        std::tuple{"splits", config.get_int("splits", 1), 1024}}) {
    if (value < 1 || value > high) {
      return wrong(fmt::format("{}={}: 1..{} is expected", key, value, high));
    }
  }
  c.tile_m = static_cast<int>(tile[0]);
  c.tile_n = static_cast<int>(tile[1]);
  c.tile_k = static_cast<int>(tile[2]);
  c.warps_m = static_cast<int>(warps[0]);
  c.warps_n = static_cast<int>(warps[1]);
  c.stages = static_cast<int>(config.get_int("stages", 4));
  c.occupancy = static_cast<int>(config.get_int("occupancy", 1));
  c.pack_a = pack == "a" || pack == "ab";
  c.pack_b = pack == "b" || pack == "ab";
  c.along_n = raster == "n";
  c.group = static_cast<int>(config.get_int("group", 8));
  c.splits = static_cast<int>(config.get_int("splits", 1));
  if (c.stages < 2) return wrong("stages=1: 2..8 is expected");
  if (auto ok = check_shape(c); !ok) return tl::unexpected(ok.error());
  return c;
}

Config MmaConfig::config() const {
  Config config;
  config.set("tile", fmt::format("{}x{}x{}", tile_m, tile_n, tile_k));
  config.set("warps", fmt::format("{}x{}", warps_m, warps_n));
  config.set("stages", stages);
  config.set("occupancy", occupancy);
  if (pack_a || pack_b) config.set("pack", !pack_b ? "a" : pack_a ? "ab" : "b");
  config.set("raster", along_n ? "n" : "m");
  config.set("group", group);
  config.set("splits", splits);
  return config;
}

Access access_a(const Problem& p) {
  return access_of(p.a, p.a_order == Order::row_major, p.lda, p.stride_a, p.align_a);
}

Access access_b(const Problem& p) {
  return access_of(p.b, p.b_order == Order::col_major, p.ldb, p.stride_b, p.align_b);
}

namespace {

Access tile_access(Access access, DType dtype, bool packed) {
  if (!packed) return access;
  // Bytes are packed contiguous in k.
  return {access.k_fast || bits(dtype) == 8, 16, false};
}

std::int64_t padded_k(const MmaConfig& c, const Problem& p) {
  return ceil_div(p.k, c.tile_k) * c.tile_k;
}

}  // namespace

Access tile_access_a(const MmaConfig& c, const Problem& p) {
  return tile_access(access_a(p), p.a, c.pack_a);
}

Access tile_access_b(const MmaConfig& c, const Problem& p) {
  return tile_access(access_b(p), p.b, c.pack_b);
}

MValue packed_lda(const MmaConfig& c, const Problem& p) {
  if (tile_access_a(c, p).k_fast) return padded_k(c, p);
  return MValue::tiles_of_m(8, 8);  // 16 bytes of 16-bit elements
}

std::int64_t packed_ldb(const MmaConfig& c, const Problem& p) {
  return tile_access_b(c, p).k_fast ? padded_k(c, p) : ceil_div(p.n, 8) * 8;
}

std::int64_t packed_a_bytes_of_tile(const MmaConfig& c, const Problem& p) {
  if (!c.pack_a) return 0;
  const std::int64_t k = tile_access_a(c, p).k_fast ? padded_k(c, p) : p.k;
  return bounded(Wide{c.tile_m} * k * bits(p.a) / 8 * (p.stride_a == 0 ? 1 : p.batch));
}

std::int64_t packed_b_bytes(const MmaConfig& c, const Problem& p) {
  if (!c.pack_b) return 0;
  const std::int64_t rows = tile_access_b(c, p).k_fast ? p.n : p.k;
  const Wide bytes =
      Wide{rows} * packed_ldb(c, p) * bits(p.b) / 8 * (p.stride_b == 0 ? 1 : p.batch);
  return ceil_div(bounded(bytes), 256) * 256;
}

bool d_pairs(const Problem& p) {
  const std::int64_t size = bits(p.d) / 8;
  return p.ldd % 2 == 0 && p.stride_d % 2 == 0 && p.align_d % (2 * size) == 0;
}

std::int64_t stage_bytes(const MmaConfig& config, const Problem& problem) {
  return std::int64_t{config.tile_k} * (config.tile_m + config.tile_n) * bits(problem.a) / 8;
}

std::int64_t shared_bytes(const MmaConfig& config, const Problem& problem) {
  return config.stages * stage_bytes(config, problem);
}

int registers(const MmaConfig& c, const Problem& p) {
  const int size = static_cast<int>(bits(p.a)) / 8;
  const Access a = tile_access_a(c, p), b = tile_access_b(c, p);
  // Two sets of fragments; of rows only one where a warp has more than two blocks of them.
  const int fragments = c.warp_m() / 4 * (c.warp_m() > 32 ? 1 : 2) + c.warp_n() / 4 * 2;
  // Fitted to compiled kernels: addresses, sizes and loop state, less where fragments die early.
  const bool float8 = p.a == DType::e4m3 || p.a == DType::e5m2;
  const int converting = !float8 ? 0 : c.warp_m() / 4 + (a.transposes || b.transposes ? 24 : 0);
  const int other = (p.epilogue.is_identity() ? 42 : 49) + converting;
  const int multiplying = c.sums() + fragments + words_under_way(a, c.tile_m, c, size) +
                          words_under_way(b, c.tile_n, c, size) + other;
  const int packing = c.pack_a || c.pack_b ? 96 : 0;
  return std::max(multiplying, packing);
}

int fitting_occupancy(const MmaConfig& c, const Problem& p, const DeviceSpec& device) {
  const std::int64_t by_registers =
      device.registers_per_unit / (c.threads() * ceil_div(registers(c, p), 8) * 8);
  const std::int64_t by_shared = device.shared_per_unit / (shared_bytes(c, p) + 1024);
  const std::int64_t by_threads = device.max_threads_per_unit / c.threads();
  // With words on their way through registers a fifth block had spills, a fourth with transposing.
  const Access a = tile_access_a(c, p), b = tile_access_b(c, p);
  const std::int64_t most = a.transposes || b.transposes                     ? 3
                            : a.through_registers() || b.through_registers() ? 4
                                                                             : 8;
  return static_cast<int>(
      std::clamp<std::int64_t>(std::min({by_registers, by_shared, by_threads}), 1, most));
}

Grid grid_of(const MmaConfig& config, const Problem& problem, std::int64_t m) {
  Grid grid;
  grid.tiles_m = ceil_div(m, config.tile_m);
  grid.tiles_n = ceil_div(problem.n, config.tile_n);
  grid.k_tiles = ceil_div(problem.k, config.tile_k);
  grid.pieces = grid.tiles_m * grid.tiles_n * problem.batch * config.splits;
  return grid;
}

std::string config_error(const MmaConfig& c, const Problem& p, const DeviceSpec& device) {
  const std::int64_t row_bytes = c.tile_k * bits(p.a) / 8;
  if (row_bytes != 64 && row_bytes != 128) {
    return fmt::format("tile: {} of k are {} bytes; 64 or 128 can be", c.tile_k, row_bytes);
  }
  const Grid grid = grid_of(c, p, p.m_range.high);
  if (c.splits > 1 && c.splits > grid.k_tiles) {
    return fmt::format("splits={}: k={} has only {} tiles of {}", c.splits, p.k, grid.k_tiles,
                       c.tile_k);
  }
  if (c.splits > 1 && c.sums() >= 128) {
    return fmt::format("splits={}: warps of {}x{} leave no registers to sum parts", c.splits,
                       c.warp_m(), c.warp_n());
  }
  if (shared_bytes(c, p) > shared_limit(device, c.occupancy)) {
    return fmt::format("stages={} occupancy={}: {} bytes of shared memory exceed {}", c.stages,
                       c.occupancy, shared_bytes(c, p), shared_limit(device, c.occupancy));
  }
  if (c.occupancy * c.threads() > device.max_threads_per_unit) {
    return fmt::format("occupancy={}: {} threads exceed {}", c.occupancy, c.occupancy * c.threads(),
                       device.max_threads_per_unit);
  }
  const std::int64_t packed =
      bounded(Wide{packed_a_bytes_of_tile(c, p)} * grid.tiles_m + packed_b_bytes(c, p));
  if (packed > kMostPackedBytes) {
    return fmt::format("pack: {} bytes exceed {}", packed, kMostPackedBytes);
  }
  const std::int64_t row = std::max({p.m_range.high, p.n, p.k}) * bits(p.a) / 8;
  if ((c.pack_a || c.pack_b) && row > kMostPackedRowBytes) {
    return fmt::format("pack: a row of {} bytes exceeds {}", row, kMostPackedRowBytes);
  }
  if (grid.pieces > INT32_MAX) return fmt::format("{} tiles: more than 2^31", grid.pieces);
  return {};
}

}  // namespace culet::mma
