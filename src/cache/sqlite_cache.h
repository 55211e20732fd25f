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
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cache/database.h"
#include "culet/cache.h"

namespace culet {

class SqliteCache final : public Cache {
 public:
  /// Opens <folder>/culet.sqlite; makes the folder. A damaged file is moved aside, with a warning.
  static Result<std::shared_ptr<Cache>> open(const std::string& folder);

  std::optional<Artifact> find_code(const std::string& key) override;
  void store_code(const std::string& key, const Artifact& artifact) override;
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
  std::string take_warning() override;

 private:
  explicit SqliteCache(std::string path) : path_(std::move(path)) {}

  /// Opens path_, moving a damaged file aside. Other processes wait meanwhile.
  Result<void> reopen();
  Result<void> open_locked();
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

  const std::string path_;
  std::mutex mutex_;  ///< guards everything below
  std::unique_ptr<Database> database_;
  pid_t process_ = 0;
  std::deque<std::string> warnings_;
  std::set<std::string> warned_;
  std::vector<std::string> moved_;  ///< files found damaged, what verify() says of them
  std::int64_t damaged_ = 0;
};

}  // namespace culet
