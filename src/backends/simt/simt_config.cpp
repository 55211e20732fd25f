// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Configurations of the general CUDA kernels: text, rules, the space.
#include "backends/simt/simt_config.h"

#include <fmt/format.h>

#include <algorithm>

namespace culet::simt {

namespace {

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::invalid_argument, "simt: " + std::move(message));
}

/// Elements of a load: up to 16 bytes, but no more than 8 elements, which all become registers.
int vector_of(DType dtype, std::int64_t ld, std::int64_t stride, int align) {
  const std::int64_t size = bits(dtype) / 8;
  for (std::int64_t bytes = std::min<std::int64_t>(16, 8 * size); bytes > size; bytes /= 2) {
    if (align % bytes == 0 && ld * size % bytes == 0 && stride * size % bytes == 0) {
      return static_cast<int>(bytes / size);
    }
  }
  return 1;
}

bool b_k_fast(const Problem& p) { return p.b_order == Order::col_major; }

/// Tiles worth having: the large ones reuse most, the flat ones waste least where m is small.
constexpr int kTiles[][4] = {
    {128, 128, 8, 8}, {128, 64, 8, 8}, {128, 64, 8, 4}, {64, 128, 8, 8}, {64, 64, 4, 4},
    {32, 64, 4, 4},   {32, 32, 2, 4},  {16, 128, 2, 8}, {16, 64, 2, 4},
};

}  // namespace

Result<SimtConfig> SimtConfig::parse(const Config& config) {
  SimtConfig c;
  const std::string_view kernel = config.get("kernel");
  if (kernel != "tile" && kernel != "rows") {
    return wrong(fmt::format("kernel={}: tile or rows is expected", kernel));
  }
  c.rows_kernel = kernel == "rows";
  const auto inside = [](const std::vector<std::int64_t>& dims, std::size_t count) {
    return dims.size() == count &&
           std::all_of(dims.begin(), dims.end(), [](std::int64_t x) { return x >= 1 && x <= 256; });
  };
  if (c.rows_kernel) {
    const auto warps = config.get_dims("warps");
    if (!inside(warps, 2)) return wrong("warps: KxN is expected, of 1..256 each");
    if (!inside({config.get_int("rows"), config.get_int("columns")}, 2)) {
      return wrong("rows and columns: 1..256 are expected");
    }
    c.rows = static_cast<int>(config.get_int("rows"));
    c.columns = static_cast<int>(config.get_int("columns"));
    c.warps_k = static_cast<int>(warps[0]);
    c.warps_n = static_cast<int>(warps[1]);
  } else {
    const auto tile = config.get_dims("tile"), thread = config.get_dims("thread");
    if (!inside(tile, 3)) return wrong("tile: MxNxK is expected, of 1..256 each");
    if (!inside(thread, 2)) return wrong("thread: MxN is expected, of 1..256 each");
    c.tile_m = static_cast<int>(tile[0]);
    c.tile_n = static_cast<int>(tile[1]);
    c.tile_k = static_cast<int>(tile[2]);
    c.thread_m = static_cast<int>(thread[0]);
    c.thread_n = static_cast<int>(thread[1]);
    if (c.tile_m % c.thread_m != 0 || c.tile_n % c.thread_n != 0 || c.thread_m * c.thread_n > 64) {
      return wrong("thread: must divide the tile, with at most 64 elements");
    }
  }
  if (c.threads() > 1024 || c.threads() % 32 != 0) {
    return wrong(fmt::format("{} threads: a multiple of 32 up to 1024 can be", c.threads()));
  }
  return c;
}

Config SimtConfig::config() const {
  Config config;
  config.set("kernel", rows_kernel ? "rows" : "tile");
  if (rows_kernel) {
    config.set("rows", rows);
    config.set("columns", columns);
    config.set("warps", fmt::format("{}x{}", warps_k, warps_n));
  } else {
    config.set("tile", fmt::format("{}x{}x{}", tile_m, tile_n, tile_k));
    config.set("thread", fmt::format("{}x{}", thread_m, thread_n));
  }
  return config;
}

int SimtConfig::threads() const {
  return rows_kernel ? 32 * warps_k * warps_n : tile_m / thread_m * (tile_n / thread_n);
}

Vectors vectors_of(const Problem& p) {
  return {vector_of(p.a, p.lda, p.stride_a, p.align_a),
          vector_of(p.b, p.ldb, p.stride_b, p.align_b)};
}

std::int64_t block_columns(const SimtConfig& config, const Problem& problem) {
  return std::int64_t{config.columns} * config.warps_n * (b_k_fast(problem) ? 1 : 32);
}

int computing_bytes(const Problem& problem) { return problem.a == DType::f64 ? 8 : 4; }

std::string config_error(const SimtConfig& c, const Problem& p) {
  if (c.rows_kernel) {
    if (p.m_range.high > c.rows) {
      return fmt::format("rows={}: the problem has {}", c.rows, p.m_range.high);
    }
    if (!b_k_fast(p) && c.columns != vectors_of(p).b) {
      return fmt::format("columns={}: a load of B takes {}", c.columns, vectors_of(p).b);
    }
    if (c.rows * c.columns > 64) return "rows and columns: at most 64 elements a thread";
    if (c.warps_k * c.warps_n >= 16 && c.rows * c.columns > 8 && b_k_fast(p))
      return "warps: 16 leave registers for 8 sums a thread, more would spill";
    const std::int64_t parts = std::int64_t{c.warps_k} * c.warps_n * c.rows * c.columns *
                               (b_k_fast(p) ? 1 : 32) * computing_bytes(p);
    if (c.warps_k > 1 && parts > 48 << 10) return "warps: their sums exceed 48 KiB";
    return {};
  }
  if (computing_bytes(p) == 8 && c.thread_m * c.thread_n > 32) {
    return "thread: at most 32 elements a thread in f64, more would spill";
  }
  if (bits(p.a) == 8 && c.thread_m * c.thread_n > 16)
    return "thread: at most 16 elements a thread of 8-bit operands, more would spill";
  const std::int64_t shared =
      std::int64_t{2} * c.tile_k * (c.tile_m + c.tile_n + 8) * computing_bytes(p);
  if (shared > 48 << 10)
    return fmt::format("tile: {} bytes of shared memory exceed 48 KiB", shared);
  return {};
}

std::vector<SimtConfig> space(const Problem& p) {
  std::vector<SimtConfig> all;
  const auto add = [&](const SimtConfig& config) {
    if (config_error(config, p).empty()) all.push_back(config);
  };
  if (p.m_range.high <= 8) {
    SimtConfig c;
    c.rows_kernel = true;
    c.rows = 1;
    while (c.rows < p.m_range.high) c.rows *= 2;
    for (const auto& [warps_k, warps_n] :
         {std::pair{1, 4}, std::pair{4, 1}, std::pair{8, 1}, std::pair{16, 1}}) {
      c.warps_k = warps_k;
      c.warps_n = warps_n;
      if (b_k_fast(p)) {
        for (const int columns : {1, 2, 4}) {
          c.columns = columns;
          add(c);
        }
      } else {
        c.columns = vectors_of(p).b;
        add(c);
      }
    }
  }
  for (const auto& [tile_m, tile_n, thread_m, thread_n] : kTiles) {
    // A tile is too large where one of half its size would do as well.
    if (tile_m > 16 && tile_m / 2 >= p.m_range.high) continue;
    if (tile_n > 32 && tile_n / 2 >= p.n) continue;
    SimtConfig c;
    c.tile_m = tile_m;
    c.tile_n = tile_n;
    c.thread_m = thread_m;
    c.thread_n = thread_n;
    c.tile_k = computing_bytes(p) == 8 && tile_m * tile_n > 4096 ? 8 : 16;
    add(c);
  }
  if (all.empty()) {  // few rows and few columns: the smallest flat tile serves
    SimtConfig c;
    c.tile_m = 16;
    c.tile_n = 64;
    c.tile_k = 16;
    c.thread_m = 2;
    c.thread_n = 4;
    add(c);
  }
  return all;
}

Features features_of(const SimtConfig& c, const Problem& p, const DeviceSpec& device) {
  const auto real = [](auto x) { return static_cast<double>(x); };
  const auto ceil_div = [](std::int64_t x, std::int64_t y) { return (x + y - 1) / y; };
  const double size_a = bits(p.a) / 8.0, size_b = bits(p.b) / 8.0, size_d = bits(p.d) / 8.0;
  const double k = real(p.k);
  Features f;
  f.tensor = false;
  // Operands are converted once and multiplied in the computing type.
  f.math_dtype = p.a == DType::f64 ? DType::f64 : is_integer(p.a) ? DType::s32 : DType::f32;
  f.dram_bytes = p.compulsory_bytes();
  const double per_unit =
      std::max(1.0, std::min(2.0, real(device.max_threads_per_unit) / std::max(c.threads(), 1)));
  if (c.rows_kernel) {
    const std::int64_t columns = block_columns(c, p);
    f.tiles = real(ceil_div(p.n, columns) * p.batch);
    f.slots = real(device.units) * std::max(1.0, 1024.0 / c.threads());
    // A conversion of B goes with every few multiply-adds, and one of A with each.
    f.math_ops = 2.0 * f.tiles * real(columns) * c.rows * k;
    f.math_efficiency = 0.25 * c.rows / (c.rows + 1.0);
    f.l2_bytes = f.tiles * k * (real(columns) * size_b + c.rows * size_a);
    const Vectors vectors = vectors_of(p);
    f.bytes_in_flight =
        1024.0 * 2 * c.columns * size_b * (p.b_order == Order::col_major ? vectors.b : 2);
    if (c.warps_k > 1) f.extra_seconds = 0.3e-6;
    return f;
  }
  f.tiles = real(ceil_div(p.m, c.tile_m) * ceil_div(p.n, c.tile_n) * p.batch);
  f.slots = real(device.units) * per_unit;
  f.math_ops = 2.0 * f.tiles * c.tile_m * c.tile_n * k;
  const double elements = c.thread_m * c.thread_n, loads = c.thread_m + c.thread_n;
  // Every multiply-add competes for issue slots with its share of shared-memory loads, four numbers
  // each, and with the loader's conversions.
  f.math_efficiency = 0.8 * elements / (elements + loads / 2.0);
  f.l2_bytes = f.tiles * k * (c.tile_m * size_a + c.tile_n * size_b) +
               real(p.m) * real(p.n) * real(p.batch) * size_d;
  f.shared_bytes =
      f.tiles * k * (c.threads() * loads * 0.5 + c.tile_m + c.tile_n) * computing_bytes(p);
  f.bytes_in_flight = c.tile_k * (c.tile_m * size_a + c.tile_n * size_b) * per_unit;
  return f;
}

}  // namespace culet::simt
