// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Verifies and times candidates of one problem on one device. What crosses this interface is only
// problem, BuiltCandidate (Artifact + LaunchSpec) and results, so that an implementation may live
// in another process.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "culet/candidate.h"
#include "culet/device.h"
#include "culet/error.h"
#include "culet/problem.h"
#include "culet/report.h"
#include "culet/tuner.h"

namespace culet {

/// What came of verifying a candidate.
struct Verification {
  Outcome outcome = Outcome::measured;  ///< `measured` here means: correct, may be timed
  std::string reason;  ///< "D[12,40] of batch 0 is 3.5, should be 7 (tolerance 0.03)"
  double error = 0;    ///< largest |got - reference| / tolerance
};

/// What came of timing one: a Timing, or crashed / timed_out with a reason.
struct RaceResult {
  Outcome outcome = Outcome::measured;
  std::string reason;
  Timing timing;
  bool to_be_timed_again = false;  ///< a race that was stopped in its final is to be run again
};

/// Of candidates with these times (nothing: it failed) those that more rounds are worth having of.
using Deciding = std::function<std::vector<bool>(const std::vector<std::optional<Timing>>&)>;

struct RunnerOptions {
  std::uint64_t seed = 1;
  double max_memory_bytes = 0;
  MeasurePolicy policy;
  const std::atomic<bool>* stop = nullptr;
  std::function<double(const Candidate&, int round)> simulated_clock;
  /// Called after each sample of a race, where `stop` may be set. May be empty.
  std::function<void()> on_sample;
  /// Told why a worker process is gone, when another took its place. May be empty.
  std::function<void(const std::string& why)> on_replaced;
  /// Told before a candidate's code runs, with the seconds that may take, and with 0 when it has
  /// returned: for whoever watches this process from outside. May be empty.
  std::function<void(double seconds)> watch;
};

class TrialRunner {
 public:
  virtual ~TrialRunner() = default;

  /// Runs the candidate once on poisoned output and compares with the independent reference.
  /// `full`: every element; otherwise sampled tiles that include every edge where the output is
  /// large.
  virtual Verification verify(const BuiltCandidate& candidate, bool full) = 0;

  /// One round of a candidate's timing: seconds of one run. On a GPU it first runs for
  /// `settle_seconds` without being timed. Keeps it loaded until leave(), so the candidate must
  /// stay where it is. Errors: out_of_budget where it did not end, build_failed where it cannot be
  /// loaded, all others stand for a crash.
  virtual Result<double> sample(const BuiltCandidate& candidate, double settle_seconds) = 0;
  virtual void leave(const BuiltCandidate& candidate) = 0;

  /// False once nothing can run here any more: a lost CUDA context, a kernel that never ends.
  virtual bool usable() const { return true; }

  /// Times all candidates together: warm-up, then interleaved rounds; and a final of the fastest
  /// where that has held the device back. Candidates that `droppable` marks (not the vendor's
  /// first) leave the race when hopelessly behind. Called back after each round with (round,
  /// total). `deciding`: as in benchmark::RaceRules; without it, it ends after the fewest rounds.
  std::vector<RaceResult> race(const std::vector<const BuiltCandidate*>& candidates,
                               const std::vector<bool>& droppable,
                               const std::function<void(int, int)>& on_round,
                               const Deciding& deciding = {});

  /// What held the device back in the rounds of the last race ("power cap"); empty if nothing is
  /// known to have.
  const std::string& notes() const { return notes_; }

 protected:
  TrialRunner(Problem problem, DeviceSpec device, RunnerOptions options)
      : problem_(std::move(problem)), device_(std::move(device)), options_(std::move(options)) {}

  Problem problem_;
  DeviceSpec device_;
  RunnerOptions options_;

 private:
  std::string notes_;
};

/// The in-process runner for the device. Allocates and fills operands; errors: device, or
/// unsupported when the operands do not fit into the memory allowed.
Result<std::unique_ptr<TrialRunner>> make_trial_runner(const Problem& problem,
                                                       const DeviceSpec& device,
                                                       const RunnerOptions& options);

/// Held while a process measures on a device, so that two tuners never time at once. Blocks until
/// free, or until `stop` is set (ErrorCode::interrupted).
class DeviceLock {
 public:
  static Result<DeviceLock> acquire(const DeviceSpec& device,
                                    const std::atomic<bool>* stop = nullptr);
  DeviceLock(DeviceLock&& other) noexcept;
  DeviceLock& operator=(DeviceLock&& other) noexcept;
  ~DeviceLock();

 private:
  explicit DeviceLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace culet
