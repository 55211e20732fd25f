// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What lasts from run to run: compiled code by content, and trials by (problem, candidate,
// environment). Anything corrupt, foreign or unreadable is a miss, never an error of the caller's.
#pragma once

#include <cstdint>
#include <functional>
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

/// A stored trial with all of its key.
struct StoredTrial {
  std::string problem;  ///< canonical text
  Environment env;
  Trial trial;
  std::int64_t made = 0;  ///< when it was stored, milliseconds since 1970; 0: not known
  /// Never replaces a trial that is there: its key was made to fit (see ImportRules::relax).
  bool yields = false;
};

struct StoredSelection {
  std::string problem, device;
  SelectionScope scope;
  Candidate candidate;
  std::string why;
  std::int64_t made = 0;
  bool yields = false;
};

/// What a store knows beside code, in no particular order.
struct StoreContents {
  std::vector<StoredTrial> trials;
  std::vector<StoredSelection> selections;
  std::int64_t damaged = 0;  ///< entries that could not be read and are left out
};

/// Which compiled code is taken over together with entries.
struct CodeSource {
  std::string file;            ///< made by Cache::save_code, or another store; empty: none
  bool allow_foreign = false;  ///< also if another store made it: code is loaded and run
  bool skip_damaged = false;   ///< false: a kernel that does not match its checksum is an error
};

/// What Cache::take did.
struct Taken {
  std::int64_t trials = 0, selections = 0, code = 0;
  std::int64_t known = 0;         ///< trials and selections of which the same or a newer was there
  std::int64_t refused_code = 0;  ///< kernels of another store
  std::int64_t damaged_code = 0;  ///< kernels that do not match their checksum
};

/// Held by whoever compiles a key, see Cache::lock_code.
class CodeLock {
 public:
  virtual ~CodeLock() = default;
};

/// Layered caches implement the same interface. All methods are thread-safe.
class Cache {
 public:
  virtual ~Cache() = default;

  virtual std::optional<Artifact> find_code(const std::string& key) = 0;
  virtual void store_code(const std::string& key, const Artifact& artifact) = 0;
  /// What compilers are called in keys of code (their fingerprints), those for an architecture, the
  /// last used first: with them stored code is found without loading or asking a compiler.
  virtual std::vector<std::string> toolchains(const std::string& architecture) = 0;
  virtual void note_toolchain(const std::string& architecture, const std::string& fingerprint) = 0;

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
  /// Deletes all trials and selections; compiled code stays.
  virtual Result<void> clear_measurements() = 0;
  /// Deletes all trials and selections of a problem text, on any device; returns how many.
  virtual Result<std::int64_t> forget(const std::string& problem) = 0;

  /// All trials and selections, or those of some problem texts.
  virtual Result<StoreContents> contents(const std::vector<std::string>& problems = {}) = 0;
  /// Takes entries over, and code: all, or after an error nothing. Of two entries with one key the
  /// newer stays.
  virtual Result<Taken> take(const StoreContents& contents, const CodeSource& code = {}) = 0;
  /// Writes all compiled code to a file for CodeSource, in one step; returns the number of kernels.
  virtual Result<std::int64_t> save_code(const std::string& file) = 0;
  /// A warning to show once (store unreadable, degraded to memory ...), empty if there is none.
  virtual std::string take_warning() = 0;

  /// Waits while another process that shares this cache compiles the code of `key`, then keeps
  /// others waiting until the lock is destroyed. `cancelled` is asked while waiting. Null where
  /// nobody shares the cache, where it has no locks, where the wait was cancelled, or where it took
  /// longer than any compiler: then one compiles without.
  virtual std::unique_ptr<CodeLock> lock_code(const std::string& /*key*/,
                                              const std::function<bool()>& /*cancelled*/) {
    return nullptr;
  }
};

/// Opens a store: a path to a folder, "none" (memory only), or empty for the default place
/// ($CULET_CACHE, else $XDG_CACHE_HOME/culet, else ~/.cache/culet). An explicitly named place that
/// cannot be used is an error; the default place degrades to memory with a warning.
Result<std::shared_ptr<Cache>> open_cache(const std::string& path = {});

}  // namespace culet
