// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// posix_spawn, a socket pair, and an anonymous file for what the worker prints.
#include "benchmark/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/spawn_setup.h"
#include "benchmark/build_id.h"
#include "benchmark/worker_messages.h"
#include "culet/version.h"

extern char** environ;

namespace culet::benchmark {
namespace {

/// Starting takes milliseconds; a machine may be busy.
constexpr auto kStartLimit = std::chrono::seconds(60);
/// A killed process that used a GPU is gone once the driver has torn its context down.
constexpr auto kEndLimit = std::chrono::seconds(60);
/// Where its socket closed because it is dying, how it dies by itself is the better answer.
constexpr auto kGrace = std::chrono::seconds(3);
/// What a worker prints is kept up to here; a kernel may print without end.
constexpr off_t kMostOutput = 1 << 20;
/// How often that is looked at.
constexpr int kLookMilliseconds = 500;

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  /// Away from 0 to 2, which are free in a program without standard streams, and which the child
  /// gets anew.
  void lift() {
    if (fd_ < 0 || fd_ > 2) return;
    const int higher = fcntl(fd_, F_DUPFD_CLOEXEC, kWorkerSocket);
    close(std::exchange(fd_, higher));
  }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

tl::unexpected<Error> system_error(const char* what) {
  return fail(ErrorCode::io, fmt::format("{}: {}", what, std::strerror(errno)));
}

int milliseconds_until(WorkerProcess::Clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - WorkerProcess::Clock::now());
  return static_cast<int>(std::clamp<long long>(left.count(), 0, kLookMilliseconds));
}

std::string describe(int status) {
  if (WIFEXITED(status)) return fmt::format("exit status {}", WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  const char* text =
      number == SIGKILL ? "as the system does when memory runs out" : strsignal(number);
  constexpr std::pair<int, const char*> kNames[] = {
      {SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
      {SIGILL, "SIGILL"},   {SIGKILL, "SIGKILL"}, {SIGTRAP, "SIGTRAP"}, {SIGSYS, "SIGSYS"},
      {SIGTERM, "SIGTERM"}, {SIGPIPE, "SIGPIPE"}};
  for (const auto& [signal, name] : kNames) {
    if (signal == number) return fmt::format("killed by {} ({})", name, text);
  }
  return fmt::format("killed by signal {}", number);
}

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const WorkerProgram& program) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return system_error("no socket pair for a worker");
  }
  Descriptor ours(pair[0]), theirs(pair[1]);
  Descriptor output(memfd_create("culet-worker-output", MFD_CLOEXEC));
  if (output.get() < 0) return system_error("no file for a worker's output");
  ours.lift();
  theirs.lift();
  output.lift();
  (void)fcntl(output.get(), F_SETFL, O_APPEND);
  // A worker that no longer reads is no longer waited for.
  const timeval patience{60, 0};
  (void)setsockopt(ours.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  std::vector<std::string> argv = program.argv;
  argv.push_back(std::to_string(kWorkerSocket));
  argv.push_back(std::to_string(getpid()));
  std::vector<char*> arguments;
  for (std::string& argument : argv) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  pid_t pid = 0;
  // The child gets its socket and nothing else that is open here.
  SpawnSetup setup(-1, output.get());
  posix_spawn_file_actions_adddup2(&setup.actions_, theirs.get(), kWorkerSocket);
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&setup.actions_, kWorkerSocket + 1);
#endif
#endif
  const int error = posix_spawn(&pid, program.path.c_str(), &setup.actions_, &setup.attributes_,
                                arguments.data(), environ);
  close(theirs.release());  // or its end would never be seen
  if (error != 0) {
    return fail(ErrorCode::io, fmt::format("{}: {}", program.path, std::strerror(error)));
  }
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(ours.release(), output.release(), pid));
  std::string message;
  switch (worker->receive(&message, Clock::now() + kStartLimit)) {
    case Received::message:
      break;
    case Received::ended:
      return fail(ErrorCode::io, fmt::format("{}: {}", program.argv[0], worker->end()));
    case Received::late:
      return fail(ErrorCode::io, fmt::format("{}: it did not answer", program.argv[0]));
  }
  MessageReader reader(message);
  const auto protocol = reader.get<std::uint32_t>();
  const std::string version = reader.text();
  if (reader.kind() != MessageKind::ready || !reader.good() || version != CULET_VERSION) {
    return fail(ErrorCode::io,
                fmt::format("{}: it is not culet {}", program.argv[0], CULET_VERSION));
  }
  const std::string build = reader.text();
  if (protocol != kWorkerProtocol || build != build_id()) {
    return fail(
        ErrorCode::io,
        fmt::format("{}: it is another build of culet {} than this program (built from "
                    "other sources: {}, not {})",
                    program.argv[0], CULET_VERSION, build.empty() ? "unknown" : build, build_id()));
  }
  return worker;
}

WorkerProcess::WorkerProcess(int socket, int output, pid_t pid)
    : socket_(socket), output_(output), pid_(pid), owner_(getpid()) {}

WorkerProcess::~WorkerProcess() {
  if (ours()) kill_and_reap();
  close(socket_);
  close(output_);
}

bool WorkerProcess::ours() const { return owner_ == getpid(); }

bool WorkerProcess::send(const std::string& message) {
  (void)!ftruncate(output_, 0);  // what an earlier candidate printed is no word of this one
  return send_message(socket_, message);
}

bool WorkerProcess::read_exactly(void* to, std::size_t count, Clock::time_point deadline,
                                 Received* why_not) {
  char* at = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t got = recv(socket_, at, count, MSG_DONTWAIT);
    if (got > 0) {
      at += got;
      count -= static_cast<std::size_t>(got);
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      *why_not = Received::ended;
      grace_ = kGrace;
      return false;
    }
    // Read before the clock is looked at: a process that was stopped for a while (Ctrl-Z) finds the
    // answer that came meanwhile.
    *why_not = Received::late;
    if (Clock::now() >= deadline) return false;
    pollfd wait{socket_, POLLIN, 0};
    (void)poll(&wait, 1, milliseconds_until(deadline));
    struct stat info {};
    if (fstat(output_, &info) == 0 && info.st_size > kMostOutput) (void)!ftruncate(output_, 0);
  }
  return true;
}

WorkerProcess::Received WorkerProcess::receive(std::string* message, Clock::time_point deadline) {
  std::uint32_t length = 0;
  Received why_not = Received::ended;
  if (!read_exactly(&length, sizeof length, deadline, &why_not)) return why_not;
  if (length > kLongestMessage) return Received::ended;
  message->resize(length);
  if (!read_exactly(message->data(), length, deadline, &why_not)) return why_not;
  return Received::message;
}

void WorkerProcess::kill_and_reap() {
  if (reaped_) return;
  reaped_ = true;
  const auto begin = Clock::now();
  bool killed = false;
  while (Clock::now() - begin < kEndLimit) {
    const pid_t ended = waitpid(pid_, &status_, WNOHANG);
    if (ended == pid_) known_ = true;
    if (ended == pid_ || (ended < 0 && errno != EINTR)) return;
    if (!killed && Clock::now() - begin >= grace_) {
      kill(-pid_, SIGKILL);
      killed = true;
    }
    usleep(500);
  }
}

std::string WorkerProcess::end() {
  kill_and_reap();
  std::string text = known_ ? describe(status_) : "its process ended";
  const std::string words = last_words();
  if (!words.empty()) text += ": " + words;
  return text;
}

/// The last lines it printed, as one.
std::string WorkerProcess::last_words() const {
  constexpr off_t kMost = 300;
  struct stat info {};
  if (fstat(output_, &info) != 0 || info.st_size == 0) return {};
  std::string text(static_cast<std::size_t>(std::min(info.st_size, kMost)), '\0');
  const ssize_t got =
      pread(output_, text.data(), text.size(), info.st_size - static_cast<off_t>(text.size()));
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  std::string line;
  for (const char c : text) {
    const bool space = static_cast<unsigned char>(c) <= ' ' || c == '\x7f';
    if (!space) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace culet::benchmark
