// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Reading and writing of the store's rows. A row counts only if its checksum holds over the key it
// was asked by and all that came back, so a damaged index cannot hand out another row.
#include "cache/sqlite_cache.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>

#include "cache/records.h"

namespace culet {
namespace {

/// last_used serves a later clean-up by age: refreshing it more often than this only makes writers
/// wait for each other.
constexpr std::int64_t kTouchSeconds = 3600;

std::int64_t now_milliseconds() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}
std::int64_t now_seconds() { return now_milliseconds() / 1000; }

std::string utc(std::int64_t milliseconds) {
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
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

constexpr std::string_view kCodeColumns =
    "SELECT kind, entry, toolchain, log, bytes, checksum, size, last_used, key FROM code";

/// The artifact of the current row of a kCodeColumns statement, if all of it holds.
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

constexpr std::string_view kTrialColumns =
    "SELECT problem, candidate, environment, json, checksum FROM trials";

std::optional<Trial> read_trial(const Statement& row) {
  const std::string json = row.text_at(3);
  if (row.text_at(4) != trial_checksum(row.text_at(0), row.text_at(1), row.text_at(2), json)) {
    return std::nullopt;
  }
  auto trial = trial_from_json(json);
  if (trial) trial->from_cache = true;
  return trial;
}

constexpr std::string_view kSelectionColumns =
    "SELECT problem, device, scope, candidate, why, made, checksum FROM selections";

bool selection_holds(const Statement& row) {
  return row.text_at(6) == selection_checksum(row.text_at(0), row.text_at(1), row.text_at(2),
                                              row.text_at(3), row.text_at(4), row.integer_at(5));
}

std::string sql(std::string_view columns, std::string_view rest) {
  return fmt::format("{} {}", columns, rest);
}

}  // namespace

std::optional<Artifact> SqliteCache::find_code(const std::string& key) {
  const std::lock_guard lock(mutex_);
  Database* const db = database();
  if (db == nullptr) return std::nullopt;
  std::optional<Artifact> artifact;
  DbStatus status;
  std::int64_t last_used = 0;
  {
    Statement find(*db, sql(kCodeColumns, "WHERE key=?"));
    status = find.text(key).step();
    if (status == DbStatus::row) {
      artifact = read_code(find, key);
      last_used = find.integer_at(7);
      if (!artifact) entry_is_damaged("code " + key);
    }
  }
  if (artifact && now_seconds() - last_used > kTouchSeconds) {
    Statement touch(*db, "UPDATE code SET last_used=? WHERE key=?");
    status = touch.integer(now_seconds()).text(key).step();
    if (status == DbStatus::failed) status = DbStatus::done;  // busy: the next use will do
  }
  settle(status, "read");
  return artifact;
}

void SqliteCache::store_code(const std::string& key, const Artifact& artifact) {
  const std::string bytes = compress(artifact.bytes);
  const auto size = static_cast<std::int64_t>(artifact.bytes.size());
  const std::string_view kind = stored_name(artifact.kind);
  const std::lock_guard lock(mutex_);
  Database* const db = database();
  if (db == nullptr) return;
  DbStatus status;
  {
    Statement store(*db, "INSERT OR REPLACE INTO code VALUES(?,?,?,?,?,?,?,?,?)");
    store.text(key).text(kind).text(artifact.entry).text(artifact.toolchain).text(artifact.log);
    store.blob(bytes).text(
        code_checksum(key, kind, artifact.entry, artifact.toolchain, artifact.log, bytes, size));
    status = store.integer(size).integer(now_seconds()).step();
  }
  settle(status, "write");
}

std::optional<Trial> SqliteCache::find_trial(const Problem& problem, const Candidate& candidate,
                                             const Environment& env) {
  const std::string p = problem.text(), c = candidate.text(), e = env.text();
  const std::lock_guard lock(mutex_);
  Database* const db = database();
  if (db == nullptr) return std::nullopt;
  std::optional<Trial> trial;
  DbStatus status;
  {
    Statement find(*db, sql(kTrialColumns, "WHERE problem=? AND candidate=? AND environment=?"));
    status = find.text(p).text(c).text(e).step();
    if (status == DbStatus::row) {
      trial = read_trial(find);
      const bool asked = find.text_at(0) == p && find.text_at(1) == c && find.text_at(2) == e &&
                         trial && trial->candidate == candidate;
      if (!asked) {
        trial.reset();
        entry_is_damaged("trial of " + p);
      }
    }
  }
  settle(status, "read");
  return trial;
}

void SqliteCache::store_trial(const Problem& problem, const Trial& trial, const Environment& env) {
  const std::string p = problem.text(), c = trial.candidate.text(), e = env.text();
  const std::string json = trial_json(trial);
  const std::lock_guard lock(mutex_);
  Database* const db = database();
  if (db == nullptr) return;
  DbStatus status;
  {
    Statement store(*db, "INSERT OR REPLACE INTO trials VALUES(?,?,?,?,?)");
    status = store.text(p).text(c).text(e).text(json).text(trial_checksum(p, c, e, json)).step();
  }
  settle(status, "write");
}

std::optional<Candidate> SqliteCache::read_selection(Statement& row, const std::string& problem) {
  auto candidate = Candidate::parse(row.text_at(3));
  if (!selection_holds(row) || row.text_at(0) != problem || !candidate) {
    entry_is_damaged("selection for " + problem);
    return std::nullopt;
  }
  return std::move(*candidate);
}

std::optional<Candidate> SqliteCache::find_selection(const Problem& problem,
                                                     const SelectionScope& scope,
                                                     const std::string& device) {
  const std::string p = problem.text(), s = scope.text();
  const std::lock_guard lock(mutex_);
  Database* const db = database();
  if (db == nullptr) return std::nullopt;
  std::optional<Candidate> candidate;
  DbStatus status;
  {
    Statement find(*db, sql(kSelectionColumns, "WHERE problem=? AND device=? AND scope=?"));
    status = find.text(p).text(device).text(s).step();
    if (status == DbStatus::row) {
      candidate = read_selection(find, p);
      if (find.text_at(1) != device || find.text_at(2) != s) candidate.reset();
    }
  }
  settle(status, "read");
  return candidate;
}

void SqliteCache::store_selection(const Problem& problem, const SelectionScope& scope,
                                  const std::string& device, const Candidate& candidate,
                                  const std::string& why) {
  const std::string p = problem.text(), s = scope.text(), c = candidate.text();
  const std::int64_t made = now_milliseconds();
  const std::lock_guard lock(mutex_);
  Database* const db = database();
  if (db == nullptr) return;
  DbStatus status;
  {
    Statement store(*db, "INSERT OR REPLACE INTO selections VALUES(?,?,?,?,?,?,?)");
    store.text(p).text(device).text(s).text(c).text(why).integer(made);
    status = store.text(selection_checksum(p, device, s, c, why, made)).step();
  }
  settle(status, "write");
}

std::optional<Candidate> SqliteCache::find_any_selection(const Problem& problem,
                                                         const std::string& device) {
  const std::string p = problem.text();
  const std::lock_guard lock(mutex_);
  Database* const db = database();
  if (db == nullptr) return std::nullopt;
  std::optional<Candidate> candidate;
  DbStatus status;
  {
    Statement find(
        *db, sql(kSelectionColumns, "WHERE problem=? AND device=? ORDER BY made DESC, scope"));
    find.text(p).text(device);
    while ((status = find.step()) == DbStatus::row && !candidate) {
      candidate = read_selection(find, p);
      if (find.text_at(1) != device) candidate.reset();
    }
  }
  settle(status, "read");
  return candidate;
}

CacheStats SqliteCache::stats() {
  const std::lock_guard lock(mutex_);
  CacheStats stats;
  stats.path = path_;
  Database* const db = database();
  if (db == nullptr) return stats;
  DbStatus status;
  {
    Statement count(*db,
                    "SELECT (SELECT count(*) FROM code), (SELECT total(size) FROM code), "
                    "(SELECT count(*) FROM trials), (SELECT count(*) FROM selections)");
    status = count.step();
    if (status == DbStatus::row) {
      stats.code_entries = count.integer_at(0);
      stats.code_bytes = count.integer_at(1);
      stats.trials = count.integer_at(2);
      stats.selections = count.integer_at(3);
    }
  }
  settle(status, "read");
  stats.damaged = damaged_;
  return stats;
}

std::vector<Cache::Entry> SqliteCache::entries() {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> entries;
  Database* const db = database();
  if (db == nullptr) return entries;
  DbStatus status;
  {
    Statement all(*db, sql(kSelectionColumns, "ORDER BY made DESC, problem, scope"));
    while ((status = all.step()) == DbStatus::row) {
      if (!selection_holds(all)) {
        entry_is_damaged("selection for " + all.text_at(0));
        continue;
      }
      entries.push_back({all.text_at(0), all.text_at(1), all.text_at(2), all.text_at(3),
                         all.text_at(4), utc(all.integer_at(5))});
    }
  }
  settle(status, "read");
  return entries;
}

std::vector<Trial> SqliteCache::trials_of(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  std::vector<Trial> trials;
  Database* const db = database();
  if (db == nullptr) return trials;
  DbStatus status;
  {
    Statement all(*db, sql(kTrialColumns, "WHERE problem=? ORDER BY environment, candidate"));
    all.text(problem);
    while ((status = all.step()) == DbStatus::row) {
      auto trial = read_trial(all);
      if (trial && all.text_at(0) == problem) {
        trials.push_back(std::move(*trial));
      } else {
        entry_is_damaged("trial of " + problem);
      }
    }
  }
  settle(status, "read");
  return trials;
}

std::vector<std::string> SqliteCache::verify() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> lines = moved_;  // the fresh file that replaced one is whole, of course
  if (Database* const db = database(); db != nullptr) verify_rows(*db, &lines);
  damaged_ = static_cast<std::int64_t>(lines.size());
  return lines;
}

void SqliteCache::verify_rows(Database& db, std::vector<std::string>* lines) {
  DbStatus status;
  {
    Statement check(db, "PRAGMA integrity_check(20)");
    while ((status = check.step()) == DbStatus::row) {
      if (check.text_at(0) != "ok") lines->push_back("database: " + check.text_at(0));
    }
  }
  // A file whose structure does not hold is reported, not moved: the next use does that.
  if (status == DbStatus::damaged) {
    lines->push_back("database: " + db.message());
    return;
  }
  const auto scan = [&](std::string_view columns, const auto& look) {
    Statement rows(db, columns);
    DbStatus end;
    while ((end = rows.step()) == DbStatus::row) look(rows);
    if (end != DbStatus::done) lines->push_back("database: " + db.message());
  };
  scan(kCodeColumns, [&](const Statement& row) {
    const std::string key = row.text_at(8);
    if (!read_code(row, key)) lines->push_back("code " + key);
  });
  scan(kTrialColumns, [&](const Statement& row) {
    const auto trial = read_trial(row);
    if (!trial || trial->candidate.text() != row.text_at(1)) {
      lines->push_back(fmt::format("trial of {} with {}", row.text_at(0), row.text_at(1)));
    }
  });
  scan(kSelectionColumns, [&](const Statement& row) {
    if (!selection_holds(row)) lines->push_back("selection for " + row.text_at(0));
  });
}

Result<void> SqliteCache::clear() {
  const std::lock_guard lock(mutex_);
  Database* const db = database();
  if (db == nullptr) return fail(ErrorCode::io, path_ + ": the store is not open");
  const DbStatus status = db->execute(
      "BEGIN IMMEDIATE; DELETE FROM code; DELETE FROM trials; DELETE FROM selections; COMMIT");
  if (status != DbStatus::done) {
    Error error{ErrorCode::io, fmt::format("{}: cannot clear: {}", path_, db->message()), {}};
    (void)db->execute("ROLLBACK");
    settle(status, "clear");
    return tl::unexpected(std::move(error));
  }
  // Gives the space back; what another process still reads merely delays that.
  (void)db->execute("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
  damaged_ = 0;
  return {};
}

}  // namespace culet
