// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// cpu_tile configurations: to and from text, and the launch that follows from one.
#include "backends/cpu_tile/tile_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backends/threads_key.h"

namespace culet::cpu_tile {

namespace {

constexpr std::int64_t kMostBlock = std::int64_t{1} << 31;  // no size is larger

template <typename T>
using Names = std::vector<std::pair<std::string_view, T>>;

const Names<Math>& math_names() {
  static const Names<Math> names = {{"f32", Math::f32}, {"dot", Math::dot}, {"amx", Math::amx}};
  return names;
}
const Names<Columnwise>& column_names() {
  static const Names<Columnwise> names = {{"direct", Columnwise::direct},
                                          {"pack", Columnwise::pack},
                                          {"through", Columnwise::through},
                                          {"prepack", Columnwise::prepack}};
  return names;
}
const Names<HostLaunch::Split>& split_names() {
  static const Names<HostLaunch::Split> names = {
      {"none", HostLaunch::Split::none}, {"m", HostLaunch::Split::m}, {"n", HostLaunch::Split::n}};
  return names;
}

template <typename T>
std::string_view name_of(const Names<T>& names, T value) {
  for (const auto& [name, known] : names)
    if (known == value) return name;
  return {};
}

template <typename T>
Result<void> read_name(const Config& config, std::string_view key, const Names<T>& names,
                       T* value) {
  for (const auto& [name, known] : names) {
    if (name == config.get(key)) {
      *value = known;
      return {};
    }
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("cpu_tile: {}={} is not one of its values", key, config.get(key)));
}

}  // namespace

Level level_of(const DeviceSpec& device) {
  if (device.architecture == "x86-64-v4-amx") return Level::v4_amx;
  if (device.architecture == "x86-64-v4-bf16") return Level::v4_bf16;
  if (device.architecture == "x86-64-v4") return Level::v4;
  if (device.architecture == "x86-64-v3") return Level::v3;
  return Level::none;
}

int lanes_of(Level level) { return level >= Level::v4 ? 16 : 8; }

Level menu_level(const TileConfig& config, Level device) {
  if (config.math == Math::amx) return Level::v4_amx;
  if (config.math == Math::dot) return Level::v4_bf16;
  return std::min(device, Level::v4);
}

Config TileConfig::config() const {
  Config out;
  out.set("code", jit ? "jit" : "menu");
  out.set("kernel", dot_products ? "dot" : "tile");
  out.set("math", name_of(math_names(), math));
  out.set("tile", fmt::format("{}x{}", mr, nr));
  out.set("b", name_of(column_names(), columns));
  out.set("swap", swap ? 1 : 0);
  out.set("copy", copy_rows ? 1 : 0);
  if (jit) {
    out.set("block", fmt::format("{}x{}x{}", blocking.mc, blocking.nc, blocking.kc));
    out.set("unroll", unroll);
    out.set("prefetch", prefetch);
  }
  out.set("threads", threads);
  out.set("split", name_of(split_names(), split));
  return out;
}

Result<TileConfig> TileConfig::parse(const Config& config, const DeviceSpec& device) {
  TileConfig out;
  const std::string_view code = config.get("code");
  if (code != "jit" && code != "menu") {
    return fail(ErrorCode::invalid_argument, "cpu_tile: code must be jit or menu");
  }
  out.jit = code == "jit";
  out.dot_products = config.get("kernel") == "dot";
  if (auto ok = read_name(config, "math", math_names(), &out.math); !ok)
    return tl::unexpected(ok.error());
  if (auto ok = read_name(config, "b", column_names(), &out.columns); !ok)
    return tl::unexpected(ok.error());
  if (auto ok = read_name(config, "split", split_names(), &out.split); !ok)
    return tl::unexpected(ok.error());
  const auto tile = config.get_dims("tile");
  if (tile.size() != 2 || tile[0] < 1 || tile[0] > 64 || tile[1] < 1 || tile[1] > 1024) {
    return fail(ErrorCode::invalid_argument, "cpu_tile: tile must be ROWSxCOLUMNS");
  }
  out.mr = static_cast<int>(tile[0]);
  out.nr = static_cast<int>(tile[1]);
  out.swap = config.get_int("swap") != 0;
  out.copy_rows = config.get_int("copy") != 0;
  const auto threads = parse_threads("cpu_tile", config, device, 1);
  if (!threads) return tl::unexpected(threads.error());
  out.threads = *threads;
  if (!out.jit) {
    out.blocking = out.dot_products ? Blocking{}
                                    : kernel::menu_blocking(out.math, out.mr, out.nr, out.columns);
    return out;
  }
  const auto block = config.get_dims("block");
  const int k_step = out.math == Math::f32 ? 8 : 32;
  const auto in_range = [](std::int64_t size) { return size >= 0 && size <= kMostBlock; };
  if (block.size() != 3 || !std::all_of(block.begin(), block.end(), in_range) ||
      block[0] % out.mr != 0 || block[1] % out.nr != 0 || block[2] % k_step != 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("cpu_tile: block={}: MCxNCxKC is expected, multiples of the tile and "
                            "of {}, each 0 or up to {}",
                            config.get("block"), k_step, kMostBlock));
  }
  out.blocking = {block[2], block[0], block[1]};
  out.unroll = static_cast<int>(std::clamp<std::int64_t>(config.get_int("unroll", 4), 1, 16));
  out.prefetch = static_cast<int>(std::clamp<std::int64_t>(config.get_int("prefetch"), 0, 512));
  return out;
}

namespace {

/// Bytes of the panels of all of B; large batches of an overlapping B take more than 64 bits have.
double packed_bytes(const Problem& p, const TileConfig& c) {
  const auto size = [](std::int64_t x) { return static_cast<double>(x); };
  return size(p.n + c.nr) * 4 * size(kernel::panel_steps(c.math, p.k)) *
         (p.stride_b == 0 ? 1 : size(p.batch));
}

/// What is read or written beyond the operands, or not at all, if the rule is broken.
std::string tile_error(const TileConfig& c, const Problem& p, Level level) {
  const auto b = [&](std::string_view rule) {
    return fmt::format("b={}: {}", name_of(column_names(), c.columns), rule);
  };
  const int rows = c.math == Math::amx ? 16 : 1;
  if (c.mr % rows != 0 || c.nr % lanes_of(level) != 0) {
    return fmt::format("tile={}x{}: a multiple of {}x{} is expected", c.mr, c.nr, rows,
                       lanes_of(level));
  }
  if (c.columns == Columnwise::prepack) {
    if (c.swap || !p.pack_b) return b("goes with swap=0, and a problem with pack=b");
    if (packed_bytes(p, c) > 0x1p62) return b("more than 2^62 bytes");
  }
  const bool in_place = c.columns == Columnwise::direct || c.columns == Columnwise::through;
  if (in_place && (is_tn(p) || c.math == Math::amx))
    return b("goes with a row-major B, and math=f32 or dot");
  return {};
}

}  // namespace

std::string config_error(const TileConfig& c, const Problem& p, const DeviceSpec& device) {
  const Level level = level_of(device);
  const Level needed = c.math == Math::amx   ? Level::v4_amx
                       : c.math == Math::dot ? Level::v4_bf16
                                             : Level::v3;
  if (level < needed || (c.math != Math::f32 && p.b != DType::bf16)) {
    return fmt::format("math={}: {} has none for {}", name_of(math_names(), c.math),
                       device.architecture, to_string(p.b));
  }
  if (!c.jit && !p.epilogue.is_identity()) return "code=menu: ends in D = acc, without an epilogue";
  if (c.swap && !is_tn(p)) return "swap=1: goes with a column-major B";
  if (!c.dot_products) return tile_error(c, p, level);
  if (!is_tn(p) || c.swap || c.columns != Columnwise::direct || c.math == Math::amx)
    return "kernel=dot: goes with a column-major B, b=direct, swap=0, and math=f32 or dot";
  return {};
}

kernel::Extent extent_of(const Problem& problem, const TileConfig& config) {
  const std::int64_t m = std::max(problem.m, problem.m_range.high);
  return config.swap ? kernel::Extent{problem.n, m, problem.k}
                     : kernel::Extent{m, problem.n, problem.k};
}

kernel::ScratchRules scratch_rules(const Problem& problem, const TileConfig& config) {
  kernel::ScratchRules rules;
  rules.math = config.math;
  rules.columns = config.columns;
  rules.copy_rows = config.copy_rows;
  rules.narrow_rows = problem.b == DType::bf16 && config.math == Math::f32;
  rules.sums_in_d = problem.d == DType::f32 && problem.epilogue.is_identity() && !config.swap;
  rules.mr = config.mr;
  rules.nr = config.nr;
  return rules;
}

LaunchSpec launch_of(const Problem& problem, const TileConfig& config) {
  LaunchSpec launch;
  launch.host.threads = config.threads;
  launch.host.split = config.split;
  const bool rows = (config.split == HostLaunch::Split::m) != config.swap;
  launch.host.granularity = rows ? config.mr : config.nr;
  if (!config.dot_products) {
    launch.host.scratch_bytes_per_thread =
        kernel::scratch_layout(scratch_rules(problem, config), config.blocking,
                               extent_of(problem, config))
            .total();
  }
  if (config.columns == Columnwise::prepack) {
    const std::int64_t panels = (problem.n + config.nr - 1) / config.nr;
    const std::int64_t entries = problem.stride_b == 0 ? 1 : problem.batch;
    launch.packed_b_bytes =
        entries *
        std::max<std::int64_t>(
            64, kernel::round_up(
                    panels * config.nr * 4 * kernel::panel_steps(config.math, problem.k), 64));
    launch.pack_entry = kPackEntry;
  }
  return launch;
}

std::string menu_name(const Problem& problem, const TileConfig& config, Level device) {
  static constexpr std::array<std::string_view, 5> kLevels = {"none", "v3", "v4", "v4_bf16",
                                                              "v4_amx"};
  const Level level = menu_level(config, device);
  const int width = config.dot_products ? config.nr : config.nr / lanes_of(level);
  return fmt::format(
             "cpu_tile/{}/{}/{}/{}/{}/{}/{}x{}/{}/{}", kLevels[static_cast<std::size_t>(level)],
             to_string(problem.b), to_string(problem.d), is_tn(problem) ? "tn" : "tt",
             config.dot_products ? "dot" : "tile", name_of(math_names(), config.math), config.mr,
             width, name_of(column_names(), config.columns), config.swap ? 1 : 0) +
         (config.copy_rows ? "+copy" : "");
}

}  // namespace culet::cpu_tile
