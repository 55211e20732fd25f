// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The schedule of timing: rounds over all candidates in orders by chance, dropping the hopeless,
// going on only with those that can still change what is chosen; and a final of the fastest where
// the device was held back. Knows no device and no choice: what a sample is, and who can change
// what is chosen, the caller says.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "benchmark/statistics.h"
#include "benchmark/trial_runner.h"

namespace culet::benchmark {

struct RaceRules {
  MeasurePolicy policy;
  Statistic statistic = Statistic::median;
  const std::atomic<bool>* stop = nullptr;
  /// Seconds of one run of a candidate in a round, after it has run for `settle_seconds`. Errors
  /// end its race: out_of_budget as timed_out, build_failed as such, all others as crashed.
  std::function<Result<double>(int candidate, int round, double settle_seconds)> sample;
  /// A candidate has left the race: its resources may go. It may come back for the final.
  std::function<void(int candidate)> left;
  /// Asked when the rounds are over: whether the device was held back in them. May be empty.
  std::function<bool()> held_back;
  std::function<void(int round, int total)> on_round;
  /// Asked after each round from min_rounds on: who runs in the next. Empty: nobody.
  Deciding deciding;
};

std::vector<RaceResult> run_race(int count, const std::vector<bool>& droppable,
                                 const RaceRules& rules);

/// The outcome an error of building or running a candidate stands for.
Outcome outcome_of(const Error& error);

}  // namespace culet::benchmark
