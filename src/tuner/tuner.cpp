// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The pipeline as one readable function, Tuner::tune; each stage is a method of TuneRun (run.cpp).
#include "culet/tuner.h"

#include <fmt/format.h>

#include "compile/stored_code.h"
#include "tuner/compile_ahead.h"
#include "tuner/run.h"

namespace culet {

struct Tuner::Impl {
  TunerState state;
  CompileAhead ahead{state};  ///< ends before what it uses
};

Tuner::Tuner(Registry registry, DeviceSpec device, TuneOptions options,
             std::shared_ptr<Cache> cache)
    : impl_(std::make_unique<Impl>()) {
  TunerState& state = impl_->state;
  state.registry = std::move(registry);
  state.device = std::move(device);
  state.options = std::move(options);
  if (!cache) cache = *open_cache("none");
  state.cache = std::move(cache);
  state.compiler = std::make_unique<Compiler>(state.cache, state.options.dump_dir);
}

Tuner::~Tuner() = default;

const Registry& Tuner::registry() const { return impl_->state.registry; }
const DeviceSpec& Tuner::device() const { return impl_->state.device; }
const TuneOptions& Tuner::options() const { return impl_->state.options; }
Cache& Tuner::cache() { return *impl_->state.cache; }

Counts Tuner::counts() const {
  return {impl_->state.compiler->compiled(), impl_->state.timed.load()};
}

namespace {

/// A problem without a single element of D: there is nothing to choose.
TuneReport empty_report(const Problem& problem, const DeviceSpec& device) {
  TuneReport report;
  report.problem = problem;
  report.device = device;
  report.why = "D has no elements: nothing is launched";
  return report;
}

/// Tells the observer how a problem ended.
Result<TuneReport> finished(Result<TuneReport> report, Observer* observer) {
  if (report && observer != nullptr) observer->report(*report);
  return report;
}

Error no_candidate(const Problem& problem, const TuneRun& run) {
  return {ErrorCode::no_candidate, fmt::format("{}: no backend can compute it", problem.text()),
          run.refusals()};
}

}  // namespace

Result<TuneReport> Tuner::tune(const Problem& unchecked, Observer* observer, const Problem* next) {
  const auto problem = unchecked.validated();
  if (!problem) return tl::unexpected(problem.error());
  if (observer != nullptr) observer->started(*problem);
  if (problem->is_empty()) return finished(empty_report(*problem, device()), observer);
  if (!options().measure) return finished(rank(*problem), observer);
  if (!device().present) {
    return fail(ErrorCode::device,
                fmt::format("device '{}' is a description, not a device here; `rank` needs none",
                            device().name));
  }

  TuneRun run(impl_->state, *problem, observer);
  if (auto ok = run.rank(); !ok)
    return tl::unexpected(ok.error());  // backends, candidates, ranking
  run.shortlist();
  if (run.nothing_to_try()) return tl::unexpected(no_candidate(*problem, run));
  if (!run.load_stored_trials()) {
    impl_->ahead.halt();
    run.compile();
    if (next != nullptr) impl_->ahead.begin(*next);
    if (auto ok = run.benchmark(); !ok) return tl::unexpected(ok.error());
  }
  run.select();
  run.store();
  return finished(run.take_report(), observer);
}

Result<TuneReport> Tuner::rank(const Problem& unchecked, bool compile, Observer* observer) {
  const auto problem = unchecked.validated();
  if (!problem) return tl::unexpected(problem.error());
  if (problem->is_empty()) return empty_report(*problem, device());
  TuneRun run(impl_->state, *problem, observer);
  if (auto ok = run.rank(); !ok) return tl::unexpected(ok.error());
  run.shortlist();
  if (run.nothing_to_try()) return tl::unexpected(no_candidate(*problem, run));
  if (compile) run.try_compiling();
  run.select();
  return run.take_report();
}

Result<TuneReport> Tuner::bench(const Problem& unchecked, const std::vector<Candidate>& candidates,
                                Observer* observer) {
  const auto problem = unchecked.validated();
  if (!problem) return tl::unexpected(problem.error());
  if (observer != nullptr) observer->started(*problem);
  if (problem->is_empty()) return finished(empty_report(*problem, device()), observer);
  if (!device().present)
    return fail(ErrorCode::device, fmt::format("no device to measure on: '{}'", device().name));
  TuneRun run(impl_->state, *problem, observer);
  if (auto ok = run.rank(); !ok) return tl::unexpected(ok.error());
  if (auto ok = run.shortlist(candidates); !ok) return tl::unexpected(ok.error());
  run.compile();
  if (auto ok = run.benchmark(); !ok) return tl::unexpected(ok.error());
  run.select();
  return finished(run.take_report(), observer);
}

Result<std::vector<Trial>> Tuner::contest(const Problem& problem,
                                          const std::vector<Candidate>& candidates,
                                          Observer* observer) {
  TuneRun run(impl_->state, problem, observer);
  run.enter(candidates);
  run.compile();
  if (auto ok = run.benchmark(); !ok) return tl::unexpected(ok.error());
  return run.take_report().trials;
}

std::optional<Trial> Tuner::stored_trial(const Problem& problem, const Candidate& candidate) {
  const TuneRun run(impl_->state, problem, nullptr);
  return cache().find_trial(problem, candidate, run.environment(candidate));
}

Result<Plan> Tuner::plan(const Problem& problem, Observer* observer) {
  auto report = tune(problem, observer);
  if (!report) return tl::unexpected(report.error());
  if (report->choice() == nullptr) {
    return fail(ErrorCode::no_candidate,
                fmt::format("{}: {}", report->problem.text(), report->why));
  }
  return plan(report->problem, report->choice()->candidate);
}

Result<Plan> Tuner::plan(const Problem& unchecked, const Candidate& candidate) {
  const auto problem = unchecked.validated();
  if (!problem) return tl::unexpected(problem.error());
  Compiler& compiler = *impl_->state.compiler;
  StoredCode stored(cache(), compiler);
  // What is asked to be dumped passes through the compiler, also where it is stored.
  BuildContext* context = &stored;
  if (!options().dump_dir.empty()) context = &compiler;
  auto built = build_candidate(impl_->state, *problem, candidate, *context);
  if (!built) return tl::unexpected(built.error());
  return Plan::load(*problem, *built, device());
}

}  // namespace culet
