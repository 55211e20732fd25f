// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// cpu_tile configurations: to and from text, and the launch that follows from one.
#include "backends/cpu_tile/tile_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace culet::cpu_tile {

namespace {

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

Result<TileConfig> TileConfig::parse(const Config& config) {
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
  out.threads = static_cast<int>(std::max<std::int64_t>(1, config.get_int("threads", 1)));
  if (!out.jit) {
    out.blocking = out.dot_products ? Blocking{}
                                    : kernel::menu_blocking(out.math, out.mr, out.nr, out.columns);
    return out;
  }
  const auto block = config.get_dims("block");
  const int k_step = out.math == Math::f32 ? 8 : 32;
  if (block.size() != 3 || block[0] % out.mr != 0 || block[1] % out.nr != 0 ||
      block[2] % k_step != 0) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("cpu_tile: block must be MCxNCxKC, multiples of the tile and of {}", k_step));
  }
  out.blocking = {block[2], block[0], block[1]};
  out.unroll = static_cast<int>(std::clamp<std::int64_t>(config.get_int("unroll", 4), 1, 16));
  out.prefetch = static_cast<int>(std::clamp<std::int64_t>(config.get_int("prefetch"), 0, 512));
  return out;
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
