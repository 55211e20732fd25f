// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Maps behind a mutex; see memory_cache.h.
#include "cache/memory_cache.h"

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

namespace culet {

std::optional<Artifact> MemoryCache::find_code(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = code_.find(key);
  return found == code_.end() ? std::nullopt : std::optional(found->second);
}

void MemoryCache::store_code(const std::string& key, const Artifact& artifact) {
  const std::lock_guard lock(mutex_);
  code_.insert_or_assign(key, artifact);
}

std::optional<Trial> MemoryCache::find_trial(const Problem& problem, const Candidate& candidate,
                                             const Environment& env) {
  const std::lock_guard lock(mutex_);
  const auto found = trials_.find({problem.text(), candidate.text(), env.text()});
  return found == trials_.end() ? std::nullopt : std::optional(found->second);
}

void MemoryCache::store_trial(const Problem& problem, const Trial& trial, const Environment& env) {
  Trial stored = trial;
  stored.from_cache = true;
  stored.order = -1;
  const std::lock_guard lock(mutex_);
  trials_.insert_or_assign({problem.text(), trial.candidate.text(), env.text()}, std::move(stored));
}

std::optional<Candidate> MemoryCache::find_selection(const Problem& problem,
                                                     const SelectionScope& scope,
                                                     const std::string& device) {
  const std::lock_guard lock(mutex_);
  const auto found = selections_.find({problem.text(), device, scope.text()});
  return found == selections_.end() ? std::nullopt : std::optional(found->second.candidate);
}

void MemoryCache::store_selection(const Problem& problem, const SelectionScope& scope,
                                  const std::string& device, const Candidate& candidate,
                                  const std::string& why) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char when[32];
  std::strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
  const std::lock_guard lock(mutex_);
  selections_.insert_or_assign({problem.text(), device, scope.text()},
                               Selected{candidate, why, when, ++serial_});
}

std::optional<Candidate> MemoryCache::find_any_selection(const Problem& problem,
                                                         const std::string& device) {
  const std::string text = problem.text();
  const std::lock_guard lock(mutex_);
  const Selected* newest = nullptr;
  for (auto at = selections_.lower_bound({text, device, {}}); at != selections_.end(); ++at) {
    if (std::get<0>(at->first) != text || std::get<1>(at->first) != device) break;
    if (newest == nullptr || at->second.serial > newest->serial) newest = &at->second;
  }
  return newest == nullptr ? std::nullopt : std::optional(newest->candidate);
}

CacheStats MemoryCache::stats() {
  const std::lock_guard lock(mutex_);
  CacheStats stats;
  stats.code_entries = static_cast<std::int64_t>(code_.size());
  for (const auto& [key, artifact] : code_) {
    stats.code_bytes += static_cast<std::int64_t>(artifact.bytes.size());
  }
  stats.trials = static_cast<std::int64_t>(trials_.size());
  stats.selections = static_cast<std::int64_t>(selections_.size());
  return stats;
}

std::vector<Cache::Entry> MemoryCache::entries() {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::int64_t, Entry>> found;
  for (const auto& [key, selected] : selections_) {
    const auto& [problem, device, scope] = key;
    found.emplace_back(-selected.serial, Entry{problem, device, scope, selected.candidate.text(),
                                               selected.why, selected.when});
  }
  std::sort(found.begin(), found.end(),
            [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<Entry> entries;
  for (auto& item : found) entries.push_back(std::move(item.second));
  return entries;
}

std::vector<Trial> MemoryCache::trials_of(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  std::vector<Trial> trials;
  for (auto at = trials_.lower_bound({problem, {}, {}}); at != trials_.end(); ++at) {
    if (std::get<0>(at->first) != problem) break;
    trials.push_back(at->second);
  }
  return trials;
}

Result<void> MemoryCache::clear() {
  const std::lock_guard lock(mutex_);
  code_.clear();
  trials_.clear();
  selections_.clear();
  return {};
}

std::string MemoryCache::take_warning() {
  const std::lock_guard lock(mutex_);
  return std::exchange(warning_, {});
}

}  // namespace culet
