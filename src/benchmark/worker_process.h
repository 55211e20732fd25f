// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The worker as its owner sees it: started, talked to with a deadline, and killed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "culet/error.h"

namespace culet::benchmark {

/// How to start a program that serves as worker; its socket's number and its owner's process number
/// are appended.
struct WorkerProgram {
  std::string path;
  std::vector<std::string> argv;
};

/// The first argument that makes a program a worker.
inline constexpr const char* kWorkerVerb = "__worker";

/// CULET_WORKER, or this program where it said that it can serve, or `culet` beside this program,
/// beside this library or in PATH. Error: none found.
Result<WorkerProgram> find_worker_program();

/// This program's main() hands over to serve_worker() where it is started as a worker.
void this_program_serves();

class WorkerProcess {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts the program and waits until it is ready. Errors: it cannot be started, or is not of
  /// this version.
  static Result<std::unique_ptr<WorkerProcess>> start(const WorkerProgram& program);
  /// Kills it and waits until it is gone, if it is ours.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// Whether this process started it. A fork of that one must leave it alone.
  bool ours() const;

  /// False: it is gone.
  bool send(const std::string& message);

  enum class Received { message, ended, late };
  /// The next message, or that the process has ended, or that the deadline is past.
  Received receive(std::string* message, Clock::time_point deadline);

  /// Kills it if it still runs, and says how it ended: "killed by SIGSEGV (Segmentation fault)",
  /// "exit status 3", with what it wrote last.
  std::string end();

 private:
  WorkerProcess(int socket, int output, pid_t pid);
  bool read_exactly(void* to, std::size_t count, Clock::time_point deadline, Received* why_not);
  void kill_and_reap();
  std::string last_words() const;

  int socket_ = -1;
  int output_ = -1;  ///< its standard output and error
  pid_t pid_ = -1, owner_ = -1;
  bool reaped_ = false, known_ = false;  ///< known_: status_ is its real one
  int status_ = 0;
  std::chrono::milliseconds grace_{0};  ///< to end by itself, before it is killed
};

}  // namespace culet::benchmark
