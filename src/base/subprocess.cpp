// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// posix_spawn, a pipe and a deadline; and a second, small process that outlives this one where it
// is killed.
#include "base/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "base/spawn_setup.h"

extern char** environ;

namespace culet {

namespace {

using Clock = std::chrono::steady_clock;

/// Process groups that run, for a signal handler, which may touch nothing but lock-free atomics.
/// More at once than there are places for run as well; only kill_running_processes() misses them.
std::array<std::atomic<pid_t>, 256> running_groups;
static_assert(std::atomic<pid_t>::is_always_lock_free);

/// A place among them. Process numbers are not reused at once, so leaving right after the wait
/// does.
class RunningGroup {
 public:
  RunningGroup() {
    for (std::atomic<pid_t>& place : running_groups) {
      pid_t nobody = 0;
      if (place.compare_exchange_strong(nobody, kReserved)) {
        place_ = &place;
        return;
      }
    }
  }
  ~RunningGroup() {
    if (place_ != nullptr) place_->store(0);
  }
  RunningGroup(const RunningGroup&) = delete;
  RunningGroup& operator=(const RunningGroup&) = delete;
  void enter(pid_t group) {
    if (place_ != nullptr) place_->store(group);
  }

 private:
  static constexpr pid_t kReserved = -1;
  std::atomic<pid_t>* place_ = nullptr;
};

/// Kills a process group if this process ends without having taken it back: a shell that reads from
/// a socket sees the end of it, however that came. (The signal a parent's death can send reaches
/// the child only, not the compiler proper that a compiler driver starts.) Where there is no shell,
/// the group is not watched.
class Watch {
 public:
  explicit Watch(pid_t group) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    const std::string number = std::to_string(group);
    const char* const arguments[] = {
        "sh", "-c", "read -r done || kill -KILL \"-$1\"", "culet-watch", number.c_str(), nullptr};
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int error = EIO;
    if (nowhere >= 0) {
      const SpawnSetup setup(ends[1], nowhere);
      error = posix_spawn(&shell_, "/bin/sh", &setup.actions_, &setup.attributes_,
                          const_cast<char* const*>(arguments), environ);
      close(nowhere);
    }
    close(ends[1]);
    socket_ = ends[0];
    if (error != 0) shell_ = -1;
  }
  ~Watch() {
    if (socket_ >= 0) (void)!send(socket_, "done\n", 5, MSG_NOSIGNAL);
    while (shell_ > 0 && waitpid(shell_, nullptr, 0) < 0 && errno == EINTR) {
    }
    if (socket_ >= 0) close(socket_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  int socket_ = -1;
  pid_t shell_ = -1;
};

/// Reads until the pipe is closed or the deadline is past; returns whether it was closed.
bool read_all(int fd, Clock::time_point deadline, std::size_t max_output, std::string* output) {
  char buffer[16384];
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd wait{fd, POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(std::min<long long>(left.count(), 1 << 30)));
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    const ssize_t count = read(fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    const std::size_t room = max_output - std::min(max_output, output->size());
    output->append(buffer, std::min(room, static_cast<std::size_t>(count)));
  }
}

/// Waits for the child until the deadline; returns whether it ended by itself.
bool wait_until(pid_t pid, Clock::time_point deadline, int* status) {
  while (true) {
    const pid_t ended = waitpid(pid, status, WNOHANG);
    if (ended == pid || (ended < 0 && errno != EINTR)) return true;
    if (Clock::now() >= deadline) return false;
    usleep(1000);
  }
}

}  // namespace

std::string ProcessResult::how_it_ended(const ProcessOptions& options) const {
  if (timed_out) return fmt::format("killed after {:g} s", options.timeout_seconds);
  if (signal != 0) return fmt::format("killed by signal {}", signal);
  return fmt::format("exit status {}", exit_code);
}

Result<ProcessResult> run_process(const std::vector<std::string>& argv,
                                  const ProcessOptions& options) {
  if (argv.empty()) return fail(ErrorCode::invalid_argument, "no program to run");
  const std::string program = find_program(argv[0]);
  if (program.empty()) return fail(ErrorCode::io, fmt::format("{}: program not found", argv[0]));
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return fail(ErrorCode::io, fmt::format("no pipe: {}", std::strerror(errno)));
  }
  std::vector<char*> arguments;
  for (const std::string& argument : argv) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  pid_t pid = 0;
  int error = 0;
  RunningGroup group;
  {
    const SpawnSetup setup(-1, fds[1]);
    error = posix_spawn(&pid, program.c_str(), &setup.actions_, &setup.attributes_,
                        arguments.data(), environ);
  }
  close(fds[1]);
  if (error != 0) {
    close(fds[0]);
    return fail(ErrorCode::io, fmt::format("{}: {}", program, std::strerror(error)));
  }
  group.enter(pid);
  const Watch watch(pid);
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(options.timeout_seconds));
  ProcessResult result;
  int status = 0;
  const bool closed = read_all(fds[0], deadline, options.max_output, &result.output);
  close(fds[0]);
  if (!closed || !wait_until(pid, deadline, &status)) {
    kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    result.timed_out = true;
    return result;
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

void kill_running_processes() {
  for (const std::atomic<pid_t>& group : running_groups) {
    const pid_t pid = group.load();
    if (pid > 0) kill(-pid, SIGKILL);
  }
}

std::string find_program(const std::string& name) {
  const auto is_program = [](const std::string& path) {
    struct stat info;
    return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
           access(path.c_str(), X_OK) == 0;
  };
  if (name.empty()) return {};
  if (name.find('/') != std::string::npos) return is_program(name) ? name : std::string();
  const char* variable = std::getenv("PATH");
  const std::string path = variable == nullptr ? "/usr/local/bin:/usr/bin:/bin" : variable;
  std::size_t start = 0;
  while (start <= path.size()) {
    const std::size_t end = std::min(path.find(':', start), path.size());
    const std::string folder = path.substr(start, end - start);
    const std::string candidate = (folder.empty() ? std::string(".") : folder) + "/" + name;
    if (is_program(candidate)) return candidate;
    start = end + 1;
  }
  return {};
}

}  // namespace culet
