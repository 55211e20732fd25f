// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Both ends of isolation: a TrialRunner whose candidates run in a worker process that is replaced
// when one of them takes it down, and what that process does.
#pragma once

#include <memory>
#include <string>

#include "benchmark/trial_runner.h"

namespace culet {

/// The worker of a Tuner: started when first needed, kept from problem to problem, replaced when it
/// dies. Not thread-safe, and outlives its runners, of which there is one at a time.
class WorkerHost {
 public:
  /// What our own work may take between a candidate's steps: filling operands, computing the
  /// reference. Seconds, on a machine that is not busy.
  static constexpr double kOwnSeconds = 600;

  WorkerHost() : WorkerHost(kOwnSeconds) {}
  explicit WorkerHost(double own_seconds);
  WorkerHost(WorkerHost&&) noexcept;
  WorkerHost& operator=(WorkerHost&&) noexcept;
  ~WorkerHost();

  /// Like make_trial_runner(), but candidates run in the worker. Where there is no worker to be had
  /// they run in this process, which take_note() tells once.
  Result<std::unique_ptr<TrialRunner>> make_runner(const Problem& problem, const DeviceSpec& device,
                                                   const RunnerOptions& options);
  /// A sentence for the user, or empty.
  std::string take_note();
  /// Workers started so far.
  int started() const;

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// The worker's side: answers on `socket` until its owner, process `owner`, ends or closes it. The
/// kernels compiled into this program must have been registered. Returns the exit status.
int serve_worker(int socket, int owner);

}  // namespace culet
