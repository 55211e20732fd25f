// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The store for `--cache none` and for places that cannot be written: lasts as long as the process.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "culet/cache.h"

namespace culet {

class MemoryCache final : public Cache {
 public:
  explicit MemoryCache(std::string warning = {}) : warning_(std::move(warning)) {}

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
  std::vector<std::string> verify() override { return {}; }
  Result<void> clear() override;
  Result<void> clear_measurements() override;
  Result<std::int64_t> forget(const std::string& problem) override;
  Result<StoreContents> contents(const std::vector<std::string>& problems) override;
  Result<Taken> take(const StoreContents& contents, const CodeSource& code) override;
  Result<std::int64_t> save_code(const std::string& file) override;
  std::string take_warning() override;

 private:
  struct Selected {
    Candidate candidate;
    std::string why;
    std::int64_t made = 0;    ///< milliseconds since 1970
    std::int64_t serial = 0;  ///< of the store call: of two of one moment the larger is the newer
    std::pair<std::int64_t, std::int64_t> age() const { return {made, serial}; }
  };
  struct Measured {
    Trial trial;
    std::int64_t made = 0;
  };
  using Key = std::tuple<std::string, std::string, std::string>;
  void put(const Key& key, const Trial& trial, std::int64_t made);
  std::mutex mutex_;  ///< guards everything below
  std::string warning_;
  std::int64_t serial_ = 0;
  std::map<std::string, Artifact> code_;
  std::vector<std::pair<std::string, std::string>> toolchains_;  ///< the last used last
  std::map<Key, Measured> trials_;      ///< by problem, candidate, environment
  std::map<Key, Selected> selections_;  ///< by problem, device, scope
};

}  // namespace culet
