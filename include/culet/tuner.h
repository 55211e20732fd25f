// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The pipeline: problem -> backends -> candidates -> ranking -> compile -> benchmark -> selection
// -> cache -> launch.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "culet/cache.h"
#include "culet/overrides.h"
#include "culet/plan.h"
#include "culet/registry.h"
#include "culet/report.h"

namespace culet {

/// What the tuner is doing, for progress displays. Never called concurrently.
struct Progress {
  std::string_view phase;  ///< "rank", "compile", "verify", "time"
  int problem = 0,
      problems = 1;         ///< which of how many (set by the caller that loops over problems)
  int done = 0, total = 0;  ///< within the phase
  double best_seconds = 0;  ///< fastest so far, 0 if none
  std::string_view best_name;
};

/// How the code of a kernel was come by.
enum class CodeFrom : std::uint8_t {
  compiled,  ///< by this process; told once of each kernel, also if it was compiled ahead
  stored,    ///< it was in the store
  awaited,   ///< another thread or process was compiling it
};
std::string_view to_string(CodeFrom from);

/// A kernel that a candidate needs.
struct Compilation {
  std::string key;    ///< of its code in the store
  std::string entry;  ///< name of the kernel
  CodeFrom from = CodeFrom::compiled;
  double seconds = 0;  ///< until it was there; of one compiled ahead, what that took
  std::string error;   ///< one line; empty: there is none
};

/// Never called concurrently by one tuner that tunes one problem at a time.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void progress(const Progress&) {}
  /// A candidate was tried: it could not be built, was wrong, crashed, took too long, or was timed.
  virtual void trial(const Problem&, const Trial&) {}
  /// The end of tune() or bench() where that is no error.
  virtual void report(const TuneReport&) {}
  virtual void warning(std::string_view) {}
  /// tune() or bench() begins.
  virtual void started(const Problem&) {}
  virtual void compilation(const Problem&, const Candidate&, const Compilation&) {}
  /// A worker process took the place of one that is gone, and why that one is.
  virtual void worker_replaced(const Problem&, std::string_view /*why*/) {}
};

/// How trials are measured; part of every trial's key.
struct MeasurePolicy {
  double target_seconds = 0.02;  ///< device time per candidate and round (bounded below by one run)
  int min_rounds = 5, max_rounds = 25;
  double drop_ratio =
      1.25;  ///< a candidate this much slower than the best after two rounds leaves the race
  std::int64_t rotate_bytes =
      0;  ///< operands rotate over at least this many bytes; 0: 3x the last-level cache
  double noise_floor = 0.005;  ///< ties within this go to the better-ranked
  double trial_seconds = 10;   ///< longer than this is timed_out
  /// Where a GPU is held back (power cap), the fastest meet again in a final, in whose rounds each
  /// runs alone for this long before what counts, so that it has the clock that its own power
  /// leaves; 0: no final. Who: those at most `final_ratio` slower than the fastest, and the
  /// vendor's first.
  double settle_seconds = 0.06;
  double final_ratio = 1.1;
  std::string text() const;
};

/// Where candidates are verified and timed.
enum class Isolation : std::uint8_t {
  process,  ///< in a worker process: a crash or a hang costs the candidate only. Where no worker
            ///< can be started, in this process, which Observer::warning() tells once
  none,     ///< in this process
};
Result<Isolation> parse_isolation(std::string_view text);

struct TuneOptions {
  int top = 5;  ///< candidates compiled per ranked backend; -1 for all
  BackendFilter backends;
  Overrides overrides;          ///< pins and denials, see load_overrides()
  std::uint64_t seed = 1;       ///< of the operands
  double budget_seconds = 0;    ///< wall time for tune(); 0 without limit
  double max_memory_bytes = 0;  ///< for operands and their rotation; 0: half of what is free
  bool measure = true;          ///< false: rank, and choose by the model
  bool use_cached_trials = true;
  std::string dump_dir;  ///< sources and code of everything compiled go here
  MeasurePolicy policy;
  Isolation isolation = Isolation::process;
  int compile_threads = 0;  ///< 0: one per core
  /// Whether tune() compiles for the problem that comes next while it measures. Nothing: where that
  /// disturbs no timing, on a GPU whose candidates run in a worker process.
  std::optional<bool> compile_ahead;
  const std::atomic<bool>* stop = nullptr;  ///< set it to end after the current trial
  /// Replaces the clock, for tests of the policy: seconds of one run of a candidate in a round; a
  /// value <= 0 means "use the real one".
  std::function<double(const Candidate&, int round)> simulated_clock;
};

class Tuner {
 public:
  Tuner(Registry registry, DeviceSpec device, TuneOptions options = {},
        std::shared_ptr<Cache> cache = nullptr);
  ~Tuner();

  /// Finds the fastest verified candidate, from the cache where the same question was answered
  /// before. Errors: no_candidate (every backend's reason in `detail`), device, out_of_budget.
  /// `next`: what will be asked after this, so that it need not wait for its compilation; see
  /// TuneOptions::compile_ahead.
  Result<TuneReport> tune(const Problem& problem, Observer* observer = nullptr,
                          const Problem* next = nullptr);

  /// The ranked candidates, nothing compiled or run; works for a device that is not here.
  /// With `compile`, the shortlist is compiled for that device too: what does not compile, or
  /// compiles with spills, has the reason in its trial and is told to the observer as a warning.
  Result<TuneReport> rank(const Problem& problem, bool compile = false,
                          Observer* observer = nullptr);

  /// Compiles, verifies and times exactly these candidates, and the vendor's.
  Result<TuneReport> bench(const Problem& problem, const std::vector<Candidate>& candidates,
                           Observer* observer = nullptr);

  /// A plan of the tuned choice, tuning first if need be.
  Result<Plan> plan(const Problem& problem, Observer* observer = nullptr);
  /// A plan of a given candidate, built (or found in the cache) but not measured.
  Result<Plan> plan(const Problem& problem, const Candidate& candidate);
  /// Plans for intervals of the problem's m range. The range is cut into pieces, each tuned at its
  /// largest m; what was chosen and what is proposed for other m then races at both ends of each
  /// half of a piece, which is served by what is least behind the fastest there, or halved again
  /// where that is far. A budget holds for each tuning and each race. The table begins at m = 1:
  /// with no rows there is nothing to run.
  Result<PlanTable> plan_table(const Problem& problem, Observer* observer = nullptr);

  /// What the store knows of a candidate as it would be measured here.
  std::optional<Trial> stored_trial(const Problem& problem, const Candidate& candidate);

  const Registry& registry() const;
  const DeviceSpec& device() const;
  const TuneOptions& options() const;
  Cache& cache();
  /// Kernels compiled (ahead, too) and candidates timed since construction; counted outside the
  /// cache.
  Counts counts() const;

 private:
  /// Verifies these candidates at this m and times them against each other in a few rounds. What
  /// cannot be built or run there has that in its trial.
  Result<std::vector<Trial>> contest(const Problem& problem,
                                     const std::vector<Candidate>& candidates, Observer* observer);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace culet
