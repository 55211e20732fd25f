// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Whole stores: everything out, and everything of another one in, in one transaction.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "cache/records.h"
#include "cache/rows.h"
#include "cache/sqlite_cache.h"

namespace culet {
namespace {

/// A file of code, or another store: never written to.
tl::expected<std::unique_ptr<Database>, OpenFailure> open_source(const std::string& file) {
  auto opened = Database::open(file, {OpenMode::Access::read, true});
  if (!opened) opened = Database::open(file, {OpenMode::Access::immutable, true});
  return opened;
}

std::string store_id(Database& database) {
  Statement find(database, "SELECT id FROM store");
  return find.step() == DbStatus::row ? find.text_at(0) : std::string();
}

/// Whether what is stored under a trial's key stays: it holds, and is as new.
bool stays(const Statement& row, const StoredTrial& entry) {
  std::int64_t made = 0;
  return read_trial(row, &made) && (entry.yields || made >= entry.made);
}

/// Copies the current row of a kCodeColumns statement, whose checksum goes with it.
DbStatus copy_code(const Statement& row, Statement* store, Statement* use) {
  const std::string key = row.text_at(7), bytes = row.text_at(4);
  const std::int64_t now = now_milliseconds() / 1000;
  store->reset().text(key);
  for (int column = 0; column < 4; ++column) store->text(row.text_at(column));
  store->blob(bytes).text(row.text_at(5)).integer(row.integer_at(6)).integer(now);
  if (const DbStatus status = store->step(); status != DbStatus::done) return status;
  return use->reset()
      .text(key)
      .integer(now)
      .integer(static_cast<std::int64_t>(bytes.size()))
      .step();
}

/// A database beside the target that takes its name when it is finished.
class NewFile {
 public:
  explicit NewFile(std::string target)
      : target_(std::move(target)), path_(fmt::format("{}.{}.tmp", target_, ::getpid())) {
    std::remove(path_.c_str());
  }
  ~NewFile() {
    if (!done_) std::remove(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  const std::string& path() const { return path_; }
  bool finish() { return done_ = std::rename(path_.c_str(), target_.c_str()) == 0; }

 private:
  std::string target_, path_;
  bool done_ = false;
};

}  // namespace

tl::unexpected<Error> SqliteCache::not_writable() const {
  return fail(ErrorCode::io, fmt::format("cache: {}: the store {}", path_,
                                         read_only_ ? "cannot be written to" : "is not open"));
}

Result<std::int64_t> SqliteCache::forget(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  Database* const db = writable();
  if (db == nullptr) return not_writable();
  std::int64_t count = 0;
  DbStatus status;
  std::string message;
  {
    Transaction transaction(*db);
    status = transaction.begun();
    for (const char* text :
         {"DELETE FROM trials WHERE problem=?", "DELETE FROM selections WHERE problem=?"}) {
      if (status != DbStatus::done) break;
      Statement remove(*db, text);
      status = remove.text(problem).step();
      count += db->changes();
    }
    if (status == DbStatus::done) status = transaction.commit();
    message = db->message();
  }
  settle(status, "write");
  if (status != DbStatus::done) {
    return fail(ErrorCode::io, fmt::format("cache: {}: cannot forget: {}", path_, message));
  }
  return count;
}

DbStatus SqliteCache::read_contents(Database& db, const std::string& problem,
                                    StoreContents* contents) {
  const std::string_view which = problem.empty() ? "" : "WHERE problem=?";
  Statement trials(db, sql(kTrialColumns, which));
  if (!problem.empty()) trials.text(problem);
  DbStatus status;
  while ((status = trials.step()) == DbStatus::row) {
    StoredTrial entry;
    auto trial = read_trial(trials, &entry.made);
    auto env = parse_environment(trials.text_at(2));
    if (!trial || !env || trial->candidate.text() != trials.text_at(1)) {
      ++contents->damaged;
      continue;
    }
    entry.problem = trials.text_at(0);
    entry.env = std::move(*env);
    entry.trial = std::move(*trial);
    contents->trials.push_back(std::move(entry));
  }
  if (status != DbStatus::done) return status;
  Statement selections(db, sql(kSelectionColumns, which));
  if (!problem.empty()) selections.text(problem);
  while ((status = selections.step()) == DbStatus::row) {
    auto scope = parse_scope(selections.text_at(2));
    auto candidate = Candidate::parse(selections.text_at(3));
    if (!selection_holds(selections) || !scope || !candidate) {
      ++contents->damaged;
      continue;
    }
    contents->selections.push_back({selections.text_at(0), selections.text_at(1), std::move(*scope),
                                    std::move(*candidate), selections.text_at(4),
                                    selections.integer_at(5)});
  }
  return status;
}

Result<StoreContents> SqliteCache::contents(const std::vector<std::string>& problems) {
  const std::lock_guard lock(mutex_);
  StoreContents contents;
  Database* const db = database();
  if (db == nullptr) return fail(ErrorCode::io, path_ + ": the store is not open");
  DbStatus status = DbStatus::done;
  if (problems.empty()) status = read_contents(*db, {}, &contents);
  for (const std::string& problem : problems) {
    if (status == DbStatus::done) status = read_contents(*db, problem, &contents);
  }
  const std::string message = db->message();
  settle(status, "read");
  if (status != DbStatus::done) {
    return fail(ErrorCode::io, fmt::format("cache: {}: cannot read: {}", path_, message));
  }
  return contents;
}

DbStatus SqliteCache::take_trials(Database& db, const StoreContents& contents, Taken* taken) {
  Statement find(db, sql(kTrialColumns, "WHERE problem=? AND candidate=? AND environment=?"));
  Statement store(db, kStoreTrial);
  for (const StoredTrial& entry : contents.trials) {
    const std::string& p = entry.problem;
    const std::string c = entry.trial.candidate.text(), e = entry.env.text();
    const DbStatus found = find.reset().text(p).text(c).text(e).step();
    if (found == DbStatus::row && stays(find, entry)) {
      ++taken->known;
      continue;
    }
    if (found != DbStatus::row && found != DbStatus::done) return found;
    find.reset();
    const std::string json = trial_json(entry.trial, entry.made);
    store.reset().text(p).text(c).text(e).text(json).text(trial_checksum(p, c, e, json));
    if (const DbStatus status = store.step(); status != DbStatus::done) return status;
    ++taken->trials;
  }
  return DbStatus::done;
}

DbStatus SqliteCache::take_selections(Database& db, const StoreContents& contents, Taken* taken) {
  Statement find(db, sql(kSelectionColumns, "WHERE problem=? AND device=? AND scope=?"));
  Statement store(db, kStoreSelection);
  for (const StoredSelection& entry : contents.selections) {
    const std::string &p = entry.problem, &d = entry.device;
    const std::string s = entry.scope.text(), c = entry.candidate.text();
    const DbStatus found = find.reset().text(p).text(d).text(s).step();
    if (found == DbStatus::row && selection_holds(find) &&
        (entry.yields || find.integer_at(5) >= entry.made)) {
      ++taken->known;
      continue;
    }
    if (found != DbStatus::row && found != DbStatus::done) return found;
    find.reset();
    store.reset().text(p).text(d).text(s).text(c).text(entry.why).integer(entry.made);
    store.text(selection_checksum(p, d, s, c, entry.why, entry.made));
    if (const DbStatus status = store.step(); status != DbStatus::done) return status;
    ++taken->selections;
  }
  return DbStatus::done;
}

DbStatus SqliteCache::take_code(Database& db, Database& source, const CodeSource& code,
                                Taken* taken, Error* error) {
  const std::string id = store_id(source);
  const bool refuse = !code.allow_foreign && (id.empty() || id != store_id(db));
  Statement find(db, "SELECT 1 FROM code WHERE key=?");
  Statement store(db, kStoreCode), use(db, kStoreUse);
  Statement rows(source, kCodeColumns);
  DbStatus status;
  while ((status = rows.step()) == DbStatus::row) {
    const std::string key = rows.text_at(7);
    const DbStatus found = find.reset().text(key).step();
    find.reset();
    if (found == DbStatus::row) continue;  // the key is a hash of all that it was made from
    if (found != DbStatus::done) return found;
    if (refuse) {
      ++taken->refused_code;
    } else if (read_code(rows, key)) {
      if (const auto copied = copy_code(rows, &store, &use); copied != DbStatus::done)
        return copied;
      ++taken->code;
    } else if (code.skip_damaged) {
      ++taken->damaged_code;
    } else {
      *error = {ErrorCode::io,
                fmt::format("{}: kernel {} does not match its checksum", code.file, key),
                {}};
      return DbStatus::failed;
    }
  }
  if (status != DbStatus::done) {
    *error = {ErrorCode::io, fmt::format("{}: {}", code.file, source.message()), {}};
    return DbStatus::failed;
  }
  if (!refuse) {
    if (const auto copied = copy_toolchains(source, db); copied != DbStatus::done) return copied;
  }
  return make_room(db, {});
}

Result<Taken> SqliteCache::take(const StoreContents& contents, const CodeSource& code) {
  const std::lock_guard lock(mutex_);
  Database* const db = writable();
  if (db == nullptr) return not_writable();
  std::unique_ptr<Database> source;
  if (!code.file.empty()) {
    auto opened = open_source(code.file);
    if (!opened) return fail(ErrorCode::io, opened.error().message);
    source = std::move(*opened);
  }
  Taken taken;
  Error error;
  DbStatus status;
  std::string message;
  {
    Transaction transaction(*db);
    status = transaction.begun();
    if (status == DbStatus::done) status = take_trials(*db, contents, &taken);
    if (status == DbStatus::done) status = take_selections(*db, contents, &taken);
    if (status == DbStatus::done && source) status = take_code(*db, *source, code, &taken, &error);
    if (status == DbStatus::done) status = transaction.commit();
    message = db->message();
  }
  if (!error.message.empty()) return tl::unexpected(std::move(error));
  settle(status, "write");
  if (status != DbStatus::done) {
    return fail(ErrorCode::io, fmt::format("cache: {}: cannot write: {}", path_, message));
  }
  return taken;
}

Result<std::int64_t> SqliteCache::save_code(const std::string& file) {
  const std::lock_guard lock(mutex_);
  Database* const db = database();
  if (db == nullptr) return fail(ErrorCode::io, path_ + ": the store is not open");
  if (!foreign_.empty()) {
    return fail(ErrorCode::io,
                fmt::format("{}: its kernels are not exported: {}", path_, foreign_));
  }
  NewFile fresh(file);
  std::int64_t count = 0;
  const auto cannot = [&](const std::string& why) {
    return fail(ErrorCode::io, fmt::format("cannot write {}: {}", file, why));
  };
  {
    auto opened = Database::open(fresh.path(), {OpenMode::Access::write, false});
    if (!opened) return cannot(opened.error().message);
    Database& target = **opened;
    Transaction transaction(target);
    Statement id(target, "UPDATE store SET id=?");
    DbStatus status = id.text(store_id(*db)).step();
    Statement store(target, kStoreCode), use(target, kStoreUse);
    Statement rows(*db, sql(kCodeColumns, "ORDER BY key"));
    DbStatus read = DbStatus::done;
    while (status == DbStatus::done && (read = rows.step()) == DbStatus::row) {
      if (!read_code(rows, rows.text_at(7))) continue;  // `culet cache verify` tells
      status = copy_code(rows, &store, &use);
      ++count;
    }
    if (read != DbStatus::done) return cannot(db->message());
    if (status == DbStatus::done) status = copy_toolchains(*db, target);
    if (status == DbStatus::done) status = transaction.commit();
    if (status != DbStatus::done) return cannot(target.message());
  }
  if (!fresh.finish()) return cannot("the finished file cannot be renamed");
  return count;
}

}  // namespace culet
