// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What lasts from run to run: compiled code by content, and trials by (problem, candidate,
// environment). Anything corrupt, foreign or unreadable is a miss, never an error of the caller's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "culet/candidate.h"
#include "culet/error.h"
#include "culet/report.h"

namespace culet {

/// What timings depend on beside problem and candidate. All of it is part of a trial's key.
struct Environment {
  std::string device;   ///< DeviceSpec::identity()
  std::string library;  ///< version() of every backend of the candidate
  std::string policy;   ///< MeasurePolicy::text()
  std::string text() const;
};

/// Which set a selection was made from, so that a narrow run never stands in for a wide one.
struct SelectionScope {
  std::string backends;     ///< names and versions of those asked
  std::string top;          ///< "5", "all"
  std::uint64_t space = 0;  ///< hash of every candidate's text
  std::string text() const;
};

struct CacheStats {
  std::string path;  ///< empty: in memory
  std::int64_t code_entries = 0, code_bytes = 0, trials = 0, selections = 0, damaged = 0;
};

/// Layered caches implement the same interface. All methods are thread-safe.
class Cache {
 public:
  virtual ~Cache() = default;

  virtual std::optional<Artifact> find_code(const std::string& key) = 0;
  virtual void store_code(const std::string& key, const Artifact& artifact) = 0;

  virtual std::optional<Trial> find_trial(const Problem& problem, const Candidate& candidate,
                                          const Environment& env) = 0;
  virtual void store_trial(const Problem& problem, const Trial& trial, const Environment& env) = 0;

  /// The candidate chosen for a problem within a scope, by text.
  virtual std::optional<Candidate> find_selection(const Problem& problem,
                                                  const SelectionScope& scope,
                                                  const std::string& device) = 0;
  virtual void store_selection(const Problem& problem, const SelectionScope& scope,
                               const std::string& device, const Candidate& candidate,
                               const std::string& why) = 0;
  /// The most recent selection for the problem on the device in whatever scope (for matmul()).
  virtual std::optional<Candidate> find_any_selection(const Problem& problem,
                                                      const std::string& device) = 0;

  virtual CacheStats stats() = 0;
  /// Problems with stored selections, with their choice, newest first: what `culet cache ls`
  /// prints.
  struct Entry {
    std::string problem, device, scope, candidate, why, when;
  };
  virtual std::vector<Entry> entries() = 0;
  /// All stored trials of a problem text on any device.
  virtual std::vector<Trial> trials_of(const std::string& problem) = 0;
  /// Reads everything and checks its checksums; returns one line for each damaged entry.
  virtual std::vector<std::string> verify() = 0;
  virtual Result<void> clear() = 0;
  /// A warning to show once (store unreadable, degraded to memory ...), empty if there is none.
  virtual std::string take_warning() = 0;
};

/// Opens a store: a path to a folder, "none" (memory only), or empty for the default place
/// ($CULET_CACHE, else $XDG_CACHE_HOME/culet, else ~/.cache/culet). An explicitly named place that
/// cannot be used is an error; the default place degrades to memory with a warning.
Result<std::shared_ptr<Cache>> open_cache(const std::string& path = {});

}  // namespace culet
