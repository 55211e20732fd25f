// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Config and Candidate as text, and the problem each step has to solve.
#include "culet/candidate.h"

#include <fmt/format.h>

#include <array>
#include <cassert>

#include "base/text.h"

namespace culet {
namespace {

constexpr std::size_t kMaxLength = 16384;  // characters of a candidate's text

// Characters of names, keys and values: printable, and none that the text form itself uses.
bool is_plain(std::string_view word) {
  for (const char c : word) {
    if (c <= ' ' || c >= 0x7f || c == '=' || c == '{' || c == '}' || c == '"') return false;
  }
  return true;
}

bool is_backend_name(std::string_view name) {
  return !name.empty() && is_plain(name) && name.find(':') == std::string_view::npos &&
         name.find('+') == std::string_view::npos;
}

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::invalid_argument, "candidate: " + std::move(message));
}

// One step from the front of `rest`: backend[{config}][:part]
Result<Step> parse_step(std::string_view* rest) {
  Step step;
  const std::size_t name_end = rest->find_first_of("{: ");
  const std::string_view name = rest->substr(0, name_end);
  if (!is_backend_name(name)) {
    return wrong(fmt::format("'{}' is not the name of a backend", shown(name)));
  }
  step.backend = std::string(name);
  *rest = name_end == std::string_view::npos ? std::string_view{} : rest->substr(name_end);
  if (rest->starts_with('{')) {
    const std::size_t close = rest->find('}');
    if (close == std::string_view::npos) {
      return wrong(fmt::format("the '}}' of {} is missing", step.backend));
    }
    Result<Config> config = Config::parse(rest->substr(1, close - 1));
    if (!config) return tl::unexpected<Error>(config.error());
    step.config = std::move(*config);
    *rest = rest->substr(close + 1);
  }
  if (rest->starts_with(':')) {
    const std::size_t end = rest->find(' ');
    const Result<Part> part =
        parse_part(rest->substr(1, end == std::string_view::npos ? end : end - 1));
    if (!part) return tl::unexpected<Error>(part.error());
    step.part = *part;
    *rest = end == std::string_view::npos ? std::string_view{} : rest->substr(end);
  }
  return step;
}

}  // namespace

// ------------------------------------------------------------------------------------------ Config

Config& Config::set(std::string_view key, std::string_view value) {
  assert(!key.empty() && is_plain(key) && is_plain(value));
  for (auto& [known, old] : values_) {
    if (known == key) {
      old = std::string(value);
      return *this;
    }
  }
  values_.emplace_back(key, value);
  return *this;
}

Config& Config::set(std::string_view key, std::int64_t value) {
  return set(key, std::string_view(std::to_string(value)));
}

bool Config::has(std::string_view key) const {
  for (const auto& [known, value] : values_) {
    if (known == key) return true;
  }
  return false;
}

std::string_view Config::get(std::string_view key) const {
  for (const auto& [known, value] : values_) {
    if (known == key) return value;
  }
  return {};
}

std::int64_t Config::get_int(std::string_view key, std::int64_t fallback) const {
  std::int64_t value = 0;
  return parse_int(get(key), &value) == IntParse::ok ? value : fallback;
}

std::vector<std::int64_t> Config::get_dims(std::string_view key) const {
  std::vector<std::int64_t> dims;
  const std::string_view text = get(key);
  if (text.empty()) return dims;
  for (const std::string_view part : split(text, 'x')) {
    std::int64_t value = 0;
    if (parse_int(part, &value) != IntParse::ok) return {};
    dims.push_back(value);
  }
  return dims;
}

std::string Config::text() const {
  std::string text;
  for (const auto& [key, value] : values_) {
    if (!text.empty()) text += ' ';
    text += key;
    text += '=';
    text += value;
  }
  return text;
}

Result<Config> Config::parse(std::string_view text) {
  if (text.size() > kMaxLength) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("config: longer than {} characters", kMaxLength));
  }
  Config config;
  for (const std::string_view item : split(text, ' ')) {
    if (item.empty()) continue;
    const std::size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    if (equals == std::string_view::npos || key.empty() || !is_plain(key) ||
        !is_plain(item.substr(equals + 1))) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("config: '{}' is not key=value", shown(item)));
    }
    if (config.has(key)) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("config: {} is stated twice", shown(key)));
    }
    config.set(key, item.substr(equals + 1));
  }
  return config;
}

// --------------------------------------------------------------------------------------- Candidate

std::string_view to_string(Part part) {
  switch (part) {
    case Part::all:
      return "all";
    case Part::gemm:
      return "gemm";
    case Part::epilogue:
      return "epilogue";
  }
  return "";
}

Result<Part> parse_part(std::string_view text) {
  for (const Part part : {Part::all, Part::gemm, Part::epilogue}) {
    if (to_string(part) == text) return part;
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("part: '{}' is not all, gemm or epilogue", shown(text)));
}

std::string Candidate::text() const {
  std::string text;
  for (const Step& step : steps) {
    if (!text.empty()) text += " + ";
    text += step.backend;
    if (!step.config.values().empty()) text += '{' + step.config.text() + '}';
    if (step.part != Part::all) {
      text += ':';
      text += to_string(step.part);
    }
  }
  return text;
}

Result<Candidate> Candidate::parse(std::string_view text) {
  if (text.size() > kMaxLength) return wrong(fmt::format("longer than {} characters", kMaxLength));
  Candidate candidate;
  std::string_view rest = trim(text);
  for (;;) {
    Result<Step> step = parse_step(&rest);
    if (!step) return tl::unexpected<Error>(step.error());
    candidate.steps.push_back(std::move(*step));
    rest = trim(rest);
    if (rest.empty()) break;
    if (!rest.starts_with('+')) {
      return wrong(fmt::format("'{}' found, ' + ' or the end was expected", shown(rest)));
    }
    rest = trim(rest.substr(1));
  }
  // The text may leave blanks out that printing puts in; what is printed has to parse again.
  if (candidate.text().size() > kMaxLength) {
    return wrong(fmt::format("longer than {} characters when printed", kMaxLength));
  }
  return candidate;
}

Problem problem_of(const Problem& whole, Part part) {
  if (part != Part::gemm) return whole;
  Problem gemm = whole;
  gemm.epilogue = Epilogue();
  gemm.d = is_integer(whole.a) ? DType::s32 : whole.a == DType::f64 ? DType::f64 : DType::f32;
  gemm.align_d = 16;
  gemm.ldd = 0;
  gemm.stride_d = -1;
  const Result<Problem> valid = gemm.validated();
  assert(valid.has_value());  // a wider, tight D keeps every rule that the whole problem kept
  return valid ? *valid : gemm;
}

// ---------------------------------------------------------------------------------------- launches

std::string_view to_string(ArtifactKind kind) {
  switch (kind) {
    case ArtifactKind::cubin:
      return "cubin";
    case ArtifactKind::host_so:
      return "host_so";
    case ArtifactKind::host_builtin:
      return "host_builtin";
    case ArtifactKind::library_call:
      return "library_call";
  }
  return "";
}

MValue MValue::tiles_of_m(std::int64_t tile, std::int64_t factor, std::int64_t cap) {
  assert(tile > 0);
  MValue value;
  value.mul = factor;
  value.div = tile;
  value.cap = cap;
  return value;
}

LaunchArg LaunchArg::pointer(Operand operand, int extra, std::int64_t offset_bytes) {
  LaunchArg arg;
  arg.kind = Kind::pointer;
  arg.operand = operand;
  arg.extra = extra;
  arg.offset_bytes = offset_bytes;
  return arg;
}

LaunchArg LaunchArg::i32(MValue value) {
  LaunchArg arg;
  arg.kind = Kind::i32;
  arg.value = value;
  return arg;
}

LaunchArg LaunchArg::i64(MValue value) {
  LaunchArg arg;
  arg.kind = Kind::i64;
  arg.value = value;
  return arg;
}

LaunchArg LaunchArg::real(float value) {
  LaunchArg arg;
  arg.kind = Kind::f32;
  arg.f32 = value;
  return arg;
}

LaunchArg LaunchArg::tensor_map(TensorMapSpec map) {
  LaunchArg arg;
  arg.kind = Kind::tensor_map;
  arg.operand = map.operand;
  arg.map = map;
  return arg;
}

}  // namespace culet
