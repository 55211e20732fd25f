// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Asks a worker, with a deadline for every answer. Each step of a candidate that takes the worker
// down costs that candidate only: the others go on in a new one.
#include <fmt/format.h>

#include <map>
#include <set>

#include "benchmark/isolation.h"
#include "benchmark/race.h"
#include "benchmark/worker_messages.h"
#include "benchmark/worker_process.h"

namespace culet {

using benchmark::MessageKind;
using benchmark::MessageReader;
using benchmark::MessageWriter;
using benchmark::Reply;
using benchmark::WorkerProcess;
using Clock = WorkerProcess::Clock;

namespace {

Clock::time_point in_seconds(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// How a request ended that got no answer.
struct Lost {
  Outcome outcome = Outcome::crashed;
  std::string reason;
};

/// The worker is gone or must go, but not because a step did not end.
bool crashed(const tl::expected<Reply, Lost>& reply) {
  if (!reply) return reply.error().outcome == Outcome::crashed;
  const bool timed_out = reply->verdict.outcome == Outcome::timed_out ||
                         (!reply->ok && reply->ok.error().code == ErrorCode::out_of_budget);
  return !reply->usable && !timed_out;
}

}  // namespace

class WorkerHost::Impl {
 public:
  explicit Impl(double own_seconds) : own_seconds_(own_seconds) {}

  Result<std::unique_ptr<TrialRunner>> make_runner(const Problem& problem, const DeviceSpec& device,
                                                   const RunnerOptions& options);

  /// Opens a problem in the worker, starting one if there is none.
  Result<void> open(const std::string& setup);
  /// Sends a request about a candidate and waits for the answer.
  tl::expected<Reply, Lost> ask(std::int64_t number, const BuiltCandidate& candidate,
                                const MessageWriter& request);
  void tell(const std::string& message) {
    if (process_ != nullptr) (void)process_->send(message);
  }

  std::string note_;
  int started_ = 0;

 private:
  tl::expected<Reply, Lost> wait();
  /// A new worker with the problem open, if there is none. Error: `io` where none can be had, or
  /// that of send_setup().
  Result<void> ensure_open();
  /// Error: what the worker answered. Or it is gone: `io` where it was already, `unsupported` where
  /// it died over the problem or did not answer, as this process might.
  Result<void> send_setup();
  void lose(const std::string& why) {
    gone_ = why.empty() ? "it could not go on" : why;
    process_.reset();
  }

  double own_seconds_;
  std::unique_ptr<WorkerProcess> process_;
  std::string gone_;  ///< why the last worker is; empty: there was none, or another is here
  std::function<void(const std::string&)> on_replaced_;
  std::string setup_;                ///< of the problem that is open
  std::set<std::int64_t> known_;     ///< candidates the worker has
  std::set<std::int64_t> ran_;       ///< candidates whose code ran in it, of any problem
  std::set<std::int64_t> pardoned_;  ///< candidates that crashed where others had run
  bool unavailable_ = false;         ///< no worker is to be had: candidates run in this process
};

namespace {

class IsolatedRunner : public TrialRunner {
 public:
  IsolatedRunner(WorkerHost::Impl& host, const Problem& problem, const DeviceSpec& device,
                 const RunnerOptions& options)
      : TrialRunner(problem, device, options), host_(host) {}
  ~IsolatedRunner() override { host_.tell(MessageWriter(MessageKind::finish).bytes()); }

  Verification verify(const BuiltCandidate& candidate, bool full) override {
    const std::int64_t number = next_number();
    MessageWriter request(MessageKind::verify);
    request.put(number).put(full);
    auto reply = host_.ask(number, candidate, request);
    forget(number);
    if (!reply) return {reply.error().outcome, reply.error().reason, 0};
    return reply->verdict;
  }

  Result<double> sample(const BuiltCandidate& candidate, double settle_seconds) override {
    std::int64_t& number = racing_[&candidate];
    if (number == 0) number = next_number();
    MessageWriter request(MessageKind::sample);
    request.put(number).put(settle_seconds);
    auto reply = host_.ask(number, candidate, request);
    if (!reply) {
      return fail(reply.error().outcome == Outcome::timed_out ? ErrorCode::out_of_budget
                                                              : ErrorCode::device,
                  reply.error().reason);
    }
    if (!reply->ok) return tl::unexpected(reply->ok.error());
    return reply->seconds;
  }

  void leave(const BuiltCandidate& candidate) override {
    const auto at = racing_.find(&candidate);
    if (at == racing_.end()) return;
    forget(at->second);
    racing_.erase(at);
  }

 private:
  /// Never used again, so that a worker of several problems does not mix them up.
  static std::int64_t next_number() {
    static std::atomic<std::int64_t> next{1};
    return next++;
  }
  void forget(std::int64_t number) {
    host_.tell(MessageWriter(MessageKind::leave).put(number).bytes());
  }

  WorkerHost::Impl& host_;
  std::map<const BuiltCandidate*, std::int64_t> racing_;
};

}  // namespace

Result<std::unique_ptr<TrialRunner>> WorkerHost::Impl::make_runner(const Problem& problem,
                                                                   const DeviceSpec& device,
                                                                   const RunnerOptions& options) {
  if (process_ != nullptr && !process_->ours()) process_.reset();
  if (unavailable_ || !device.present) return make_trial_runner(problem, device, options);
  on_replaced_ = options.on_replaced;
  auto opened = open(encode(benchmark::Setup{problem, device, options}));
  if (opened) return std::make_unique<IsolatedRunner>(*this, problem, device, options);
  // That operands do not fit is the same in any process, and so may be a crash over them. No
  // worker, or a device that this process may use and the worker may not (exclusive mode), is
  // another matter.
  const ErrorCode code = opened.error().code;
  if (code != ErrorCode::io && code != ErrorCode::device) return tl::unexpected(opened.error());
  unavailable_ = true;
  note_ = fmt::format("candidates run in this process, where a crash of theirs is its own: {}",
                      opened.error().message);
  return make_trial_runner(problem, device, options);
}

Result<void> WorkerHost::Impl::open(const std::string& setup) {
  setup_ = setup;
  known_.clear();
  if (process_ != nullptr) {
    const auto opened = send_setup();
    if (opened || (process_ != nullptr && opened.error().code != ErrorCode::device)) return opened;
    lose(opened.error().message);  // it had died meanwhile, or was harmed: nobody's fault
  }
  return ensure_open();
}

Result<void> WorkerHost::Impl::send_setup() {
  if (!process_->send(setup_)) {
    const std::string end = process_->end();
    process_.reset();
    return fail(ErrorCode::io, end);
  }
  auto reply = wait();
  if (!reply) {
    return fail(ErrorCode::unsupported,
                fmt::format("no operands were prepared in its worker process: {}; "
                            "--isolation none prepares them in this one",
                            reply.error().reason));
  }
  return reply->ok;
}

Result<void> WorkerHost::Impl::ensure_open() {
  if (process_ != nullptr) return {};
  known_.clear();
  ran_.clear();
  const auto program = benchmark::find_worker_program();
  if (!program) return tl::unexpected(program.error());
  auto process = WorkerProcess::start(*program);
  if (!process) return tl::unexpected(process.error());
  ++started_;
  process_ = std::move(*process);
  auto opened = send_setup();
  if (!opened) process_.reset();
  if (opened && !gone_.empty() && on_replaced_) on_replaced_(gone_);
  gone_.clear();
  return opened;
}

/// The answer to what was sent. Where there is none, the worker is gone.
tl::expected<Reply, Lost> WorkerHost::Impl::wait() {
  auto deadline = in_seconds(own_seconds_);
  double limit = 0;  // of the step that runs
  bool out_of_memory = false;
  std::string message;
  const auto damaged = [this](const Error& error) {
    lose(error.message);
    return tl::unexpected(Lost{Outcome::crashed, error.message});
  };
  for (;;) {
    switch (process_->receive(&message, deadline)) {
      case WorkerProcess::Received::ended: {
        Lost lost;
        lost.reason = process_->end();
        if (out_of_memory) {
          lost.reason = "out of memory: it reached the limit of its process";
        } else if (lost.reason.find("bad_alloc") != std::string::npos) {
          lost.reason = "out of memory: " + lost.reason;
        }
        lose(lost.reason);
        return tl::unexpected(std::move(lost));
      }
      case WorkerProcess::Received::late: {
        Lost lost{Outcome::crashed,
                  fmt::format("killed after {:.3g} s without an answer", own_seconds_)};
        if (limit > 0) {
          lost = {Outcome::timed_out,
                  fmt::format("killed after {:.3g} s, in which it did not end", limit)};
        }
        lose(lost.reason);
        return tl::unexpected(std::move(lost));
      }
      case WorkerProcess::Received::message:
        break;
    }
    MessageReader reader(message);
    if (reader.kind() == MessageKind::step) {
      const auto seconds = benchmark::decode_step(reader);
      if (!seconds) return damaged(seconds.error());
      limit = *seconds;
      deadline = in_seconds(limit > 0 ? limit : own_seconds_);
    } else if (reader.kind() == MessageKind::out_of_memory) {
      out_of_memory = true;
    } else {
      auto reply = benchmark::decode_reply(reader);
      if (!reply) return damaged(reply.error());
      if (!reply->usable) lose(reply->ok ? reply->verdict.reason : reply->ok.error().message);
      return std::move(*reply);
    }
  }
}

tl::expected<Reply, Lost> WorkerHost::Impl::ask(std::int64_t number,
                                                const BuiltCandidate& candidate,
                                                const MessageWriter& request) {
  for (;;) {
    if (auto open = ensure_open(); !open) {
      return tl::unexpected(
          Lost{Outcome::crashed, "no new worker could be started: " + open.error().message});
    }
    const bool alone = ran_.empty() || (ran_.size() == 1 && ran_.count(number) == 1);
    ran_.insert(number);
    const bool loaded = !known_.insert(number).second;
    const bool sent = (loaded || process_->send(benchmark::encode(number, candidate))) &&
                      process_->send(request.bytes());
    tl::expected<Reply, Lost> reply = tl::unexpected(Lost{});
    if (sent) {
      reply = wait();
    } else {
      reply.error().reason = process_->end();
      lose(reply.error().reason);
    }
    // What ran there before may have left the memory that made this one crash. Once: a second time
    // is its own doing.
    if (alone || !crashed(reply) || !pardoned_.insert(number).second) return reply;
  }
}

WorkerHost::WorkerHost(double own_seconds) : impl_(std::make_unique<Impl>(own_seconds)) {}
WorkerHost::WorkerHost(WorkerHost&&) noexcept = default;
WorkerHost& WorkerHost::operator=(WorkerHost&&) noexcept = default;
WorkerHost::~WorkerHost() = default;

Result<std::unique_ptr<TrialRunner>> WorkerHost::make_runner(const Problem& problem,
                                                             const DeviceSpec& device,
                                                             const RunnerOptions& options) {
  return impl_->make_runner(problem, device, options);
}

std::string WorkerHost::take_note() { return std::exchange(impl_->note_, {}); }
int WorkerHost::started() const { return impl_->started_; }

}  // namespace culet
