// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Stored forms, see records.h. The only file of the store that includes zstd and JSON.
#include "cache/records.h"

#include <zstd.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/hash.h"
#include "base/json_limits.h"
#include "base/whole_number.h"

namespace culet {
namespace {

using nlohmann::json;

constexpr int kZstdLevel = 3;

constexpr std::array<std::pair<ArtifactKind, std::string_view>, 4> kKinds{{
    {ArtifactKind::cubin, "cubin"},
    {ArtifactKind::host_so, "host_so"},
    {ArtifactKind::host_builtin, "host_builtin"},
    {ArtifactKind::library_call, "library_call"},
}};

constexpr std::array<std::pair<Limiter, std::string_view>, 6> kLimiters{{
    {Limiter::math, "math"},
    {Limiter::dram, "dram"},
    {Limiter::l2, "l2"},
    {Limiter::shared, "shared"},
    {Limiter::latency, "latency"},
    {Limiter::waves, "waves"},
}};

template <typename Table, typename Value>
std::string_view name_of(const Table& table, Value value) {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return {};
}

template <typename Value, std::size_t N>
std::optional<Value> value_of(const std::array<std::pair<Value, std::string_view>, N>& table,
                              std::string_view name) {
  for (const auto& [known, text] : table) {
    if (text == name) return known;
  }
  return std::nullopt;
}

/// JSON has no infinity; null stands for it, as an error that could not be bounded is one.
json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }
double number(const json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::infinity();
}

std::optional<Trial> read_trial(const json& object) {
  Trial trial;
  auto candidate = Candidate::parse(object.at("candidate").get<std::string>());
  auto outcome = parse_outcome(object.at("outcome").get<std::string>());
  if (!candidate || !outcome) return std::nullopt;
  trial.candidate = std::move(*candidate);
  trial.outcome = *outcome;
  trial.vendor = object.at("vendor").get<bool>();
  trial.fallback = object.at("fallback").get<bool>();
  trial.reason = object.at("reason").get<std::string>();
  trial.log = object.at("log").get<std::string>();
  trial.error = number(object.at("error"));
  if (const json& estimate = object.at("estimate"); !estimate.is_null()) {
    const auto limiter = value_of(kLimiters, estimate.at("limiter").get<std::string>());
    if (!limiter) return std::nullopt;
    trial.estimate = Estimate{number(estimate.at("seconds")), *limiter};
  }
  if (const json& timing = object.at("timing"); !timing.is_null()) {
    trial.timing = Timing{number(timing.at("median")), number(timing.at("low")),
                          number(timing.at("high")), whole_number<int>(timing.at("samples"))};
  }
  return trial;
}

/// What stands between two marks; both texts are taken off the front.
std::optional<std::string> field(std::string_view* text, std::string_view before,
                                 std::string_view after) {
  if (!text->starts_with(before)) return std::nullopt;
  text->remove_prefix(before.size());
  const std::size_t end = after.empty() ? text->size() : text->find(after);
  if (end == std::string_view::npos) return std::nullopt;
  std::string value(text->substr(0, end));
  text->remove_prefix(end);
  return value;
}

}  // namespace

std::string checksum(const std::vector<std::string_view>& fields) {
  std::string all;
  for (const std::string_view field : fields) {
    all += std::to_string(field.size());
    all += ':';
    all += field;
  }
  return hash128_hex(all);
}

std::string compress(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), kZstdLevel);
  out.resize(ZSTD_isError(size) != 0 ? 0 : size);
  return out;
}

std::optional<std::string> decompress(std::string_view data, std::int64_t size) {
  if (size < 0 || size > kMaxCodeBytes) return std::nullopt;
  std::string out(static_cast<std::size_t>(size), '\0');
  const std::size_t got = ZSTD_decompress(out.data(), out.size(), data.data(), data.size());
  if (ZSTD_isError(got) != 0 || got != out.size()) return std::nullopt;
  return out;
}

std::string_view stored_name(ArtifactKind kind) { return name_of(kKinds, kind); }
std::optional<ArtifactKind> artifact_kind(std::string_view name) { return value_of(kKinds, name); }

std::string_view stored_name(Limiter limiter) { return name_of(kLimiters, limiter); }
std::optional<Limiter> stored_limiter(std::string_view name) { return value_of(kLimiters, name); }

std::string trial_json(const Trial& trial, std::int64_t made) {
  json object{
      {"candidate", trial.candidate.text()}, {"vendor", trial.vendor}, {"fallback", trial.fallback},
      {"outcome", to_string(trial.outcome)}, {"reason", trial.reason}, {"log", trial.log},
      {"error", number(trial.error)},        {"estimate", nullptr},    {"timing", nullptr}};
  if (trial.estimate) {
    object["estimate"] = {{"seconds", number(trial.estimate->seconds)},
                          {"limiter", name_of(kLimiters, trial.estimate->limiter)}};
  }
  if (trial.timing) {
    object["timing"] = {{"median", number(trial.timing->median)},
                        {"low", number(trial.timing->low)},
                        {"high", number(trial.timing->high)},
                        {"samples", trial.timing->samples}};
  }
  if (made != 0) object["made"] = made;
  // A compiler's log may hold any bytes.
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<Trial> trial_from_json(std::string_view text, std::int64_t* made) {
  if (!beyond_json_limits(text).empty()) return std::nullopt;
  try {
    const json object = json::parse(text);
    if (made != nullptr) {
      *made = object.contains("made") ? whole_number<std::int64_t>(object.at("made")) : 0;
    }
    return read_trial(object);
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::optional<Environment> parse_environment(std::string_view text) {
  const auto device = field(&text, "device ", " | library ");
  const auto library = device ? field(&text, " | library ", " | policy ") : std::nullopt;
  const auto policy = library ? field(&text, " | policy ", "") : std::nullopt;
  if (!policy) return std::nullopt;
  return Environment{*device, *library, *policy};
}

std::optional<SelectionScope> parse_scope(std::string_view text) {
  const auto backends = field(&text, "backends ", " | top ");
  const auto top = backends ? field(&text, " | top ", " | space ") : std::nullopt;
  const auto space = top ? field(&text, " | space ", "") : std::nullopt;
  if (!space || space->size() != 16) return std::nullopt;
  SelectionScope scope{*backends, *top, 0};
  const char* end = space->data() + space->size();
  if (std::from_chars(space->data(), end, scope.space, 16).ptr != end) return std::nullopt;
  return scope;
}

}  // namespace culet
