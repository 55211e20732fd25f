// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Other programs, run without a shell and within a time limit.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "culet/error.h"

namespace culet {

struct ProcessOptions {
  double timeout_seconds = 60;
  std::size_t max_output = 1 << 20;  ///< bytes of output kept; the rest is read and dropped
};

struct ProcessResult {
  int exit_code = -1;      ///< -1 where a signal or the time limit ended it
  int signal = 0;          ///< that ended it, or 0
  bool timed_out = false;  ///< it and its children were killed at the time limit
  std::string output;      ///< standard output and standard error, as they came

  bool ok() const { return exit_code == 0; }
  /// "exit status 1", "killed by signal 9", "killed after 60 s".
  std::string how_it_ended(const ProcessOptions& options) const;
};

/// Runs argv[0] (found in PATH if it has no '/'), with empty standard input, in a process group of
/// its own, which is killed when this process is. Thread-safe. Error (io): it could not be started;
/// `not found` is such an error.
Result<ProcessResult> run_process(const std::vector<std::string>& argv,
                                  const ProcessOptions& options = {});

/// Kills whatever run_process() runs just now, with its children. Async-signal-safe.
void kill_running_processes();

/// The executable file a name stands for, by PATH; empty where there is none.
std::string find_program(const std::string& name);

}  // namespace culet
