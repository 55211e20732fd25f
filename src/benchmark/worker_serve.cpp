// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What a worker process does: verifies and times what it is sent, and ends with its owner. All that
// it knows of a candidate came through the socket as data.
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <fstream>
#include <map>
#include <new>
#include <thread>

#include "benchmark/build_id.h"
#include "benchmark/host_memory.h"
#include "benchmark/isolation.h"
#include "benchmark/race.h"
#include "benchmark/worker_messages.h"

namespace culet {
namespace {

using benchmark::MessageKind;
using benchmark::MessageReader;
using benchmark::MessageWriter;
using benchmark::Reply;

/// Between problems a worker waits this long for the next one: a context on a GPU takes some
/// hundred MB of it.
constexpr int kIdleMilliseconds = 60'000;

/// What libraries and threads may take beside what culet counts: OpenBLAS maps 32 MB and more a
/// thread.
constexpr double kSlackBytes = 1 << 30, kSlackBytesPerThread = 128 << 20;

int worker_socket = -1;

/// Ends the process with its owner, whatever the candidate does. (The signal that a parent's death
/// sends, PR_SET_PDEATHSIG, comes already when the *thread* that started the worker ends.)
void end_with(int owner) {
  const int process = static_cast<int>(syscall(SYS_pidfd_open, owner, 0));  // Linux 5.3
  if (getppid() != owner) _exit(0);  // gone before it could be opened
  std::thread([process] {
    pollfd both[2] = {{worker_socket, POLLRDHUP, 0}, {process, POLLIN, 0}};
    while (poll(both, process < 0 ? 1 : 2, -1) <= 0) {
    }
    _exit(0);
  }).detach();
}

void on_no_memory() {
  (void)benchmark::send_message(worker_socket, MessageWriter(MessageKind::out_of_memory).bytes());
  _exit(1);
}

/// Bytes of private writable memory, which RLIMIT_DATA counts; 0 where the system does not tell.
double data_bytes() {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    double kilobytes = 0;
    if (word == "VmData:" && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitsMemory = false;  // the sanitizers' shadow memory counts as well
#else
constexpr bool kLimitsMemory = true;
#endif

/// A candidate that allocates without bound meets this limit long before the machine is out of
/// memory. Not on a GPU: what its driver maps counts, too.
void limit_memory(const DeviceSpec& device, double allowed) {
  rlimit limit{};
  if (!kLimitsMemory || device.is_cuda() || getrlimit(RLIMIT_DATA, &limit) != 0) return;
  const double bytes = data_bytes() + allowed + kSlackBytes + kSlackBytesPerThread * device.threads;
  if (!(bytes < 9e18)) return;  // no limit that a machine could reach, nor a number that rlim_t has
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, static_cast<rlim_t>(bytes));
  (void)setrlimit(RLIMIT_DATA, &limit);
}

/// A crash is an ordinary end here: no core file, also where a program takes them (limit 1).
void prepare_process(int socket, int owner) {
  worker_socket = socket;
  rlimit no_core{1, 1};
  (void)setrlimit(RLIMIT_CORE, &no_core);
  std::set_new_handler(on_no_memory);
  end_with(owner);
}

class Server {
 public:
  int run() {
    send(benchmark::ready_message(build_id()).bytes());
    std::string message;
    while (receive(&message)) {
      MessageReader reader(message);
      if (!handle(reader) || !reader.good()) return 1;
    }
    return 0;
  }

 private:
  static void send(const std::string& message) {
    if (!benchmark::send_message(worker_socket, message)) _exit(1);
  }

  /// False: nothing more will come.
  bool receive(std::string* message) const {
    pollfd wait{worker_socket, POLLIN, 0};
    if (runner_ == nullptr && poll(&wait, 1, kIdleMilliseconds) == 0) return false;
    std::uint32_t length = 0;
    if (!read(&length, sizeof length) || length > benchmark::kLongestMessage) return false;
    message->resize(length);
    return read(message->data(), length);
  }

  static bool read(void* to, std::size_t count) {
    char* at = static_cast<char*>(to);
    while (count > 0) {
      const ssize_t got = recv(worker_socket, at, count, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      count -= static_cast<std::size_t>(got);
    }
    return true;
  }

  /// False: a message that cannot be.
  bool handle(MessageReader& reader) {
    if (reader.kind() == MessageKind::setup) return setup(reader);
    if (reader.kind() == MessageKind::finish) {
      runner_.reset();
      candidates_.clear();
      return true;
    }
    const auto number = reader.get<std::int64_t>();
    if (reader.kind() == MessageKind::load) {
      auto candidate = benchmark::decode_candidate(reader);
      if (candidate) candidates_[number] = std::move(*candidate);
      return candidate.has_value();
    }
    const auto at = candidates_.find(number);
    if (runner_ == nullptr || at == candidates_.end()) return reader.kind() == MessageKind::leave;
    switch (reader.kind()) {
      case MessageKind::verify:
        return verify(at->second, reader.flag());
      case MessageKind::sample:
        return sample(at->second, reader.get<double>());
      case MessageKind::leave:
        runner_->leave(at->second);
        candidates_.erase(at);
        return true;
      default:
        return false;
    }
  }

  bool setup(MessageReader& reader) {
    runner_.reset();
    candidates_.clear();
    Reply reply;
    auto setup = benchmark::decode_setup(reader);
    if (!setup) {  // `io`: the owner, which has them, goes on without a worker
      reply.ok = fail(
          ErrorCode::io,
          fmt::format("its worker process cannot read what to run on: {}", setup.error().message));
      return answer(reply);
    }
    setup->options.watch = [](double seconds) { send(benchmark::encode_step(seconds)); };
    const double allowed = setup->options.max_memory_bytes > 0 ? setup->options.max_memory_bytes
                                                               : benchmark::available_memory() / 2;
    limit_memory(setup->device, allowed);
    auto runner = make_trial_runner(setup->problem, setup->device, setup->options);
    if (runner) {
      runner_ = std::move(*runner);
    } else {
      reply.ok = tl::unexpected(runner.error());
    }
    return answer(reply);
  }

  bool verify(const BuiltCandidate& candidate, bool full) {
    Reply reply;
    guarded([&] { reply.verdict = runner_->verify(candidate, full); },
            [&](const std::string& what) {
              reply.verdict = {Outcome::crashed, what, 0};
            });
    return answer(reply);
  }

  bool sample(const BuiltCandidate& candidate, double settle_seconds) {
    Reply reply;
    guarded(
        [&] {
          if (auto seconds = runner_->sample(candidate, settle_seconds)) {
            reply.seconds = *seconds;
          } else {
            reply.ok = tl::unexpected(seconds.error());
          }
        },
        [&](const std::string& what) { reply.ok = fail(ErrorCode::device, what); });
    return answer(reply);
  }

  /// What a kernel throws comes here if it ran in this thread; elsewhere it ends the process.
  template <typename Work, typename Thrown>
  void guarded(const Work& work, const Thrown& thrown) {
    thrown_ = true;
    try {
      work();
      thrown_ = false;
    } catch (const std::bad_alloc&) {
      thrown("out of memory");
    } catch (const std::exception& exception) {
      thrown(fmt::format("it threw an exception: {}", exception.what()));
    } catch (...) {
      thrown("it threw an exception");
    }
  }

  /// After an exception went through it, the runner is not to be trusted.
  bool answer(Reply& reply) {
    reply.usable = !thrown_ && (runner_ == nullptr || runner_->usable());
    (void)benchmark::send_message(worker_socket, encode(reply));
    return true;
  }

  std::unique_ptr<TrialRunner> runner_;
  std::map<std::int64_t, BuiltCandidate> candidates_;  ///< their addresses are kept by the runner
  bool thrown_ = false;
};

}  // namespace

int serve_worker(int socket, int owner) {
  prepare_process(socket, owner);
  const int status = Server().run();
  // Without destructors: memory may be in any state, and the system takes everything back.
  _exit(status);
}

}  // namespace culet
