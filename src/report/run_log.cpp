// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Events as lines, documented in docs/run-log.md. A line is one write() to a file opened for
// appending, which no other process's line gets into.
#include "culet/run_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/hash.h"
#include "cache/rows.h"
#include "culet/settings.h"
#include "culet/version.h"
#include "report/views.h"

namespace culet {
namespace {

using json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int kSchema = 1;

json number(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return six_digits(*value);
}
json microseconds_json(std::optional<double> seconds) {
  return seconds ? number(*seconds * 1e6) : json(nullptr);
}
json text_or_null(std::string_view text) { return text.empty() ? json(nullptr) : json(text); }

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

json backends_json(const Tuner& tuner) {
  json all = json::object();
  for (const auto& backend : tuner.registry().backends()) {
    const bool asked =
        backend->device_kind() == tuner.device().kind && tuner.options().backends.allows(*backend);
    if (asked) all[std::string(backend->name())] = backend->version();
  }
  return all;
}

json settings_json() {
  json all = json::object();
  for (const Setting& setting : settings()) {
    if (setting.value) all[std::string(setting.name)] = *setting.value;
  }
  return all;
}

Error trouble_with(const std::string& path, int code) {
  return {ErrorCode::io,
          fmt::format("cannot write '{}': {}", path,
                      std::error_code(code, std::generic_category()).message()),
          {}};
}

/// write(), but a pipe that nobody reads any more is an error and not the end of the process.
ssize_t write_to(int fd, std::string_view bytes) {
  sigset_t pipe, before, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const ssize_t count = ::write(fd, bytes.data(), bytes.size());
  const int code = errno;
  if (count < 0 && code == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
    const timespec at_once{};
    sigtimedwait(&pipe, nullptr, &at_once);  // takes the signal back
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = code;
  return count;
}

}  // namespace

struct RunLog::Impl {
  Impl(int descriptor, std::string file) : fd(descriptor), path(std::move(file)) {}
  ~Impl() { ::close(fd); }
  void write(const json& event);

  const int fd;
  const std::string path;
  const Clock::time_point begin = Clock::now();
  /// Tells the lines of several runs apart.
  const std::string run = fmt::format(
      "{:016x}",
      hash64(fmt::format("{} {} {}", host_name(), ::getpid(), begin.time_since_epoch().count())));
  std::int64_t problems = 0, compiled = 0, timed = 0;
  std::mutex mutex;  ///< guards what follows
  std::string trouble;
};

void RunLog::Impl::write(const json& event) {
  json whole{{"time", utc(now_milliseconds(), true)}, {"run", run}};
  whole.update(event);
  // Reasons may quote a compiler or a driver, which may write any bytes.
  const std::string line = whole.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  std::string_view left = line;
  while (!left.empty()) {  // once, unless the disk is full or a pipe takes less
    const ssize_t count = write_to(fd, left);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int code = errno;
      const std::lock_guard lock(mutex);
      if (trouble.empty()) trouble = trouble_with(path, code).message;
      return;
    }
    left.remove_prefix(static_cast<std::size_t>(count));
  }
}

RunLog::RunLog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunLog::~RunLog() = default;

Result<std::unique_ptr<RunLog>> RunLog::open(const std::string& path) {
  // O_NONBLOCK: a named pipe that nobody reads is an error rather than a wait without end.
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
  if (fd < 0) return tl::unexpected(trouble_with(path, errno));
  (void)::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return std::unique_ptr<RunLog>(new RunLog(std::make_unique<Impl>(fd, path)));
}

std::string RunLog::trouble() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->trouble;
}

Result<void> RunLog::run_started(const Tuner& tuner, const std::vector<std::string>& arguments) {
  const TuneOptions& options = tuner.options();
  json event{{"event", "run_started"},        {"schema", kSchema}, {"culet", CULET_VERSION},
             {"host", host_name()},           {"pid", ::getpid()}, {"arguments", arguments},
             {"environment", settings_json()}};
  event["device"] = json::parse(tuner.device().json(), nullptr, /*throw=*/false);
  event["device_identity"] = tuner.device().identity();
  event["backends"] = backends_json(tuner);
  event["policy"] = options.policy.text();
  event["top"] = options.top < 0 ? json("all") : json(options.top);
  event["seed"] = options.seed;
  event["isolation"] = options.isolation == Isolation::process ? "process" : "none";
  impl_->write(event);
  const std::string why = trouble();
  if (!why.empty()) return fail(ErrorCode::io, why);
  return {};
}

void RunLog::run_finished(int status) {
  impl_->write(json{{"event", "run_finished"},
                    {"status", status},
                    {"problems", impl_->problems},
                    {"compiled", impl_->compiled},
                    {"timed", impl_->timed},
                    {"seconds", number(seconds_since(impl_->begin))}});
}

void RunLog::started(const Problem& problem) {
  ++impl_->problems;
  impl_->write(json{{"event", "problem_started"}, {"problem", problem.text()}});
}

void RunLog::failed(const Problem& problem, const Error& error) {
  impl_->write(json{{"event", "problem_failed"},
                    {"problem", problem.text()},
                    {"status", exit_status(error.code)},
                    {"error", error.message},
                    {"detail", text_or_null(error.detail)}});
}

void RunLog::compilation(const Problem& problem, const Candidate& candidate,
                         const Compilation& kernel) {
  if (kernel.from == CodeFrom::compiled) ++impl_->compiled;
  impl_->write(json{{"event", "compilation"},
                    {"problem", problem.text()},
                    {"candidate", candidate.text()},
                    {"code", text_or_null(kernel.key)},
                    {"entry", kernel.entry},
                    {"from", to_string(kernel.from)},
                    {"seconds", number(kernel.seconds)},
                    {"error", text_or_null(kernel.error)}});
}

void RunLog::trial(const Problem& problem, const Trial& trial) {
  const bool verified = trial.outcome == Outcome::measured || trial.outcome == Outcome::wrong;
  const std::optional<double> seconds = seconds_of(trial);
  if (seconds) ++impl_->timed;
  json event{{"event", "trial"},
             {"problem", problem.text()},
             {"candidate", trial.candidate.text()},
             {"vendor", trial.vendor},
             {"outcome", to_string(trial.outcome)},
             {"reason", text_or_null(trial.reason)}};
  event["median_us"] = microseconds_json(seconds);
  event["low_us"] = seconds ? microseconds_json(trial.timing->low) : json(nullptr);
  event["high_us"] = seconds ? microseconds_json(trial.timing->high) : json(nullptr);
  event["samples"] = seconds ? json(trial.timing->samples) : json(nullptr);
  event["error"] = verified ? number(trial.error) : json(nullptr);
  event["estimate_us"] =
      trial.estimate ? microseconds_json(trial.estimate->seconds) : json(nullptr);
  event["limiter"] = trial.estimate ? json(to_string(trial.estimate->limiter)) : json(nullptr);
  impl_->write(event);
}

void RunLog::worker_replaced(const Problem& problem, std::string_view why) {
  impl_->write(json{{"event", "worker_replaced"}, {"problem", problem.text()}, {"why", why}});
}

void RunLog::warning(std::string_view text) {
  impl_->write(json{{"event", "warning"}, {"text", text}});
}

void RunLog::report(const TuneReport& report) {
  const Trial* choice = report.choice();
  json event{{"event", "chosen"},
             {"problem", report.problem.text()},
             {"candidate", choice == nullptr ? json(nullptr) : json(choice->candidate.text())},
             {"why", report.why},
             {"from_cache", report.from_cache}};
  event["median_us"] = choice == nullptr ? json(nullptr) : microseconds_json(seconds_of(*choice));
  event["vs_default"] = number(report.vs_default());
  event["vs_best"] = number(report.vs_best());
  event["seconds"] = {{"rank", number(report.rank_seconds)},
                      {"compile", number(report.compile_seconds)},
                      {"benchmark", number(report.benchmark_seconds)},
                      {"verify", number(report.verify_seconds)},
                      {"total", number(report.total_seconds)}};
  impl_->write(event);
}

}  // namespace culet
