// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What a tuning run takes from the store instead of measuring, and what it puts there.
#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "tuner/run.h"

namespace culet {
namespace {

/// Outcomes that a second run would only repeat. A crash may have been another candidate's doing,
/// so it is tried again.
bool worth_storing(const Trial& trial) {
  return trial.outcome == Outcome::measured || trial.outcome == Outcome::wrong ||
         trial.outcome == Outcome::timed_out;
}

}  // namespace

Environment TuneRun::environment(const Candidate& candidate) const {
  Environment env;
  env.device = state_.device.identity();
  for (const Step& step : candidate.steps) {
    const Backend* backend = state_.registry.find(step.backend);
    env.library += fmt::format("{}{} {}", env.library.empty() ? "" : ", ", step.backend,
                               backend == nullptr ? "" : backend->version());
  }
  env.policy = policy_.text();
  return env;
}

SelectionScope TuneRun::scope() const {
  SelectionScope scope;
  for (const auto& backend : state_.registry.backends()) {
    if (backend->device_kind() != state_.device.kind || !state_.options.backends.allows(*backend))
      continue;
    scope.backends += fmt::format("{}{} {}", scope.backends.empty() ? "" : ", ", backend->name(),
                                  backend->version());
  }
  scope.top = top_text(state_.options.top);
  std::vector<std::string> space;
  for (const Trial& trial : report_.trials) space.push_back(trial.candidate.text());
  std::sort(space.begin(), space.end());
  std::string all;
  for (const std::string& text : space) all += text + "\n";
  scope.space = hash64(all);
  return scope;
}

/// All that is known of the problem in this environment, by one query: a space has thousands of
/// candidates, of which few were ever tried.
void TuneRun::read_stored_trials() {
  stored_.clear();
  auto contents = state_.cache->contents({report_.problem.text()});
  if (!contents) return;  // unreadable is a miss
  for (StoredTrial& found : contents->trials) {
    if (found.env.text() == environment(found.trial.candidate).text())
      stored_[found.trial.candidate] = std::move(found.trial);
  }
}

bool TuneRun::load_stored_trial(int index) {
  Trial& trial = report_.trials[static_cast<std::size_t>(index)];
  const auto at = stored_.find(trial.candidate);
  if (at == stored_.end()) return false;
  const Trial& found = at->second;
  trial.outcome = found.outcome;
  trial.reason = found.reason;
  trial.log = found.log;
  trial.timing = found.timing;
  trial.error = found.error;
  trial.from_cache = true;
  return true;
}

/// A stored selection of the same scope stands even where the model would now rank otherwise (a
/// CPU's measured rates differ a little from process to process): its trials are those that were
/// run then.
bool TuneRun::answered_before() {
  const auto selected =
      state_.cache->find_selection(report_.problem, scope(), state_.device.identity());
  if (!selected) return false;
  const auto chosen =
      std::find_if(report_.trials.begin(), report_.trials.end(),
                   [&](const Trial& trial) { return trial.candidate == *selected; });
  if (chosen == report_.trials.end()) return false;
  if (!load_stored_trial(static_cast<int>(chosen - report_.trials.begin()))) return false;
  for (int i = 0; i < static_cast<int>(report_.trials.size()); ++i) load_stored_trial(i);
  if (chosen->outcome != Outcome::measured) return false;
  stored_choice_ = static_cast<int>(chosen - report_.trials.begin());
  return true;
}

bool TuneRun::load_stored_trials() {
  reuse_ = state_.options.use_cached_trials;
  if (!reuse_) return false;
  read_stored_trials();
  if (answered_before() && pin_is_answered()) return stored_only_ = true;
  stored_choice_ = -1;
  std::vector<int> missing;
  std::vector<int> stored;
  for (int i : active_) (load_stored_trial(i) ? stored : missing).push_back(i);
  stored_only_ = missing.empty();
  if (missing.empty()) return true;
  // Times of different runs do not compare to a per cent: what is new races again with the stored
  // vendor plans and the best stored candidates.
  std::sort(stored.begin(), stored.end(), [&](int x, int y) {
    const auto time = [&](int i) {
      const Trial& t = report_.trials[static_cast<std::size_t>(i)];
      return t.timing ? t.timing->median : 1e30;
    };
    return time(x) < time(y);
  });
  int own = 0;
  for (int i : stored) {
    const Trial& trial = report_.trials[static_cast<std::size_t>(i)];
    if (trial.outcome == Outcome::measured && (trial.vendor || own++ < 2)) missing.push_back(i);
  }
  std::sort(missing.begin(), missing.end());
  active_ = missing;
  return false;
}

/// Whether another process measured everything while this one waited for the device.
bool TuneRun::answered_meanwhile() {
  if (!reuse_) return false;
  std::vector<Trial> before;
  for (const auto& [index, built] : built_)
    before.push_back(report_.trials[static_cast<std::size_t>(index)]);
  read_stored_trials();
  std::size_t loaded = 0;
  for (const auto& [index, built] : built_) loaded += load_stored_trial(index);
  if (loaded == built_.size()) return stored_only_ = true;
  std::size_t i = 0;
  for (const auto& [index, built] : built_)
    report_.trials[static_cast<std::size_t>(index)] = before[i++];
  return false;
}

void TuneRun::store_trial(const Trial& trial) {
  if (worth_storing(trial))
    state_.cache->store_trial(report_.problem, trial, environment(trial.candidate));
}

void TuneRun::store() {
  if (unpinned_ < 0 || report_.from_cache || halted()) return;
  const Trial& choice = report_.trials[static_cast<std::size_t>(unpinned_)];
  if (choice.outcome != Outcome::measured) return;
  state_.cache->store_selection(report_.problem, scope(), state_.device.identity(),
                                choice.candidate, unpinned_why_);
}

}  // namespace culet
