// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Which plan serves a part of a table's range of m.
#pragma once

#include <cstdint>
#include <vector>

#include "culet/problem.h"

namespace culet {

/// The parts of a range that get a plan each.
std::vector<MRange> halves(MRange range);

/// Of candidates with their seconds at the same values of m (infinite: it cannot be run there) the
/// one whose largest ratio to the fastest is the smallest; `preferred` where that is within
/// `slack`.
int least_behind(const std::vector<std::vector<double>>& seconds, int preferred, double slack);

}  // namespace culet
