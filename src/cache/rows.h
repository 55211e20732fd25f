// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The store's rows: which columns are read, what their checksums cover, and the value of a row if
// all of it holds. Shared by the store's everyday work and by export, import and merging.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cache/database.h"
#include "culet/cache.h"

namespace culet {

std::int64_t now_milliseconds();
inline std::int64_t now_seconds() { return now_milliseconds() / 1000; }
/// 2026-01-02T03:04:05Z; with_milliseconds: 2026-01-02T03:04:05.678Z.
std::string utc(std::int64_t milliseconds, bool with_milliseconds = false);

std::string code_checksum(std::string_view key, std::string_view kind, std::string_view entry,
                          std::string_view toolchain, std::string_view log, std::string_view bytes,
                          std::int64_t size);
std::string trial_checksum(std::string_view problem, std::string_view candidate,
                           std::string_view environment, std::string_view json);
std::string selection_checksum(std::string_view problem, std::string_view device,
                               std::string_view scope, std::string_view candidate,
                               std::string_view why, std::int64_t made);

inline constexpr std::string_view kCodeColumns =
    "SELECT kind, entry, toolchain, log, bytes, checksum, size, key FROM code";
/// The artifact of the current row of a kCodeColumns statement, if all of it holds.
std::optional<Artifact> read_code(const Statement& row, std::string_view key);

inline constexpr std::string_view kTrialColumns =
    "SELECT problem, candidate, environment, json, checksum FROM trials";
/// The trial of the current row of a kTrialColumns statement, with the time it was stored (0 where
/// an older version did not say).
std::optional<Trial> read_trial(const Statement& row, std::int64_t* made = nullptr);

inline constexpr std::string_view kSelectionColumns =
    "SELECT problem, device, scope, candidate, why, made, checksum FROM selections";
bool selection_holds(const Statement& row);

inline constexpr std::string_view kStoreTrial =
    "INSERT OR REPLACE INTO trials(problem, candidate, environment, json, checksum) "
    "VALUES(?,?,?,?,?)";
inline constexpr std::string_view kStoreSelection =
    "INSERT OR REPLACE INTO selections(problem, device, scope, candidate, why, made, checksum) "
    "VALUES(?,?,?,?,?,?,?)";
inline constexpr std::string_view kStoreCode =
    "INSERT OR REPLACE INTO code(key, kind, entry, toolchain, log, bytes, checksum, size, made) "
    "VALUES(?,?,?,?,?,?,?,?,?)";
inline constexpr std::string_view kStoreUse =
    "INSERT OR REPLACE INTO code_use(key, last_used, bytes) VALUES(?,?,?)";

/// last_used, as far as it can be believed: nothing says that what is stored is a time. One further
/// ahead than clocks differ would stay first for ever: it counts as never. Takes the latest time.
inline constexpr std::string_view kUsed =
    "CASE WHEN last_used BETWEEN 0 AND ? THEN last_used ELSE 0 END";
inline constexpr std::int64_t kAheadSeconds = 86'400;

inline constexpr std::string_view kStoreToolchain =
    "INSERT OR REPLACE INTO toolchains(architecture, fingerprint, last_used) VALUES(?,?,?)";

/// "columns rest" as one statement.
std::string sql(std::string_view columns, std::string_view rest);

}  // namespace culet
