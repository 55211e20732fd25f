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

/// What serves a range, and the largest of its ratios to the fastest there.
struct Served {
  int index = -1;
  double behind = 1;
};

/// Of candidates with their seconds at the same values of m (infinite: it cannot be run there) the
/// one with the smallest product of ratios to the fastest; `preferred` where its product is within
/// `slack` of that for each of them.
Served least_behind(const std::vector<std::vector<double>>& seconds, int preferred, double slack);

}  // namespace culet
