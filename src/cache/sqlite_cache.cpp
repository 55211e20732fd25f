// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Reading and writing of the store's rows. A row counts only if its checksum holds over the key it
// was asked by and all that came back, so a damaged index cannot hand out another row.
#include "cache/sqlite_cache.h"

#include <fmt/format.h>

#include <chrono>

#include "cache/key_lock.h"
#include "cache/records.h"
#include "cache/rows.h"

namespace culet {
namespace {

/// When code was last used decides what goes first where the store is full; refreshing it more
/// often than this only makes writers wait for each other.
constexpr std::int64_t kTouchSeconds = 3600;

/// How long a process waits for another's compiler: some more than a compiler may take (two
/// minutes, src/compile/host_toolchain.cpp). Who takes longer was stopped.
constexpr std::chrono::seconds kCompilePatience{150};

}  // namespace

std::optional<Artifact> SqliteCache::find_code(const std::string& key) {
  const std::lock_guard lock(mutex_);
  Database* const db = database();
  if (db == nullptr) return std::nullopt;
  std::optional<Artifact> artifact;
  DbStatus status;
  {
    Statement find(*db, sql(kCodeColumns, "WHERE key=?"));
    status = find.text(key).step();
    if (status == DbStatus::row && !foreign_.empty()) {
      warn_once("foreign", fmt::format("cache: kernels in {} are not used: {}; "
                                       "CULET_CACHE_FOREIGN=1 uses them",
                                       path_, foreign_));
    } else if (status == DbStatus::row) {
      artifact = read_code(find, key);
      if (!artifact) entry_is_damaged("code " + key);
    }
  }
  if (artifact && !read_only_) status = touch(*db, key);
  settle(status, "read");
  return artifact;
}

DbStatus SqliteCache::touch(Database& database, const std::string& key) {
  {
    Statement find(database, "SELECT last_used FROM code_use WHERE key=?");
    const DbStatus found = find.text(key).step();
    if (found != DbStatus::row) return found;
    // Nothing says that what is stored is a time: one to come would keep the code for ever.
    const std::int64_t used = find.integer_at(0), now = now_seconds();
    if (used >= now - kTouchSeconds && used <= now) return DbStatus::done;
  }
  Statement touch(database, "UPDATE code_use SET last_used=? WHERE key=?");
  const DbStatus status = touch.integer(now_seconds()).text(key).step();
  return status == DbStatus::failed ? DbStatus::done : status;  // busy: the next use will do
}

void SqliteCache::store_code(const std::string& key, const Artifact& artifact) {
  const std::string bytes = compress(artifact.bytes);
  const auto size = static_cast<std::int64_t>(artifact.bytes.size());
  const auto stored = static_cast<std::int64_t>(bytes.size());
  if (stored > options_.code_limit || size > kMaxCodeBytes) return;
  const std::string_view kind = stored_name(artifact.kind);
  const std::lock_guard lock(mutex_);
  Database* const db = writable();
  if (db == nullptr) return;
  DbStatus status;
  {
    Transaction transaction(*db);
    status = transaction.begun();
    if (status == DbStatus::done) {
      Statement store(*db, kStoreCode);
      store.text(key).text(kind).text(artifact.entry).text(artifact.toolchain).text(artifact.log);
      store.blob(bytes).text(
          code_checksum(key, kind, artifact.entry, artifact.toolchain, artifact.log, bytes, size));
      status = store.integer(size).integer(now_seconds()).step();
    }
    if (status == DbStatus::done) {
      Statement use(*db, kStoreUse);
      status = use.text(key).integer(now_seconds()).integer(stored).step();
    }
    if (status == DbStatus::done) status = make_room(*db, key);
    if (status == DbStatus::done) status = transaction.commit();
  }
  settle(status, "write");
}

DbStatus SqliteCache::make_room(Database& database, const std::string& newest) {
  // Nothing says that what is stored is a size: kept within one that can be summed up.
  std::int64_t total = 0;
  {
    Statement sum(database,
                  "SELECT CAST(total(min(max(bytes, 0), 1 << 40)) AS INTEGER) FROM code_use");
    if (const DbStatus status = sum.step(); status != DbStatus::row) return status;
    total = sum.integer_at(0);
  }
  if (total <= options_.code_limit) return DbStatus::done;
  // Somewhat more than needed goes, so that not every kernel that follows has to make room again.
  const std::int64_t goal = options_.code_limit - options_.code_limit / 10;
  std::vector<std::string> oldest;
  {
    Statement all(database, fmt::format("SELECT key, min(max(bytes, 0), 1 << 40) FROM code_use "
                                        "WHERE key<>? ORDER BY {}, key",
                                        kUsed));
    all.text(newest).integer(now_seconds() + kAheadSeconds);
    DbStatus status = DbStatus::done;
    while (total > goal && (status = all.step()) == DbStatus::row) {
      oldest.push_back(all.text_at(0));
      total -= all.integer_at(1);
    }
    if (status != DbStatus::row && status != DbStatus::done) return status;
  }
  for (const char* table : {"DELETE FROM code WHERE key=?", "DELETE FROM code_use WHERE key=?"}) {
    Statement remove(database, table);
    for (const std::string& key : oldest) {
      if (const auto status = remove.reset().text(key).step(); status != DbStatus::done)
        return status;
    }
  }
  return DbStatus::done;
}

std::unique_ptr<CodeLock> SqliteCache::lock_code(const std::string& key,
                                                 const std::function<bool()>& cancelled) {
  {
    const std::lock_guard lock(mutex_);
    // Where code is not stored, or not taken, there is nothing to wait for; and on a network place
    // locks may be slow, or held by a host that is gone.
    if (writable() == nullptr || !foreign_.empty() || !options_.network->empty()) return nullptr;
  }
  return KeyLock::acquire(path_ + ".compiling", key, cancelled, kCompilePatience);
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
  const std::string json = trial_json(trial, now_milliseconds());
  const std::lock_guard lock(mutex_);
  Database* const db = writable();
  if (db == nullptr) return;
  DbStatus status;
  {
    Statement store(*db, kStoreTrial);
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
  Database* const db = writable();
  if (db == nullptr) return;
  DbStatus status;
  {
    Statement store(*db, kStoreSelection);
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
    const std::string key = row.text_at(7);
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
  return empty(
      "BEGIN IMMEDIATE; DELETE FROM code; DELETE FROM code_use; DELETE FROM toolchains; "
      "DELETE FROM trials; DELETE FROM selections; COMMIT");
}

Result<void> SqliteCache::clear_measurements() {
  return empty("BEGIN IMMEDIATE; DELETE FROM trials; DELETE FROM selections; COMMIT");
}

Result<void> SqliteCache::empty(const char* statements) {
  const std::lock_guard lock(mutex_);
  Database* const db = writable();
  if (db == nullptr) return not_writable();
  const DbStatus status = db->execute(statements);
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
