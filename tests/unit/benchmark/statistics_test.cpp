// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The statistics on noise made up for the purpose.
#include "benchmark/statistics.h"

#include <gtest/gtest.h>

#include <random>

namespace culet::benchmark {
namespace {

TEST(Statistics, MedianOfFewUsesAllAsInterval) {
  const Timing t = summarise({3, 1, 2, 5, 4}, Statistic::median);
  EXPECT_EQ(t.median, 3);
  EXPECT_EQ(t.low, 1);
  EXPECT_EQ(t.high, 5);
  EXPECT_EQ(t.samples, 5);
}

TEST(Statistics, OneSample) {
  for (const Statistic s : {Statistic::median, Statistic::minimum}) {
    const Timing t = summarise({2}, s);
    EXPECT_EQ(t.median, 2);
    EXPECT_EQ(t.low, 2);
    EXPECT_EQ(t.high, 2);
  }
}

TEST(Statistics, MedianIgnoresOutliers) {
  std::vector<double> rounds(21, 1.0);
  rounds[3] = rounds[7] = 100;
  EXPECT_EQ(summarise(rounds, Statistic::median).median, 1);
}

// The table of order statistics: for n = 25 the 95 % interval of the median is the 8th to the 18th.
TEST(Statistics, IntervalIsTheBinomialOne) {
  std::vector<double> rounds;
  for (int i = 1; i <= 25; ++i) rounds.push_back(i);
  const Timing t = summarise(rounds, Statistic::median);
  EXPECT_EQ(t.median, 13);
  EXPECT_EQ(t.low, 8);
  EXPECT_EQ(t.high, 18);
}

TEST(Statistics, IntervalCoversTheTrueMedianAboutAsOftenAsItSays) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> noise(0, 0.1);  // its median is 1
  int covered = 0;
  constexpr int kTrials = 4000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> rounds;
    for (int i = 0; i < 15; ++i) rounds.push_back(noise(random));
    const Timing t = summarise(rounds, Statistic::median);
    covered += t.low <= 1 && 1 <= t.high;
  }
  EXPECT_GT(covered, kTrials * 0.94);
  EXPECT_LT(covered, kTrials * 0.99);
}

TEST(Statistics, MinimumHoldsAgainstOneSidedNoise) {
  // Interference that adds up to half of the time in most rounds.
  std::mt19937 random(2);
  std::exponential_distribution<double> interference(5);
  std::vector<double> rounds;
  for (int i = 0; i < 25; ++i) rounds.push_back(1 + interference(random));
  const Timing t = summarise(rounds, Statistic::minimum);
  EXPECT_LT(t.median, 1.03);
  EXPECT_EQ(t.low, t.median);
  EXPECT_GT(t.high, t.low);
  EXPECT_LT(t.high, 1.1);
  EXPECT_GT(summarise(rounds, Statistic::median).median, 1.1);
}

TEST(Statistics, DriftIsWhatAllOfARoundShare) {
  const std::vector<double> drift{1.2, 1.0, 0.9, 1.0, 1.0};
  std::vector<std::vector<double>> times(4);
  const double own[] = {1, 2, 3, 4};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t rounds = i == 3 ? 2 : 5;  // the last leaves early
    for (std::size_t r = 0; r < rounds; ++r) times[i].push_back(own[i] * drift[r]);
  }
  const auto found = shared_drift(times);
  ASSERT_EQ(found.size(), 5u);
  for (std::size_t r = 0; r < 5; ++r) EXPECT_NEAR(found[r], drift[r], 1e-9) << r;
  // A candidate's own bad round is no drift.
  times[1][1] *= 1.5;
  EXPECT_NEAR(shared_drift(times)[1], 1.0, 1e-9);
  // One alone cannot tell, two can.
  EXPECT_EQ(shared_drift({{1.0, 1.2}}), (std::vector<double>{1, 1}));
  const auto two = shared_drift({{1.0, 1.2, 1.0}, {2.0, 2.4, 2.0}, {3.0}});
  EXPECT_NEAR(two[1], 1.2, 1e-9);
  EXPECT_TRUE(shared_drift({}).empty());
  // Times of zero, below a clock's resolution, tell nothing and divide nothing.
  EXPECT_EQ(shared_drift({{0, 0}, {0, 0}, {1.0, 1.0}}), (std::vector<double>{1, 1}));
  for (const double factor : shared_drift({{1.0, 0}, {2.0, 0}, {1.0, 0}})) EXPECT_GT(factor, 0);
}

TEST(Statistics, ThoseWhoLeftEarlyCompareWithThoseWhoStayed) {
  // The device slows down by a tenth when all but two have left: it is not these that are slower.
  std::vector<std::vector<double>> times(8);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double own = 1 + 0.01 * static_cast<double>(i);
    for (int r = 0; r < 5; ++r) times[i].push_back(own * (1 + 0.001 * r));
    for (int r = 5; r < 20 && i < 2; ++r) times[i].push_back(own * 1.1);
  }
  const auto drift = shared_drift(times);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double own = 1 + 0.01 * static_cast<double>(i);
    for (std::size_t r = 0; r < times[i].size(); ++r)
      EXPECT_NEAR(times[i][r] / drift[r] / own, times[0][0] / drift[0], 1e-9) << i << ' ' << r;
  }
}

TEST(Statistics, EachDeviceHasItsStatistic) {
  EXPECT_EQ(statistic_for(DeviceKind::cuda), Statistic::median);
  EXPECT_EQ(statistic_for(DeviceKind::cpu), Statistic::minimum);
}

}  // namespace
}  // namespace culet::benchmark
