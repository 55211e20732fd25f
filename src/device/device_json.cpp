// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// DeviceSpec as JSON, and the presets, which are such files embedded at build time. One table of
// fields drives both directions, so that what is written can be read.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files.h"
#include "base/json_limits.h"
#include "base/text.h"
#include "culet/device.h"

namespace culet {

/// File name -> text of src/device/presets, made by cmake/embed.cmake.
const std::vector<std::pair<std::string_view, std::string_view>>& embedded_preset_table();

std::string_view to_string(DeviceKind kind) { return kind == DeviceKind::cuda ? "cuda" : "cpu"; }

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;  // of a file; one has about a thousand

tl::unexpected<Error> bad(std::string_view field, std::string_view rule) {
  return fail(ErrorCode::invalid_argument, fmt::format("device JSON: {}: {}", field, rule));
}

/// Calls visit(name, member, required) for every plain field in the order they are written. All
/// numbers must be finite and not negative.
template <typename Spec, typename Visit>
void for_each_field(Spec& spec, Visit&& visit) {
  visit("name", spec.name, true);
  visit("architecture", spec.architecture, true);
  visit("driver", spec.driver, false);
  visit("ordinal", spec.ordinal, false);
  visit("units", spec.units, true);
  visit("threads", spec.threads, false);
  visit("clock_ghz", spec.clock_ghz, true);
  visit("dram_bytes_per_s", spec.dram_bytes_per_s, true);
  visit("l2_bytes_per_s", spec.l2_bytes_per_s, true);
  visit("shared_bytes_per_s", spec.shared_bytes_per_s, true);
  visit("l1_bytes", spec.l1_bytes, false);
  visit("l2_bytes", spec.l2_bytes, true);
  visit("l3_bytes", spec.l3_bytes, false);
  visit("memory_bytes", spec.memory_bytes, false);
  visit("shared_per_block", spec.shared_per_block, false);
  visit("shared_per_unit", spec.shared_per_unit, false);
  visit("registers_per_unit", spec.registers_per_unit, false);
  visit("max_threads_per_unit", spec.max_threads_per_unit, false);
  visit("launch_seconds", spec.launch_seconds, false);
  visit("latency_seconds", spec.latency_seconds, false);
}

Result<void> read_value(const Json& json, std::string_view field, std::string* out) {
  if (!json.is_string())
    return bad(field, fmt::format("must be a string, not {}", shown(json.dump())));
  *out = json.get<std::string>();
  return {};
}

Result<void> read_value(const Json& json, std::string_view field, double* out) {
  if (!json.is_number() || !std::isfinite(json.get<double>()) || json.get<double>() < 0) {
    return bad(field, fmt::format("must be a number of at least 0, not {}", shown(json.dump())));
  }
  *out = json.get<double>();
  return {};
}

template <typename Integer>
Result<void> read_value(const Json& json, std::string_view field, Integer* out) {
  constexpr double kLimit = sizeof(Integer) == 4 ? 2147483647.0 : 9.0e18;
  const double value = json.is_number() ? json.get<double>() : -1;
  if (value < 0 || value > kLimit || value != std::floor(value)) {
    return bad(field,
               fmt::format("must be a whole number of at least 0, not {}", shown(json.dump())));
  }
  *out = json.is_number_integer() ? json.get<Integer>() : static_cast<Integer>(value);
  return {};
}

Result<void> read_rates(const Json& root, const char* field, std::map<DType, double>* out) {
  const auto found = root.find(field);
  if (found == root.end()) return {};
  if (!found->is_object()) return bad(field, "must be an object of dtype: operations per second");
  for (const auto& [key, value] : found->items()) {
    const auto dtype = parse_dtype(key);
    const std::string place = fmt::format("{}.{}", field, shown(key));
    if (!dtype) return bad(place, dtype.error().message);
    double rate = 0;
    if (auto ok = read_value(value, place, &rate); !ok) return ok;
    (*out)[*dtype] = rate;
  }
  return {};
}

Json rates_json(const std::map<DType, double>& rates) {
  Json json = Json::object();
  for (const auto& [dtype, rate] : rates) json[std::string(to_string(dtype))] = rate;
  return json;
}

Result<void> check_known_fields(const Json& root, DeviceSpec spec) {
  std::vector<std::string> known = {"schema",     "kind",       "uuid",
                                    "tensor_ops", "vector_ops", "comment"};
  for_each_field(spec, [&](const char* name, auto&, bool) { known.emplace_back(name); });
  for (const auto& [key, value] : root.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return bad(shown(key), fmt::format("unknown field; there are {}", fmt::join(known, ", ")));
    }
  }
  return {};
}

Result<void> check_ranges(const DeviceSpec& spec) {
  // The model counts blocks and waves in small multiples of these, as plain integers.
  constexpr int kMost = 1'000'000;
  if (spec.units < 1 || spec.units > kMost) return bad("units", "must be 1 to 1000000");
  if (spec.threads < 1 || spec.threads > kMost) return bad("threads", "must be 1 to 1000000");
  const std::pair<const char*, double> positive[] = {
      {"clock_ghz", spec.clock_ghz},
      {"dram_bytes_per_s", spec.dram_bytes_per_s},
      {"l2_bytes_per_s", spec.l2_bytes_per_s},
      {"shared_bytes_per_s", spec.shared_bytes_per_s}};
  for (const auto& [field, value] : positive) {
    if (!(value > 0)) return bad(field, "must be greater than 0");
  }
  if (spec.tensor_ops.empty() && spec.vector_ops.empty()) {
    return bad("vector_ops", "at least one rate is needed, in vector_ops or tensor_ops");
  }
  return {};
}

}  // namespace

std::string DeviceSpec::json() const {
  Json root;
  root["schema"] = 1;
  root["kind"] = std::string(to_string(kind));
  for_each_field(*this, [&](const char* field, const auto& value, bool) { root[field] = value; });
  if (!uuid.empty()) root["uuid"] = uuid;
  root["tensor_ops"] = rates_json(tensor_ops);
  root["vector_ops"] = rates_json(vector_ops);
  return root.dump(2) + "\n";
}

Result<DeviceSpec> DeviceSpec::from_json(std::string_view text) {
  if (const std::string why = beyond_json_limits(text); !why.empty()) {
    return fail(ErrorCode::invalid_argument, "device JSON: " + why);
  }
  const Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return fail(ErrorCode::invalid_argument, "device JSON: not valid JSON");
  if (!root.is_object()) return fail(ErrorCode::invalid_argument, "device JSON: not an object");
  DeviceSpec spec;
  if (auto ok = check_known_fields(root, spec); !ok) return tl::unexpected<Error>(ok.error());
  if (root.contains("schema") && root["schema"] != 1) {
    return bad("schema", fmt::format("this version reads 1, not {}", shown(root["schema"].dump())));
  }
  if (!root.contains("kind")) return bad("kind", "missing");
  if (root["kind"] != "cpu" && root["kind"] != "cuda") {
    return bad("kind",
               fmt::format("must be \"cpu\" or \"cuda\", not {}", shown(root["kind"].dump())));
  }
  spec.kind = root["kind"] == "cuda" ? DeviceKind::cuda : DeviceKind::cpu;
  Result<void> status;
  for_each_field(spec, [&](const char* field, auto& value, bool required) {
    if (!status) return;
    if (const auto found = root.find(field); found != root.end()) {
      status = read_value(*found, field, &value);
    } else if (required) {
      status = bad(field, "missing");
    }
  });
  if (const auto found = root.find("uuid"); status && found != root.end())
    status = read_value(*found, "uuid", &spec.uuid);
  if (status) status = read_rates(root, "tensor_ops", &spec.tensor_ops);
  if (status) status = read_rates(root, "vector_ops", &spec.vector_ops);
  if (status) status = check_ranges(spec);
  if (!status) return tl::unexpected<Error>(status.error());
  return spec;
}

std::vector<std::string> DeviceSpec::preset_names() {
  std::vector<std::string> names;
  for (const auto& [file, text] : embedded_preset_table()) {
    names.emplace_back(file.substr(0, file.rfind('.')));
  }
  return names;
}

Result<DeviceSpec> DeviceSpec::preset(std::string_view name_or_path) {
  for (const auto& [file, text] : embedded_preset_table()) {
    if (file.substr(0, file.rfind('.')) == name_or_path) return from_json(text);
  }
  const std::filesystem::path path{std::string(name_or_path)};
  std::error_code error;
  const bool looks_like_path = path.has_parent_path() || path.extension() == ".json";
  if (!looks_like_path && !std::filesystem::exists(path, error)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("unknown device '{}': there are auto, cpu, cpu:THREADS, cuda, cuda:N, "
                            "the presets {}, or a path to a JSON file",
                            name_or_path, fmt::join(preset_names(), ", ")));
  }
  auto content = read_file(path.string(), kMaxBytes);
  if (!content) return tl::unexpected<Error>(content.error());
  auto spec = from_json(*content);
  if (!spec) {
    Error problem = spec.error();
    problem.message = fmt::format("{}: {}", path.string(), problem.message);
    return tl::unexpected<Error>(problem);
  }
  return spec;
}

}  // namespace culet
