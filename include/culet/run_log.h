// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A log of tuning runs for other programs to read: one JSON object a line (docs/run-log.md).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "culet/error.h"
#include "culet/tuner.h"

namespace culet {

/// An Observer that appends what it is told to a file. Any number of processes may append to one:
/// each event is written whole, at once.
///
///     auto log = RunLog::open("runs.jsonl").value();
///     log->run_started(tuner, {"nightly"});
///     auto report = tuner.tune(problem, log.get());
///     log->run_finished(0);
class RunLog final : public Observer {
 public:
  /// Makes the file where there is none. Errors (io): it cannot be written to.
  static Result<std::unique_ptr<RunLog>> open(const std::string& path);
  ~RunLog() override;
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// Versions, device, options and environment; `arguments` as the user gave them. Errors (io).
  Result<void> run_started(const Tuner& tuner, const std::vector<std::string>& arguments);
  /// With the exit status of a program that ends with it.
  void run_finished(int status);
  /// tune() or bench() of a problem ended in an error.
  void failed(const Problem& problem, const Error& error);
  /// Why an event could not be written, the first time; empty where all were.
  std::string trouble() const;

  void started(const Problem& problem) override;
  void compilation(const Problem& problem, const Candidate& candidate,
                   const Compilation& kernel) override;
  void trial(const Problem& problem, const Trial& trial) override;
  void worker_replaced(const Problem& problem, std::string_view why) override;
  void warning(std::string_view text) override;
  void report(const TuneReport& report) override;

 private:
  struct Impl;
  explicit RunLog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace culet
