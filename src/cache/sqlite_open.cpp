// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Opening the store and keeping it open: folder and lock, moving a damaged file aside, forks, and
// warnings.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "cache/file_lock.h"
#include "cache/file_system.h"
#include "cache/sqlite_cache.h"
#include "cache/store_path.h"

namespace culet {
namespace {

namespace fs = std::filesystem;

/// culet.sqlite.damaged, then culet.sqlite.2.damaged and so on: an earlier one is never replaced.
std::string damaged_name(const std::string& path) {
  std::string name = path + ".damaged";
  std::error_code ignored;
  for (int i = 2; fs::exists(name, ignored); ++i) name = fmt::format("{}.{}.damaged", path, i);
  return name;
}

/// Moves the file and its log; together they are what was there. Returns the new name.
Result<std::string> move_aside(const std::string& path) {
  const std::string name = damaged_name(path);
  std::error_code error;
  fs::rename(path, name, error);
  if (error) {
    return fail(ErrorCode::io,
                fmt::format("{}: is damaged and cannot be moved aside: {}", path, error.message()));
  }
  fs::rename(path + "-wal", name + "-wal", error);
  fs::remove(path + "-shm", error);
  return name;
}

std::string moved_text(std::string_view why, std::string_view name) {
  return fmt::format("cache: damaged file ({}) moved to {}; starting a fresh one", why, name);
}

}  // namespace

Result<std::shared_ptr<Cache>> SqliteCache::open(const std::string& folder,
                                                 const StoreOptions& options) {
  if (auto made = make_folders(folder); !made) {
    return fail(ErrorCode::io, "cache: " + made.error().message);
  }
  StoreOptions found = options;
  if (!found.network) found.network = std::string(network_file_system_of(folder));
  std::shared_ptr<SqliteCache> cache(new SqliteCache(store_path_in(folder), std::move(found)));
  if (auto opened = cache->reopen(); !opened) return tl::unexpected(opened.error());
  return std::shared_ptr<Cache>(std::move(cache));
}

Result<void> SqliteCache::reopen() {
  auto lock = FileLock::acquire(path_ + ".lock");
  if (!lock) return open_to_read(lock.error());
  return open_locked();
}

Result<void> SqliteCache::open_locked() {
  const OpenMode mode{OpenMode::Access::write, options_.network->empty()};
  auto opened = Database::open(path_, mode);
  if (!opened && opened.error().kind == OpenFailure::Kind::damaged) {
    auto moved = move_aside(path_);
    if (!moved) return tl::unexpected(moved.error());
    warnings_.push_back(moved_text(opened.error().message, *moved));
    moved_.push_back(fmt::format("file ({}), moved to {}", opened.error().message, *moved));
    opened = Database::open(path_, mode);
  }
  if (!opened) {
    const Error error{ErrorCode::io, "cache: " + opened.error().message, {}};
    if (opened.error().kind == OpenFailure::Kind::unusable) return open_to_read(error);
    return tl::unexpected(error);
  }
  database_ = std::move(*opened);
  if (database_->journal_changed() && !options_.network->empty()) {
    warn_once("network", fmt::format("cache: {} is on a network file system ({}): it is kept in "
                                     "SQLite's rollback mode, which is slower and safe there",
                                     path_, *options_.network));
  }
  look_at_place();
  return {};
}

Result<void> SqliteCache::open_to_read(const Error& why) {
  std::error_code ignored;
  if (!fs::is_regular_file(path_, ignored)) return tl::unexpected(why);
  const bool wal = options_.network->empty();
  auto opened = Database::open(path_, {OpenMode::Access::read, wal});
  // Reading a log needs a file beside it; where none can be made, the store is read without.
  if (!opened) opened = Database::open(path_, {OpenMode::Access::immutable, wal});
  if (!opened) return tl::unexpected(why);
  database_ = std::move(*opened);
  read_only_ = true;
  warn_once("read-only", why.message + "; the store is read, and nothing is added to it");
  look_at_place();
  return {};
}

void SqliteCache::look_at_place() {
  process_ = ::getpid();
  if (!options_.allow_foreign) foreign_ = foreign_owner(path_);
}

Database* SqliteCache::database() {
  if (process_ != ::getpid()) {
    // A connection does not survive a fork: SQLite's locks belong to the parent.
    if (database_) database_.release()->abandon();
    if (auto opened = reopen(); !opened) warn_once("reopen", opened.error().message);
    process_ = ::getpid();
  }
  return database_.get();
}

void SqliteCache::settle(DbStatus status, std::string_view doing) {
  if (status == DbStatus::row || status == DbStatus::done) {
    // SQLite goes on writing to a file that has no name any more.
    if (doing == "write" && !database_->is_at(path_)) {
      warn_once("gone", fmt::format("cache: {} was removed or replaced while it was open: what is "
                                    "added to it now is lost",
                                    path_));
    }
    return;
  }
  const std::string message = database_->message();
  if (status == DbStatus::failed) {
    warn_once(std::string(doing),
              fmt::format("cache: cannot {} {}: {}; going on without", doing, path_, message));
    return;
  }
  const std::unique_ptr<Database> damaged = std::move(database_);
  damaged->leave_as_is();
  if (read_only_) {
    warn_once("damaged", fmt::format("cache: {}: {}; nothing more is read", path_, message));
    return;
  }
  if (auto opened = replace_damaged(*damaged, message); !opened) {
    warn_once("reopen", opened.error().message);
  }
}

Result<void> SqliteCache::replace_damaged(const Database& damaged, const std::string& message) {
  auto lock = FileLock::acquire(path_ + ".lock");
  if (!lock) return tl::unexpected(lock.error());
  if (damaged.is_at(path_)) {  // another process may have moved it already
    auto moved = move_aside(path_);
    if (!moved) return tl::unexpected(moved.error());
    warnings_.push_back(moved_text(fmt::format("{}: {}", path_, message), *moved));
    moved_.push_back(fmt::format("file ({}: {}), moved to {}", path_, message, *moved));
  }
  return open_locked();
}

void SqliteCache::warn_once(const std::string& kind, std::string text) {
  if (warned_.insert(kind).second) warnings_.push_back(std::move(text));
}

void SqliteCache::entry_is_damaged(std::string_view what) {
  ++damaged_;
  warn_once("entry",
            fmt::format("cache: {}: entry does not match its checksum and is ignored ({}); "
                        "`culet cache verify` lists all such",
                        path_, what));
}

std::string SqliteCache::take_warning() {
  const std::lock_guard lock(mutex_);
  if (warnings_.empty()) return {};
  std::string first = std::move(warnings_.front());
  warnings_.pop_front();
  return first;
}

}  // namespace culet
