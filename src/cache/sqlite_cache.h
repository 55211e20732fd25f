// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The store on disk: one SQLite file shared by any number of threads and processes. Being without
// it costs time and never a result, so whatever goes wrong after opening is a miss and a warning.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cache/database.h"
#include "culet/cache.h"

namespace culet {

struct StoreOptions {
  std::int64_t code_limit = 1'000'000'000;  ///< bytes of compiled code, as stored, that are kept
  bool allow_foreign = false;          ///< code in a file that others own or may write to is used
  std::optional<std::string> network;  ///< name of the network file system; not given: look
};

class SqliteCache final : public Cache {
 public:
  /// Opens <folder>/culet.sqlite; makes the folder. A damaged file is moved aside, with a warning;
  /// one that cannot be written to is read, with a warning.
  static Result<std::shared_ptr<Cache>> open(const std::string& folder,
                                             const StoreOptions& options = {});

  std::optional<Artifact> find_code(const std::string& key) override;
  void store_code(const std::string& key, const Artifact& artifact) override;
  std::vector<std::string> toolchains(const std::string& architecture) override;
  void note_toolchain(const std::string& architecture, const std::string& fingerprint) override;
  std::optional<Trial> find_trial(const Problem& problem, const Candidate& candidate,
                                  const Environment& env) override;
  void store_trial(const Problem& problem, const Trial& trial, const Environment& env) override;
  std::optional<Candidate> find_selection(const Problem& problem, const SelectionScope& scope,
                                          const std::string& device) override;
  void store_selection(const Problem& problem, const SelectionScope& scope,
                       const std::string& device, const Candidate& candidate,
                       const std::string& why) override;
  std::optional<Candidate> find_any_selection(const Problem& problem,
                                              const std::string& device) override;
  CacheStats stats() override;
  std::vector<Entry> entries() override;
  std::vector<Trial> trials_of(const std::string& problem) override;
  std::vector<std::string> verify() override;
  Result<void> clear() override;
  Result<void> clear_measurements() override;
  Result<std::int64_t> forget(const std::string& problem) override;
  Result<StoreContents> contents(const std::vector<std::string>& problems) override;
  Result<Taken> take(const StoreContents& contents, const CodeSource& code) override;
  Result<std::int64_t> save_code(const std::string& file) override;
  std::string take_warning() override;
  std::unique_ptr<CodeLock> lock_code(const std::string& key,
                                      const std::function<bool()>& cancelled) override;

 private:
  SqliteCache(std::string path, StoreOptions options)
      : path_(std::move(path)), options_(std::move(options)) {}

  /// Opens path_, moving a damaged file aside. Other processes wait meanwhile.
  Result<void> reopen();
  Result<void> open_locked();
  /// For a file that is there but cannot be written to, for a reason that goes into the warning.
  Result<void> open_to_read(const Error& why);
  void look_at_place();
  /// Moves the file of a connection that found it damaged aside and opens a fresh one.
  Result<void> replace_damaged(const Database& damaged, const std::string& message);
  /// The connection of this process; null where there is none any more.
  Database* database();
  /// Acts on a statement's end: damage moves the file aside, failure is a warning.
  void settle(DbStatus status, std::string_view doing);
  void warn_once(const std::string& kind, std::string text);
  void entry_is_damaged(std::string_view what);
  std::optional<Candidate> read_selection(Statement& statement, const std::string& problem);
  void verify_rows(Database& database, std::vector<std::string>* lines);
  /// Deletes what was used longest ago until the limit holds again, but never `newest`.
  DbStatus make_room(Database& database, const std::string& newest);
  DbStatus touch(Database& database, const std::string& key);
  /// The error of whoever wanted to write where writable() is null.
  tl::unexpected<Error> not_writable() const;
  /// The connection, if it may be written to.
  Database* writable() { return read_only_ ? nullptr : database(); }
  /// Takes entries over within a transaction that is open; where it fails, `*error` may say why.
  DbStatus take_trials(Database& database, const StoreContents& contents, Taken* taken);
  DbStatus take_selections(Database& database, const StoreContents& contents, Taken* taken);
  DbStatus take_code(Database& database, Database& source, const CodeSource& code, Taken* taken,
                     Error* error);
  static DbStatus copy_toolchains(Database& from, Database& to);
  /// Deletes tables' rows, and gives the space back.
  Result<void> empty(const char* statements);
  DbStatus read_contents(Database& database, const std::string& problem, StoreContents* contents);

  const std::string path_;
  const StoreOptions options_;
  std::mutex mutex_;  ///< guards everything below
  std::unique_ptr<Database> database_;
  pid_t process_ = 0;
  std::deque<std::string> warnings_;
  std::set<std::string> warned_;
  std::vector<std::string> moved_;  ///< files found damaged, what verify() says of them
  std::int64_t damaged_ = 0;
  bool read_only_ = false;
  std::string foreign_;  ///< why code in the file is not used; empty: it is
};

}  // namespace culet
