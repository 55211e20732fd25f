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

double median_of(std::vector<double> values);

}  // namespace culet::benchmark
