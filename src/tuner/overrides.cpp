// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What a user decided, within a tuning run. Denied candidates are out before anything is chosen, so
// that the space, and with it the scope that selections are stored by, is the one without them; a
// pin is applied after everything, so that what is stored is what was measured.
#include <fmt/format.h>

#include <algorithm>

#include "tuner/run.h"

namespace culet {
namespace {

std::string denial(std::string_view by) {
  return fmt::format("denied by the user (culet deny '{}' --remove allows it)", by);
}

}  // namespace

void TuneRun::set_denied_aside() {
  const Overrides& overrides = state_.options.overrides;
  for (Trial& trial : report_.trials) {
    if (const auto by = overrides.denied(trial.candidate); !by.empty()) {
      trial.reason = denial(by);
      denied_.push_back(trial);
    }
  }
  std::erase_if(report_.trials,
                [&](const Trial& trial) { return !overrides.denied(trial.candidate).empty(); });
}

std::string TuneRun::why_nothing(std::string_view backend) const {
  for (const Trial& trial : denied_) {
    if (trial.candidate.steps.front().backend == backend) return trial.reason;
  }
  return "it has no configuration for this problem";
}

void TuneRun::add_pinned() {
  pin_ = state_.options.overrides.pinned(report_.problem, state_.device.kind);
  if (pin_ == nullptr) return;
  const auto at = std::find_if(report_.trials.begin(), report_.trials.end(),
                               [&](const Trial& trial) { return trial.candidate == *pin_; });
  if (at == report_.trials.end()) return;
  pinned_ = static_cast<int>(at - report_.trials.begin());
  if (std::find(active_.begin(), active_.end(), pinned_) == active_.end()) {
    at->reason.clear();
    active_.push_back(pinned_);
  }
}

bool TuneRun::pin_is_answered() const {
  return pinned_ < 0 || report_.trials[static_cast<std::size_t>(pinned_)].from_cache;
}

void TuneRun::apply_pin() {
  unpinned_ = report_.chosen;
  unpinned_why_ = report_.why;
  if (pin_ == nullptr) return;
  const Trial* trial = pinned_ < 0 ? nullptr : &report_.trials[static_cast<std::size_t>(pinned_)];
  const bool correct = trial != nullptr && trial->outcome == Outcome::measured;
  const bool by_model = trial != nullptr && !measuring_ && trial->outcome == Outcome::ranked;
  if (correct || by_model) {
    report_.chosen = pinned_;
    report_.why = fmt::format("pinned by the user{}; without the pin: {}",
                              correct ? "" : " (not measured)", unpinned_why_);
    return;
  }
  const std::string why = trial == nullptr
                              ? std::string(state_.options.overrides.denied(*pin_).empty()
                                                ? "it is not in the candidate space here"
                                                : "it is denied, too")
                              : fmt::format("{}{}{}", to_string(trial->outcome),
                                            trial->reason.empty() ? "" : ": ", trial->reason);
  report_.why += fmt::format("; the pinned candidate {} is not used: {}", pin_->text(), why);
}

}  // namespace culet
