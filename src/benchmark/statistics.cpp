// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The two statistics a timing can be.
#include "benchmark/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace culet::benchmark {
namespace {

/// How many of n sorted values may be cut off at each end so that the rest still covers the
/// distribution's median with 95 %: the count below the median is binomial(n, 1/2). 0 for n < 6,
/// where even all of them cover it with less.
int cut_for_median(int n) {
  double probability = std::ldexp(1.0, -n);  // of exactly i values below the median
  double below = 0;
  int cut = 0;
  for (int i = 0; i < n / 2; ++i) {
    below += probability;
    if (below > 0.025) break;
    cut = i;
    probability = probability * (n - i) / (i + 1);
  }
  return cut;
}

}  // namespace

Statistic statistic_for(DeviceKind device) {
  return device == DeviceKind::cuda ? Statistic::median : Statistic::minimum;
}

double median_of(std::vector<double> values) {
  assert(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

namespace {

/// Median polish: moves what the members of a round share into `drift`.
void polish(const std::vector<const std::vector<double>*>& members, std::vector<double>* drift) {
  constexpr std::size_t kFewest = 2;
  constexpr int kPasses = 3;  // it settles in two
  std::vector<double> typical(members.size(), 1.0), ratios;
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      ratios.clear();
      for (std::size_t r = 0; r < members[i]->size(); ++r)
        ratios.push_back((*members[i])[r] / (*drift)[r]);
      typical[i] = median_of(ratios);
    }
    for (std::size_t r = 0; r < drift->size(); ++r) {
      ratios.clear();
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (r < members[i]->size() && typical[i] > 0)
          ratios.push_back((*members[i])[r] / typical[i]);
      }
      double& shared = (*drift)[r];
      shared = ratios.size() < kFewest ? 1.0 : median_of(ratios);
      if (!(shared > 0)) shared = 1.0;  // times below the clock's resolution
    }
  }
}

}  // namespace

std::vector<double> shared_drift(const std::vector<std::vector<double>>& times) {
  std::size_t count = 0;
  for (const auto& rounds : times) count = std::max(count, rounds.size());
  std::vector<const std::vector<double>*> to_the_end, all;
  for (const auto& rounds : times) {
    if (!rounds.empty()) all.push_back(&rounds);
    if (!rounds.empty() && rounds.size() == count) to_the_end.push_back(&rounds);
  }
  std::vector<double> drift(count, 1.0);
  // First those who ran in all rounds: only they know how the first compare with the last.
  polish(to_the_end, &drift);
  if (all.size() > to_the_end.size()) polish(all, &drift);
  return drift;
}

Timing summarise(std::vector<double> rounds, Statistic statistic) {
  assert(!rounds.empty());
  std::sort(rounds.begin(), rounds.end());
  const auto n = static_cast<int>(rounds.size());
  Timing timing;
  timing.samples = n;
  if (statistic == Statistic::median) {
    const auto cut = static_cast<std::size_t>(cut_for_median(n));
    timing.median = median_of(rounds);
    timing.low = rounds[cut];
    timing.high = rounds[rounds.size() - 1 - cut];
    return timing;
  }
  // Interference only ever adds time, so the smallest value is nearest to the machine's own. How
  // well it is supported shows in how far up the lower quartile lies: at least the second smallest.
  const int quartile = std::min(n - 1, std::max(1, n / 4));
  timing.median = timing.low = rounds.front();
  timing.high = rounds[static_cast<std::size_t>(quartile)];
  return timing;
}

}  // namespace culet::benchmark
