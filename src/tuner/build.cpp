// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// From a candidate to code that can be launched, several at once.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tuner/run.h"

namespace culet {
namespace {

/// The compiler as the build of one candidate sees it: stops waiting when the run does, and notes
/// which kernels were had, and how; not those compiled ahead, which are the news of another run.
class NotedBuild final : public BuildContext {
 public:
  NotedBuild(Compiler& compiler, std::function<bool()> halted, bool ahead)
      : compiler_(compiler), halted_(std::move(halted)), ahead_(ahead) {}

  Result<Artifact> compile(const Source& source, const DeviceSpec& device) override {
    if (ahead_) return compiler_.compile(source, device, halted_, nullptr);
    Compilation how;
    auto artifact = compiler_.compile(source, device, halted_, &how);
    const std::lock_guard lock(mutex_);
    kernels_.push_back(std::move(how));
    return artifact;
  }
  const std::vector<Compilation>& kernels() const { return kernels_; }

 private:
  Compiler& compiler_;
  const std::function<bool()> halted_;
  const bool ahead_;
  std::mutex mutex_;
  std::vector<Compilation> kernels_;
};

/// Backends may be a user's own: an exception of theirs costs the candidate only.
Result<BuiltStep> build_step(const Backend& backend, const Problem& part, const Step& step,
                             const DeviceSpec& device, BuildContext& context) {
  try {
    return backend.build(part, step, device, context);
  } catch (const std::exception& exception) {
    return fail(ErrorCode::build_failed, fmt::format("{}: build() threw", backend.name()),
                exception.what());
  }
}

/// ": " and the first line of a compiler's log that speaks of an error; empty where none does.
std::string first_error(const std::string& log) {
  const std::size_t at = log.find("error");
  if (at == std::string::npos) return {};
  const std::size_t line = log.rfind('\n', at) + 1;  // npos + 1 is 0
  return ": " + log.substr(line, std::min<std::size_t>(log.find('\n', at), line + 200) - line);
}

constexpr const char* kStopped = "stopped before it was compiled";

/// Ahead, the process that measures keeps a core to itself.
int threads(const TuneOptions& options, bool ahead) {
  if (!ahead || options.compile_threads > 0) return options.compile_threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) - 1);
}

}  // namespace

Result<BuiltCandidate> build_candidate(const TunerState& state, const Problem& problem,
                                       const Candidate& candidate, BuildContext& context) {
  BuiltCandidate built{candidate, {}};
  for (const Step& step : candidate.steps) {
    const Backend* backend = state.registry.find(step.backend);
    if (backend == nullptr) {
      return fail(ErrorCode::invalid_argument, fmt::format("unknown backend '{}'", step.backend));
    }
    auto result = build_step(*backend, problem_of(problem, step.part), step, state.device, context);
    if (!result) return tl::unexpected(result.error());
    built.steps.push_back(std::move(*result));
  }
  return built;
}

void TuneRun::build(const std::vector<int>& trials) {
  const int count = static_cast<int>(trials.size());
  std::mutex mutex;
  int done = 0;
  say("compile", 0, count);
  parallel_for(count, threads(state_.options, ahead_), [&](int job) {
    const int index = trials[static_cast<std::size_t>(job)];
    Trial& trial = report_.trials[static_cast<std::size_t>(index)];
    if (halted()) {
      trial.reason = kStopped;
      return;
    }
    NotedBuild context(
        *state_.compiler, [this] { return halted(); }, ahead_);
    auto built = build_candidate(state_, report_.problem, trial.candidate, context);
    const std::lock_guard lock(mutex);
    tell(trial.candidate, context.kernels());
    if (built) {
      built_[index] = std::move(*built);
    } else if (built.error().code == ErrorCode::interrupted) {
      trial.reason = kStopped;
    } else {
      trial.outcome = Outcome::build_failed;
      trial.reason = built.error().message + first_error(built.error().detail);
      trial.log = built.error().detail;
      if (observer_ != nullptr) observer_->trial(report_.problem, trial);
    }
    say("compile", ++done, count);
  });
}

void TuneRun::tell(const Candidate& candidate, const std::vector<Compilation>& kernels) {
  if (observer_ == nullptr) return;
  for (const Compilation& kernel : kernels)
    observer_->compilation(report_.problem, candidate, kernel);
}

}  // namespace culet
