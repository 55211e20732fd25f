// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Why a run ends early: Ctrl-C, or a time budget that is used up. Both set one flag, which the
// tuner looks at between trials.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace culet::cli {

class Stop {
 public:
  /// Takes over SIGINT, SIGTERM and SIGHUP: the first sets the flag, a second ends the process and
  /// the compilers it started, with status 130. A SIGHUP that is ignored (nohup) stays so.
  /// `budget_seconds` of 0 is no limit. One at a time.
  explicit Stop(double budget_seconds);
  ~Stop();
  Stop(const Stop&) = delete;
  Stop& operator=(const Stop&) = delete;

  const std::atomic<bool>* flag() const;
  bool requested() const { return flag()->load(); }
  bool interrupted() const;
  bool out_of_budget() const { return requested() && !interrupted(); }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;  ///< guarded by mutex_
  std::thread timer_;
  bool hangup_ = false;  ///< SIGHUP is taken over
};

}  // namespace culet::cli
