// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The compilers that made the code in the store, by the name that keys of code have them under. A
// wrong name finds nothing, so these rows carry no checksum.
#include <fmt/format.h>

#include <algorithm>

#include "cache/rows.h"
#include "cache/sqlite_cache.h"

namespace culet {
namespace {

/// As for the use of code: more often is not worth that writers wait for each other.
constexpr std::int64_t kNoteSeconds = 3600;

std::string by_use() {
  return fmt::format(
      "SELECT fingerprint, {} AS used FROM toolchains WHERE architecture=? "
      "ORDER BY used DESC, fingerprint",
      kUsed);
}

/// An earlier version's store, opened to be read, has no such table.
bool has_table(Database& database) {
  Statement find(database, "SELECT 1 FROM sqlite_master WHERE type='table' AND name='toolchains'");
  return find.step() == DbStatus::row;
}

}  // namespace

std::vector<std::string> SqliteCache::toolchains(const std::string& architecture) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  Database* const db = database();
  if (db == nullptr || (read_only_ && !has_table(*db))) return found;
  DbStatus status;
  {
    Statement all(*db, by_use());
    all.integer(now_seconds() + kAheadSeconds).text(architecture);
    while ((status = all.step()) == DbStatus::row) found.push_back(all.text_at(0));
  }
  settle(status, "read");
  return found;
}

void SqliteCache::note_toolchain(const std::string& architecture, const std::string& fingerprint) {
  std::int64_t now = now_seconds();
  const std::lock_guard lock(mutex_);
  Database* const db = writable();
  if (db == nullptr) return;
  DbStatus status;
  {
    Statement first(*db, by_use());
    status = first.integer(now + kAheadSeconds).text(architecture).step();
    if (status == DbStatus::row) {
      const std::int64_t used = first.integer_at(1);
      if (first.text_at(0) == fingerprint && used >= now - kNoteSeconds) return;
      now = std::max(now, used + 1);  // it comes first from now on
      status = DbStatus::done;
    }
  }
  if (status == DbStatus::done) {
    Statement store(*db, kStoreToolchain);
    status = store.text(architecture).text(fingerprint).integer(now).step();
  }
  settle(status, "write");
}

DbStatus SqliteCache::copy_toolchains(Database& from, Database& to) {
  if (!has_table(from)) return DbStatus::done;
  Statement rows(from, "SELECT architecture, fingerprint, last_used FROM toolchains");
  // What was used here lately stays first.
  Statement store(to,
                  "INSERT OR IGNORE INTO toolchains(architecture, fingerprint, last_used) "
                  "VALUES(?,?,?)");
  DbStatus status;
  while ((status = rows.step()) == DbStatus::row) {
    store.reset().text(rows.text_at(0)).text(rows.text_at(1)).integer(rows.integer_at(2));
    if (const DbStatus stored = store.step(); stored != DbStatus::done) return stored;
  }
  return status;
}

}  // namespace culet
