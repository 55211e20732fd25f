// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// From the round values of a candidate to one number and an interval (docs/measuring.md).
#pragma once

#include <vector>

#include "culet/device.h"
#include "culet/report.h"

namespace culet::benchmark {

enum class Statistic {
  median,   ///< GPU: median of the rounds, with its 95 % interval from order statistics
  minimum,  ///< CPU: smallest round, up to the lower quartile of the rounds
};
Statistic statistic_for(DeviceKind device);

/// `rounds` holds seconds per run, one value a round, in any order; not empty. The statistic
/// goes to Timing::median whichever it is.
Timing summarise(std::vector<double> rounds, Statistic statistic);

/// By how much each round was slower for all than the typical round (1: not at all): clocks,
/// temperature and the power cap move all candidates of a round alike. `times[i][r]` is what
/// candidate i took in round r; it takes part in all rounds from the first on until it leaves.
/// Rounds of one say nothing of what all share, and have 1.
std::vector<double> shared_drift(const std::vector<std::vector<double>>& times);

double median_of(std::vector<double> values);

}  // namespace culet::benchmark
