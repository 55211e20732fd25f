// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// See rows.h.
#include "cache/rows.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>

#include "cache/records.h"

namespace culet {

std::int64_t now_milliseconds() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

std::string utc(std::int64_t milliseconds, bool with_milliseconds) {
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return with_milliseconds ? fmt::format("{}.{:03}Z", text, milliseconds % 1000)
                           : fmt::format("{}Z", text);
}

std::string code_checksum(std::string_view key, std::string_view kind, std::string_view entry,
                          std::string_view toolchain, std::string_view log, std::string_view bytes,
                          std::int64_t size) {
  return checksum({"code", key, kind, entry, toolchain, log, bytes, std::to_string(size)});
}

std::string trial_checksum(std::string_view problem, std::string_view candidate,
                           std::string_view environment, std::string_view json) {
  return checksum({"trial", problem, candidate, environment, json});
}

std::string selection_checksum(std::string_view problem, std::string_view device,
                               std::string_view scope, std::string_view candidate,
                               std::string_view why, std::int64_t made) {
  return checksum({"selection", problem, device, scope, candidate, why, std::to_string(made)});
}

std::optional<Artifact> read_code(const Statement& row, std::string_view key) {
  const std::string kind_name = row.text_at(0), bytes = row.text_at(4);
  Artifact artifact;
  artifact.entry = row.text_at(1);
  artifact.toolchain = row.text_at(2);
  artifact.log = row.text_at(3);
  const std::int64_t size = row.integer_at(6);
  const auto kind = artifact_kind(kind_name);
  if (!kind || row.text_at(5) != code_checksum(key, kind_name, artifact.entry, artifact.toolchain,
                                               artifact.log, bytes, size)) {
    return std::nullopt;
  }
  auto code = decompress(bytes, size);
  if (!code) return std::nullopt;
  artifact.kind = *kind;
  artifact.bytes = std::move(*code);
  return artifact;
}

std::optional<Trial> read_trial(const Statement& row, std::int64_t* made) {
  const std::string json = row.text_at(3);
  if (row.text_at(4) != trial_checksum(row.text_at(0), row.text_at(1), row.text_at(2), json)) {
    return std::nullopt;
  }
  auto trial = trial_from_json(json, made);
  if (trial) trial->from_cache = true;
  return trial;
}

bool selection_holds(const Statement& row) {
  return row.text_at(6) == selection_checksum(row.text_at(0), row.text_at(1), row.text_at(2),
                                              row.text_at(3), row.text_at(4), row.integer_at(5));
}

std::string sql(std::string_view columns, std::string_view rest) {
  return fmt::format("{} {}", columns, rest);
}

}  // namespace culet
