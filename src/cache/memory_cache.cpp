// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Maps behind a mutex; see memory_cache.h.
#include "cache/memory_cache.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "cache/records.h"
#include "cache/rows.h"

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

std::vector<std::string> MemoryCache::toolchains(const std::string& architecture) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  for (auto at = toolchains_.rbegin(); at != toolchains_.rend(); ++at) {
    if (at->first == architecture) found.push_back(at->second);
  }
  return found;
}

void MemoryCache::note_toolchain(const std::string& architecture, const std::string& fingerprint) {
  const std::lock_guard lock(mutex_);
  const std::pair noted(architecture, fingerprint);
  std::erase(toolchains_, noted);
  toolchains_.push_back(noted);
}

std::optional<Trial> MemoryCache::find_trial(const Problem& problem, const Candidate& candidate,
                                             const Environment& env) {
  const std::lock_guard lock(mutex_);
  const auto found = trials_.find({problem.text(), candidate.text(), env.text()});
  return found == trials_.end() ? std::nullopt : std::optional(found->second.trial);
}

void MemoryCache::store_trial(const Problem& problem, const Trial& trial, const Environment& env) {
  const std::lock_guard lock(mutex_);
  put({problem.text(), trial.candidate.text(), env.text()}, trial, now_milliseconds());
}

void MemoryCache::put(const Key& key, const Trial& trial, std::int64_t made) {
  Measured stored{trial, made};
  stored.trial.from_cache = true;
  stored.trial.order = -1;
  trials_.insert_or_assign(key, std::move(stored));
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
  const std::lock_guard lock(mutex_);
  selections_.insert_or_assign({problem.text(), device, scope.text()},
                               Selected{candidate, why, now_milliseconds(), ++serial_});
}

std::optional<Candidate> MemoryCache::find_any_selection(const Problem& problem,
                                                         const std::string& device) {
  const std::string text = problem.text();
  const std::lock_guard lock(mutex_);
  const Selected* newest = nullptr;
  for (auto at = selections_.lower_bound({text, device, {}}); at != selections_.end(); ++at) {
    if (std::get<0>(at->first) != text || std::get<1>(at->first) != device) break;
    if (newest == nullptr || at->second.age() > newest->age()) newest = &at->second;
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
  std::vector<std::pair<std::pair<std::int64_t, std::int64_t>, Entry>> found;
  for (const auto& [key, selected] : selections_) {
    const auto& [problem, device, scope] = key;
    found.emplace_back(selected.age(), Entry{problem, device, scope, selected.candidate.text(),
                                             selected.why, utc(selected.made)});
  }
  std::sort(found.begin(), found.end(),
            [](const auto& x, const auto& y) { return x.first > y.first; });
  std::vector<Entry> entries;
  for (auto& item : found) entries.push_back(std::move(item.second));
  return entries;
}

std::vector<Trial> MemoryCache::trials_of(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  std::vector<Trial> trials;
  for (auto at = trials_.lower_bound({problem, {}, {}}); at != trials_.end(); ++at) {
    if (std::get<0>(at->first) != problem) break;
    trials.push_back(at->second.trial);
  }
  return trials;
}

Result<void> MemoryCache::clear() {
  {
    const std::lock_guard lock(mutex_);
    code_.clear();
    toolchains_.clear();
  }
  return clear_measurements();
}

Result<void> MemoryCache::clear_measurements() {
  const std::lock_guard lock(mutex_);
  trials_.clear();
  selections_.clear();
  return {};
}

Result<std::int64_t> MemoryCache::forget(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  const auto of_problem = [&](const auto& item) { return std::get<0>(item.first) == problem; };
  return static_cast<std::int64_t>(std::erase_if(trials_, of_problem) +
                                   std::erase_if(selections_, of_problem));
}

Result<StoreContents> MemoryCache::contents(const std::vector<std::string>& problems) {
  const std::set<std::string> wanted(problems.begin(), problems.end());
  const std::lock_guard lock(mutex_);
  StoreContents contents;
  for (const auto& [key, measured] : trials_) {
    const auto& [problem, candidate, environment] = key;
    if (!wanted.empty() && wanted.count(problem) == 0) continue;
    if (auto env = parse_environment(environment)) {
      contents.trials.push_back({problem, std::move(*env), measured.trial, measured.made});
    }
  }
  for (const auto& [key, chosen] : selections_) {
    const auto& [problem, device, text] = key;
    if (!wanted.empty() && wanted.count(problem) == 0) continue;
    if (auto scope = parse_scope(text)) {
      contents.selections.push_back(
          {problem, device, std::move(*scope), chosen.candidate, chosen.why, chosen.made});
    }
  }
  return contents;
}

Result<Taken> MemoryCache::take(const StoreContents& contents, const CodeSource& code) {
  if (!code.file.empty()) {
    return fail(ErrorCode::unsupported, "code can only be taken over by a store on disk");
  }
  const std::lock_guard lock(mutex_);
  Taken taken;
  for (const StoredTrial& entry : contents.trials) {
    const Key key{entry.problem, entry.trial.candidate.text(), entry.env.text()};
    const auto found = trials_.find(key);
    const bool known = found != trials_.end() && (entry.yields || found->second.made >= entry.made);
    ++(known ? taken.known : taken.trials);
    if (!known) put(key, entry.trial, entry.made);
  }
  for (const StoredSelection& entry : contents.selections) {
    const Key key{entry.problem, entry.device, entry.scope.text()};
    const auto found = selections_.find(key);
    const bool known =
        found != selections_.end() && (entry.yields || found->second.made >= entry.made);
    ++(known ? taken.known : taken.selections);
    if (!known)
      selections_.insert_or_assign(key,
                                   Selected{entry.candidate, entry.why, entry.made, ++serial_});
  }
  return taken;
}

Result<std::int64_t> MemoryCache::save_code(const std::string& file) {
  return fail(ErrorCode::unsupported,
              "cannot write " + file + ": code can only be saved from a store on disk");
}

std::string MemoryCache::take_warning() {
  const std::lock_guard lock(mutex_);
  return std::exchange(warning_, {});
}

}  // namespace culet
