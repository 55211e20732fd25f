// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Parsing, printing and resource arithmetic of the Hopper decode kernel's configurations.
#include "backends/sm90_stream/stream_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "backends/k_major.h"

namespace culet::sm90_stream {
namespace {

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::invalid_argument, "sm90_stream: " + std::move(message));
}

/// Widths that WGMMA has: for integers no odd multiples of 8 from 40 on.
bool is_width(std::int64_t n, bool integers) {
  return n % 8 == 0 && n >= 8 && n <= 256 && (!integers || n <= 24 || n % 16 == 0);
}

}  // namespace

Result<StreamConfig> StreamConfig::parse(const Config& config) {
  StreamConfig c;
  c.stages = static_cast<int>(config.get_int("stages"));
  for (const auto& [key, member, low, high] : {
           std::tuple{"rows", &c.rows, 8, 256},
           std::tuple{"boxes", &c.boxes, 1, 8},
           std::tuple{"stages", &c.stages, 2, 64},
           std::tuple{"a_stages", &c.a_stages, 2, 64},
           std::tuple{"groups", &c.groups, 1, 4},
           std::tuple{"cluster", &c.cluster, 1, 8},
           std::tuple{"share", &c.share, 1, 8},
       }) {
    const bool optional = member == &c.a_stages || member == &c.share;
    const std::int64_t missing = !optional ? 0 : member == &c.share ? 1 : c.stages;
    const std::int64_t value = config.get_int(key, missing);
    if (value < low || value > high)
      return wrong(fmt::format("{}={}: {}..{} is expected", key, config.get(key), low, high));
    *member = static_cast<int>(value);
  }
  const std::string_view wide = config.has("wide") ? config.get("wide") : "b";
  if (wide != "a" && wide != "b") return wrong(fmt::format("wide={}: a or b is expected", wide));
  c.wide_b = wide == "b";
  if (c.rows % 8 != 0) return wrong(fmt::format("rows={}: a multiple of 8 is expected", c.rows));
  if (c.groups == 3) return wrong("groups=3: 1, 2 or 4 is expected");
  for (const int blocks : {c.cluster, c.share, c.cluster * c.share}) {
    if ((blocks & (blocks - 1)) != 0 || blocks > 8) {
      return wrong(fmt::format("cluster={} share={}: powers of two, at most 8 together", c.cluster,
                               c.share));
    }
  }
  for (const auto& [key, stages] :
       {std::pair{"stages", c.stages}, std::pair{"a_stages", c.a_stages}}) {
    // A group gives a stage back when it has issued its next one.
    if (stages % c.groups != 0 || stages < 2 * c.groups) {
      return wrong(fmt::format("{}={} with groups={}: a multiple, and at least two a group", key,
                               stages, c.groups));
    }
  }
  return c;
}

Config StreamConfig::config() const {
  Config config;
  config.set("rows", rows).set("wide", wide_b ? "b" : "a").set("boxes", boxes);
  config.set("stages", stages).set("a_stages", a_stages).set("groups", groups);
  config.set("cluster", cluster).set("share", share);
  return config;
}

StreamShape::StreamShape(const StreamConfig& config, const Problem& p) : c(config) {
  promote = hopper::needs_promotion(p);
  integers = is_integer(p.a);
  const std::int64_t m = std::max<std::int64_t>(p.m_range.high, 1);
  width = round_up(m, 8 * c.share);
  if (c.wide_b && !is_width(width, integers)) width = round_up(width, 16);
}

std::int64_t StreamShape::part_bytes() const {
  const std::int64_t padding = c.wide_b ? 4 : c.rows % 16 == 0 ? 8 : 0;
  return width * (c.rows + padding) * 4;
}

std::int64_t StreamShape::shared_bytes() const {
  const std::int64_t ring_a = c.a_stages * stage_a(), ring_b = c.stages * stage_b();
  const std::int64_t overread = (c.wide_b ? ring_b : ring_a) + (blocks() * 64 - wide()) * 128;
  return std::max({ring_a + ring_b, overread, c.groups * part_bytes()}) +
         16 * (c.stages + c.a_stages);
}

std::int64_t StreamShape::registers() const {
  return blocks() * narrow() / 2 * (promote ? 2 : 1) + 40;
}

std::int64_t box_k(const Problem& problem) { return 1024 / bits(problem.a); }

std::int64_t tiles_of(const StreamConfig& config, const Problem& problem) {
  return round_up(ceil_div(problem.n, config.rows), config.share);
}

std::int64_t occupancy(const StreamShape& shape, const DeviceSpec& device) {
  // A resident block takes 1 KiB more than it asks for.
  const std::int64_t by_memory = device.shared_per_unit / (shape.shared_bytes() + 1024);
  const std::int64_t by_threads = device.max_threads_per_unit / shape.threads();
  const std::int64_t by_registers =
      device.registers_per_unit / (shape.threads() * round_up(shape.registers(), 8));
  return std::max<std::int64_t>(1, std::min({by_memory, by_threads, by_registers}));
}

std::string config_error(const StreamConfig& c, const Problem& p, const DeviceSpec& device) {
  const StreamShape shape(c, p);
  if (shape.width > 256 || !is_width(shape.narrow(), shape.integers)) {
    return fmt::format("rows={} wide={}: WGMMA has no width of {} for {}", c.rows,
                       c.wide_b ? "b" : "a", shape.narrow(), to_string(p.a));
  }
  const std::int64_t most =
      std::min<std::int64_t>(255, device.registers_per_unit / shape.threads() / 8 * 8);
  if (shape.registers() > most) {
    return fmt::format("rows={} wide={} groups={}: {} registers a thread, there are {}", c.rows,
                       c.wide_b ? "b" : "a", c.groups, shape.registers(), most);
  }
  if (shape.shared_bytes() > device.shared_per_block) {
    return fmt::format("stages={} a_stages={}: {} bytes of shared memory, there are {}", c.stages,
                       c.a_stages, shape.shared_bytes(), device.shared_per_block);
  }
  if (ceil_div(p.k, box_k(p) * c.boxes) < c.cluster) {
    return fmt::format("cluster={}: k={} has fewer stages", c.cluster, p.k);
  }
  if (tiles_of(c, p) * p.batch * c.cluster > INT32_MAX) return "more than 2^31 blocks";
  // The kernel adds a store's elements to a row's number before it compares with n.
  if (tiles_of(c, p) * c.rows > INT32_MAX - 8) {
    return fmt::format("rows={}: the last tile ends beyond 2^31", c.rows);
  }
  return {};
}

}  // namespace culet::sm90_stream
