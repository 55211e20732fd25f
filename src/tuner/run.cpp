// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The stages of one tuning run. Inside the pipeline a candidate's failure is data in its Trial;
// only what concerns the whole run (no memory for the operands, no device) is an error.
#include "tuner/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "benchmark/trial_runner.h"
#include "compile/compile_complaint.h"
#include "selection/selection.h"

namespace culet {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool failed(const Trial& trial) {
  return trial.outcome != Outcome::ranked && trial.outcome != Outcome::measured;
}

/// Of a backend whose best candidate is estimated at more than this many times the best of two
/// others, only that one is tried. Two, because one may be wrong by much: a user's family that
/// states little of what it does, or one that then cannot be built.
constexpr double kHopeless = 2;

/// The tile shape of a configuration, by the names the families give it; empty where a family has
/// none.
std::string shape_of(const Step& step) {
  for (const char* key : {"tile", "rows"}) {
    if (step.config.has(key)) return fmt::format("{} {}", step.backend, step.config.get(key));
  }
  return {};
}

}  // namespace

std::string top_text(int top) { return top < 0 ? "all" : std::to_string(top); }

TuneRun::TuneRun(TunerState& state, const Problem& problem, Observer* observer, bool ahead)
    : state_(state),
      policy_(state.options.policy),
      observer_(observer),
      ahead_(ahead),
      start_(Clock::now()) {
  report_.problem = problem;
  report_.device = state.device;
}

bool TuneRun::halted() const {
  const TuneOptions& options = state_.options;
  if (halt_ || (options.stop != nullptr && options.stop->load())) return true;
  return options.budget_seconds > 0 && seconds_since(start_) > options.budget_seconds;
}

void TuneRun::say(std::string_view phase, int done, int total) {
  if (observer_ == nullptr) return;
  Progress progress;
  progress.phase = phase;
  progress.done = done;
  progress.total = total;
  progress.best_seconds = best_seconds_;
  progress.best_name = best_name_;
  observer_->progress(progress);
}

void TuneRun::note(const std::string& text) {
  if (observer_ != nullptr && !text.empty()) observer_->warning(text);
}

Result<void> TuneRun::rank() {
  const auto begin = Clock::now();
  say("rank", 0, 1);
  const auto answers = state_.registry.ask(report_.problem, state_.device, state_.options.backends);
  const auto offers = [&](const Backend& backend) {
    return std::any_of(report_.trials.begin(), report_.trials.end(), [&](const Trial& trial) {
      return trial.candidate.steps.front().backend == backend.name();
    });
  };
  for (RankedCandidate& found :
       state_.registry.discover(report_.problem, state_.device, state_.options.backends)) {
    Trial trial;
    trial.candidate = std::move(found.candidate);
    trial.estimate = found.estimate;
    trial.vendor = found.vendor;
    trial.fallback = found.fallback;
    trial.order = static_cast<int>(report_.trials.size());
    report_.trials.push_back(std::move(trial));
  }
  set_denied_aside();
  for (const Answer& answer : answers) {
    if (!answer.support.yes) {
      report_.refusals.push_back({std::string(answer.backend->name()), answer.support.reason});
    } else if (!offers(*answer.backend)) {
      report_.refusals.push_back(
          {std::string(answer.backend->name()), why_nothing(answer.backend->name())});
    }
  }
  report_.rank_seconds = seconds_since(begin);
  return {};
}

std::string TuneRun::refusals() const {
  std::string text;
  for (const Refusal& refusal : report_.refusals)
    text += fmt::format("  {}: {}\n", refusal.backend, refusal.reason);
  return text;
}

std::set<std::string> TuneRun::hopeless() const {
  std::map<std::string, double> best;  // of each backend
  for (const Trial& trial : report_.trials) {
    if (trial.vendor || trial.fallback || !trial.estimate) continue;
    const double seconds = trial.estimate->seconds;
    const auto [of, first] = best.emplace(trial.candidate.steps.front().backend, seconds);
    of->second = std::min(of->second, seconds);
  }
  std::set<std::string> names;
  for (const auto& [name, seconds] : best) {
    const auto ahead = std::count_if(
        best.begin(), best.end(),
        [&, of = seconds](const auto& other) { return of > kHopeless * other.second; });
    if (ahead >= 2) names.insert(name);
  }
  return names;
}

bool TuneRun::takes(Trial& trial, bool any_shape, Taken* taken) const {
  const int top = state_.options.top;
  if (top < 0) return true;
  const Step& step = trial.candidate.steps.front();
  if (taken->hopeless.count(step.backend) > 0 && taken->of_backend[step.backend] > 0) {
    trial.reason = "the best of its backend is estimated at more than twice the best of two others";
    return false;
  }
  if (taken->of_backend[step.backend] >= top) {
    trial.reason = fmt::format("ranked below the best {} of its backend", top);
    return false;
  }
  // Neighbours of one tile shape run alike: with a few trials to spend, no shape takes more than
  // its half, so that an error of the model about one shape does not cost the others.
  const std::string shape = shape_of(step);
  const int half = top / 2 + top % 2;
  if (!any_shape && !shape.empty() && taken->of_shape[shape] >= half) {
    trial.reason = fmt::format("{} better-ranked ones of its shape were taken", half);
    return false;
  }
  ++taken->of_backend[step.backend];
  ++taken->of_shape[shape];
  return true;
}

void TuneRun::shortlist() {
  active_.clear();
  Taken taken;
  taken.hopeless = hopeless();
  for (int i = 0; i < static_cast<int>(report_.trials.size()); ++i) {
    Trial& trial = report_.trials[static_cast<std::size_t>(i)];
    if (trial.fallback) {
      if (active_.empty()) {
        active_.push_back(i);
      } else {
        trial.reason = "the fallback is tried only where nothing else answers";
      }
      continue;
    }
    if (trial.vendor || takes(trial, false, &taken)) active_.push_back(i);
  }
  // Where a backend has too few shapes for that, the best of the others after all.
  const std::vector<int> first(active_);
  for (int i = 0; i < static_cast<int>(report_.trials.size()); ++i) {
    Trial& trial = report_.trials[static_cast<std::size_t>(i)];
    if (trial.fallback || std::binary_search(first.begin(), first.end(), i)) continue;
    if (!takes(trial, true, &taken)) continue;
    trial.reason.clear();
    active_.push_back(i);
  }
  add_pinned();
  std::sort(active_.begin(), active_.end());
}

Result<void> TuneRun::shortlist(const std::vector<Candidate>& wanted) {
  active_.clear();
  std::vector<bool> found(wanted.size(), false);
  for (int i = 0; i < static_cast<int>(report_.trials.size()); ++i) {
    Trial& trial = report_.trials[static_cast<std::size_t>(i)];
    const auto at = std::find(wanted.begin(), wanted.end(), trial.candidate);
    if (at != wanted.end()) found[static_cast<std::size_t>(at - wanted.begin())] = true;
    if (at != wanted.end() || trial.vendor) {
      active_.push_back(i);
    } else {
      trial.reason = "not asked for";
    }
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!found[i] && !state_.options.overrides.denied(wanted[i]).empty()) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("candidate '{}' is denied; `culet deny` lists what is", wanted[i].text()));
    }
    if (!found[i]) {
      std::vector<Candidate> space;
      for (const Trial& trial : report_.trials) space.push_back(trial.candidate);
      return fail(
          ErrorCode::invalid_argument,
          fmt::format(
              "candidate '{}' is not in the space of {}: {}; `culet rank {} --top all` lists it",
              wanted[i].text(), report_.problem.text(), why_not_in(space, wanted[i]),
              report_.problem.text()));
    }
  }
  return {};
}

void TuneRun::enter(const std::vector<Candidate>& candidates) {
  policy_.target_seconds /= 2;
  policy_.max_rounds = policy_.min_rounds;
  policy_.settle_seconds = 0;  // no final
  // On a GPU two rounds say how far behind it is.
  if (state_.device.is_cuda()) policy_.drop_ratio = std::min(policy_.drop_ratio, 1.1);
  reuse_ = state_.options.use_cached_trials;
  for (const Candidate& candidate : candidates) {
    const Backend* backend = state_.registry.find(candidate.steps.front().backend);
    Trial trial;
    trial.candidate = candidate;
    trial.vendor = backend != nullptr && backend->is_vendor();
    trial.order = static_cast<int>(report_.trials.size());
    active_.push_back(trial.order);
    report_.trials.push_back(std::move(trial));
  }
}

void TuneRun::compile() {
  measuring_ = true;
  const auto begin = Clock::now();
  build(active_);
  if (built_.empty() && !halted()) build(add_fallbacks());
  report_.compile_seconds = seconds_since(begin);
}

void TuneRun::try_compiling() {
  const auto begin = Clock::now();
  build(active_);
  report_.compile_seconds = seconds_since(begin);
  for (const int index : active_) {
    Trial& trial = report_.trials[static_cast<std::size_t>(index)];
    const auto built = built_.find(index);
    if (built != built_.end()) {
      for (const BuiltStep& step : built->second.steps) {
        const std::string complaint = compile_complaint(step.artifact.log);
        if (!complaint.empty()) trial.reason = "compiles with " + complaint;
      }
    }
    if (!trial.reason.empty())
      note(fmt::format("{}: {}: {}", report_.problem.text(), trial.candidate.text(), trial.reason));
  }
}

std::vector<int> TuneRun::add_fallbacks() {
  std::vector<int> added;
  for (int i = 0; i < static_cast<int>(report_.trials.size()); ++i) {
    Trial& trial = report_.trials[static_cast<std::size_t>(i)];
    if (!trial.fallback || trial.outcome != Outcome::ranked || built_.count(i) > 0) continue;
    trial.reason.clear();
    added.push_back(i);
    active_.push_back(i);
  }
  return added;
}

std::vector<int> TuneRun::verify(TrialRunner& runner) {
  std::vector<int> entrants;
  const int count = static_cast<int>(built_.size());
  int done = 0;
  for (const auto& [index, built] : built_) {
    Trial& trial = report_.trials[static_cast<std::size_t>(index)];
    if (failed(trial) && !trial.from_cache) continue;
    if (halted()) {
      trial.reason = "stopped before it was verified";
      continue;
    }
    say("verify", done++, count);
    const Verification verdict = runner.verify(built, !trial.from_cache);
    trial.from_cache = false;
    trial.error = verdict.error;
    if (verdict.outcome == Outcome::measured) {
      entrants.push_back(index);
    } else {
      trial.outcome = verdict.outcome;
      trial.reason = verdict.reason;
      store_trial(trial);
      if (observer_ != nullptr) observer_->trial(report_.problem, trial);
    }
  }
  return entrants;
}

void TuneRun::race(TrialRunner& runner, const std::vector<int>& entrants) {
  std::vector<const BuiltCandidate*> racers;
  std::vector<bool> droppable;
  bool vendor_default_seen = false;
  for (int index : entrants) {
    const bool vendor = report_.trials[static_cast<std::size_t>(index)].vendor;
    racers.push_back(&built_.at(index));
    droppable.push_back(!vendor || vendor_default_seen);
    vendor_default_seen = vendor_default_seen || vendor;
  }
  say("time", 0, 1);
  const auto results = runner.race(
      racers, droppable, [&](int round, int total) { say("time", round, total); },
      [&](const std::vector<std::optional<Timing>>& times) {
        std::vector<Trial> trials;
        for (std::size_t i = 0; i < entrants.size(); ++i) {
          trials.push_back(report_.trials[static_cast<std::size_t>(entrants[i])]);
          trials.back().outcome = times[i] ? Outcome::measured : Outcome::crashed;
          trials.back().timing = times[i];
        }
        return deciding(std::move(trials), policy_.noise_floor);
      });
  race_stopped_ = halted();
  // Large problems reach the power cap one after the other: said once.
  if (!runner.notes().empty() && state_.noted.insert(runner.notes()).second)
    note(fmt::format("the device was held back while timing ({}), first with {}{}", runner.notes(),
                     report_.problem.text(),
                     policy_.settle_seconds > 0
                         ? "; there those near the fastest are timed again, each at "
                           "the clock that its own power leaves"
                         : ""));
  for (std::size_t i = 0; i < results.size(); ++i) {
    Trial& trial = report_.trials[static_cast<std::size_t>(entrants[i])];
    trial.outcome = results[i].outcome;
    trial.reason = results[i].reason;
    if (results[i].outcome == Outcome::measured) {
      trial.timing = results[i].timing;
      ++state_.timed;
      if (best_seconds_ == 0 || trial.timing->median < best_seconds_) {
        best_seconds_ = trial.timing->median;
        best_name_ = trial.candidate.steps.front().backend;
      }
    }
    // Of a race that was stopped only what had its rounds is known for good.
    const bool known =
        !race_stopped_ || !trial.timing ||
        (trial.timing->samples >= policy_.min_rounds && !results[i].to_be_timed_again);
    if (known) store_trial(trial);
    if (observer_ != nullptr) observer_->trial(report_.problem, trial);
  }
}

Result<void> TuneRun::benchmark() {
  const auto begin = Clock::now();
  if (!built_.empty()) {
    auto lock = DeviceLock::acquire(state_.device, state_.options.stop);
    if (!lock) return tl::unexpected(lock.error());
    if (answered_meanwhile()) {
      report_.benchmark_seconds = seconds_since(begin);
      return {};
    }
    RunnerOptions options;
    options.seed = state_.options.seed;
    options.max_memory_bytes = state_.options.max_memory_bytes;
    options.policy = policy_;
    options.stop = &halt_;
    options.on_sample = [this] { halt_ = halted(); };
    options.simulated_clock = state_.options.simulated_clock;
    options.on_replaced = [this](const std::string& why) {
      if (observer_ != nullptr) observer_->worker_replaced(report_.problem, why);
    };
    const std::lock_guard one_at_a_time(state_.measuring);
    const auto locked = Clock::now();
    const bool isolated = state_.options.isolation == Isolation::process;
    auto runner = isolated ? state_.workers.make_runner(report_.problem, state_.device, options)
                           : make_trial_runner(report_.problem, state_.device, options);
    note(state_.workers.take_note());
    if (!runner) return tl::unexpected(runner.error());
    std::vector<int> entrants = verify(**runner);
    if (entrants.empty() && !halted()) {
      build(add_fallbacks());
      entrants = verify(**runner);
    }
    report_.verify_seconds = seconds_since(locked);
    if (!entrants.empty()) race(**runner, entrants);
  }
  report_.benchmark_seconds = seconds_since(begin);
  return {};
}

void TuneRun::select() {
  const bool measured = std::any_of(report_.trials.begin(), report_.trials.end(),
                                    [](const Trial& t) { return t.outcome == Outcome::measured; });
  const Selection selection = measured ? culet::select(report_.trials, policy_.noise_floor)
                                       : select_by_model(report_.trials);
  report_.why = selection.why;
  report_.chosen = selection.index;
  if (stored_choice_ >= 0 && stored_choice_ != selection.index) {
    report_.chosen = stored_choice_;
    report_.why = "chosen when it was measured, in a tie that the model would now decide otherwise";
  }
  if (!measured && measuring_) {  // nothing verified, so nothing may be chosen
    report_.chosen = -1;
    report_.why = halted() ? "stopped before a candidate was timed"
                           : "no candidate was both correct and timed";
  }
  apply_pin();
  if (race_stopped_ && measured) report_.why += "; stopped while it was timed";
  report_.from_cache = stored_only_;
}

const BuiltCandidate* TuneRun::built(int trial) const {
  const auto at = built_.find(trial);
  return at == built_.end() ? nullptr : &at->second;
}

TuneReport TuneRun::take_report() {
  // Measured trials first, fastest first; then what failed; then what was only ranked, by estimate.
  std::vector<std::size_t> order(report_.trials.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](std::size_t i) {
    const Trial& t = report_.trials[i];
    if (t.outcome == Outcome::measured)
      return std::make_pair(0, t.timing ? t.timing->median : 1e30);
    if (t.outcome != Outcome::ranked) return std::make_pair(1, 0.0);
    return std::make_pair(2, 0.0);  // discovery order: vendor's own, then by estimate
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t x, std::size_t y) { return key(x) < key(y); });
  TuneReport sorted = report_;
  sorted.trials.clear();
  for (std::size_t position = 0; position < order.size(); ++position) {
    if (static_cast<int>(order[position]) == report_.chosen)
      sorted.chosen = static_cast<int>(position);
    sorted.trials.push_back(std::move(report_.trials[order[position]]));
  }
  for (Trial& trial : denied_) sorted.trials.push_back(std::move(trial));
  sorted.total_seconds = seconds_since(start_);
  return sorted;
}

}  // namespace culet
