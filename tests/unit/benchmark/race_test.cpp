// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The schedule of a race, with made-up times.
#include "benchmark/race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace culet::benchmark {
namespace {

MeasurePolicy quick() {
  MeasurePolicy policy;
  policy.min_rounds = 5;
  policy.max_rounds = 25;
  policy.drop_ratio = 1.25;
  policy.trial_seconds = 10;
  return policy;
}

TEST(Race, OrderIsByChanceAndThenBackwards) {
  constexpr int kCount = 5, kRounds = 24;
  std::vector<std::vector<int>> rounds(kRounds);
  RaceRules rules;
  rules.policy = quick();
  rules.policy.min_rounds = rules.policy.max_rounds = kRounds;
  rules.sample = [&](int index, int round, double) -> Result<double> {
    rounds[static_cast<std::size_t>(round)].push_back(index);
    return 1.0 + 0.001 * index;
  };
  run_race(kCount, std::vector<bool>(kCount, false), rules);
  std::set<std::pair<int, int>> followed;
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    ASSERT_EQ(rounds[r].size(), std::size_t{kCount});
    if (r % 2 == 1) {
      EXPECT_TRUE(std::equal(rounds[r].begin(), rounds[r].end(), rounds[r - 1].rbegin())) << r;
    }
    for (std::size_t i = 1; i < kCount; ++i) followed.insert({rounds[r][i - 1], rounds[r][i]});
  }
  EXPECT_EQ(followed.size(), std::size_t{kCount * (kCount - 1)}) << "everybody follows everybody";
  const auto first = rounds;
  for (auto& round : rounds) round.clear();
  run_race(kCount, std::vector<bool>(kCount, false), rules);
  EXPECT_EQ(rounds, first) << "the next race has the same orders";

  // Who leaves between a round and its reverse changes nothing for the others.
  for (auto& round : rounds) round.clear();
  rules.policy.min_rounds = 1;
  rules.deciding = [](const std::vector<std::optional<Timing>>& times) {
    std::vector<bool> decides(times.size(), true);
    decides[2] = false;
    return decides;
  };
  run_race(kCount, std::vector<bool>(kCount, false), rules);
  for (std::size_t r = 1; r < rounds.size(); ++r) {
    std::vector<int> others = first[r];
    std::erase(others, 2);
    EXPECT_EQ(rounds[r], others) << r;
  }
}

TEST(Race, HopelessOnesLeaveAfterTwoRoundsUnlessTheyMayNot) {
  std::vector<int> samples(3), left;
  RaceRules rules;
  rules.policy = quick();
  rules.sample = [&](int index, int, double) -> Result<double> {
    ++samples[static_cast<std::size_t>(index)];
    return index == 0 ? 1.0 : 2.0;
  };
  rules.left = [&](int index) { left.push_back(index); };
  const auto results = run_race(3, {true, true, false}, rules);
  EXPECT_EQ(samples[1], 2);
  EXPECT_EQ(samples[2], 5);  // the vendor's first stays for the minimum
  ASSERT_FALSE(left.empty());
  EXPECT_EQ(left.front(), 1);
  for (const RaceResult& result : results) EXPECT_EQ(result.outcome, Outcome::measured);
  EXPECT_EQ(results[1].timing.median, 2.0);
  EXPECT_EQ(results[1].timing.samples, 2);
}

TEST(Race, ClearLeaderEndsItAtTheMinimum) {
  int last = 0;
  RaceRules rules;
  rules.policy = quick();
  rules.sample = [&](int index, int round, double) -> Result<double> {
    last = round;
    return 1.0 + 0.1 * index;
  };
  run_race(2, {false, false}, rules);
  EXPECT_EQ(last + 1, 5);
}

TEST(Race, GoesOnWithThoseThatDecide) {
  std::vector<int> samples(4);
  std::vector<std::vector<bool>> answers = {
      {true, true, false, true}, {true, true, true, true}, {true, false, false, false}};
  std::vector<int> left;
  std::size_t asked = 0;
  RaceRules rules;
  rules.policy = quick();
  rules.sample = [&](int index, int round, double) -> Result<double> {
    ++samples[static_cast<std::size_t>(index)];
    if (index == 3 && round == 5) return fail(ErrorCode::device, "an illegal access");
    return 1.0 + 0.01 * index + 0.001 * ((index + 2 * round) % 5);
  };
  rules.left = [&](int index) { left.push_back(index); };
  rules.deciding = [&](const std::vector<std::optional<Timing>>& times) {
    EXPECT_EQ(times.size(), 4u);
    EXPECT_EQ(times[3].has_value(), asked == 0) << "failed since";
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(times[i]->samples, samples[i]);
    EXPECT_EQ(times[2]->low < times[2]->high, asked == 0)
        << "who has left is as known as it will be";
    auto answer = answers[asked++];
    answer.resize(4);
    return answer;
  };
  run_race(4, std::vector<bool>(4, true), rules);
  EXPECT_EQ(samples, (std::vector<int>{7, 7, 5, 6})) << "who has left does not come back";
  EXPECT_EQ(left, (std::vector<int>{2, 3, 1, 0})) << "nobody runs alone";
  EXPECT_EQ(asked, 3u);
}

TEST(Race, NobodyGoesOnBeyondTheMostRounds) {
  std::vector<int> samples(2);
  RaceRules rules;
  rules.policy = quick();
  rules.sample = [&](int index, int, double) -> Result<double> {
    ++samples[static_cast<std::size_t>(index)];
    return 1.0;
  };
  rules.deciding = [](const std::vector<std::optional<Timing>>& times) {
    return std::vector<bool>(times.size(), true);
  };
  run_race(2, {true, true}, rules);
  EXPECT_EQ(samples, (std::vector<int>{25, 25}));
}

TEST(Race, WhatAllOfARoundShareDoesNotDecide) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> clock(0.95, 1.1);
  double factor = 1;
  int of_round = -1;
  RaceRules rules;
  rules.policy = quick();
  rules.sample = [&](int index, int round, double) -> Result<double> {
    if (round != of_round) factor = clock(random);
    of_round = round;
    return factor * (1 + 0.03 * index);
  };
  const auto results = run_race(4, {true, true, true, true}, rules);
  for (std::size_t i = 0; i < 4; ++i) {
    const Timing& t = results[i].timing;
    EXPECT_NEAR(t.median / results[0].timing.median, 1 + 0.03 * static_cast<double>(i), 1e-9) << i;
    EXPECT_LT(t.high - t.low, 1e-9 * t.median) << i;
    EXPECT_EQ(t.samples, 5);
  }
  // One alone cannot tell, and the smallest of the rounds is taken as it is.
  const Timing alone = run_race(1, {true}, rules)[0].timing;
  EXPECT_GT(alone.high, 1.01 * alone.low);
  rules.statistic = Statistic::minimum;
  const Timing smallest = run_race(4, {true, true, true, true}, rules)[0].timing;
  EXPECT_GT(smallest.high, 1.001 * smallest.low);
}

TEST(Race, FailuresAreTheirOwn) {
  RaceRules rules;
  rules.policy = quick();
  rules.sample = [&](int index, int round, double) -> Result<double> {
    if (index == 0 && round == 1) return fail(ErrorCode::device, "an illegal access");
    if (index == 1) return 11.0;
    if (index == 2) return fail(ErrorCode::build_failed, "no such symbol");
    return 1.0;
  };
  const auto results = run_race(4, {true, true, true, true}, rules);
  EXPECT_EQ(results[0].outcome, Outcome::crashed);
  EXPECT_EQ(results[0].reason, "an illegal access");
  EXPECT_EQ(results[1].outcome, Outcome::timed_out);
  EXPECT_NE(results[1].reason.find("11 s"), std::string::npos) << results[1].reason;
  EXPECT_EQ(results[2].outcome, Outcome::build_failed);
  EXPECT_EQ(results[3].outcome, Outcome::measured);
}

TEST(Race, StopKeepsWhatWasFound) {
  std::atomic<bool> stop = false;
  RaceRules rules;
  rules.policy = quick();
  rules.stop = &stop;
  std::set<int> sampled;
  rules.sample = [&](int index, int, double) -> Result<double> {
    sampled.insert(index);
    stop = sampled.size() == 2;
    return 1.0;
  };
  const auto results = run_race(3, {true, true, true}, rules);
  ASSERT_EQ(sampled.size(), 2U);
  for (int i = 0; i < 3; ++i) {
    const RaceResult& result = results[static_cast<std::size_t>(i)];
    EXPECT_EQ(result.outcome, sampled.count(i) == 1 ? Outcome::measured : Outcome::ranked);
    EXPECT_EQ(result.reason.empty(), sampled.count(i) == 1);
  }
}

TEST(Race, ReportsRounds) {
  std::vector<std::pair<int, int>> reported;
  RaceRules rules;
  rules.policy = quick();
  rules.sample = [](int, int, double) -> Result<double> { return 1.0; };
  rules.on_round = [&](int round, int total) { reported.emplace_back(round, total); };
  run_race(1, {true}, rules);
  ASSERT_EQ(reported.size(), 5u);
  EXPECT_EQ(reported.front(), (std::pair{1, 5}));
  EXPECT_EQ(reported.back(), (std::pair{5, 5}));
}

/// Times of two kinds: with others around, and after having run alone.
class RaceWithFinal : public ::testing::Test {
 protected:
  RaceWithFinal() {
    rules_.policy = quick();
    rules_.policy.settle_seconds = 0.08;
    rules_.policy.final_ratio = 1.08;
    rules_.held_back = [this] {
      ++asked_;
      return held_back_;
    };
    rules_.sample = [this](int index, int round, double settle_seconds) -> Result<double> {
      const auto i = static_cast<std::size_t>(index);
      EXPECT_GE(round, last_round_);
      last_round_ = round;
      if (settle_seconds == 0) {
        EXPECT_EQ(asked_, 0);
        return together_[i];
      }
      EXPECT_EQ(settle_seconds, 0.08);
      ++finals_[i];
      if (stop_in_final_) stop_ = true;
      if (index == failing_) return fail(ErrorCode::device, "an illegal access");
      return alone_[i];
    };
    rules_.stop = &stop_;
  }
  std::vector<RaceResult> run() { return run_race(5, {false, true, true, true, true}, rules_); }

  RaceRules rules_;
  const std::vector<double> together_ = {1.00, 1.02, 1.04, 1.09, 1.20};
  const std::vector<double> alone_ = {1.10, 1.06, 1.03, 0.5, 0.5};
  std::vector<int> finals_ = std::vector<int>(5);
  bool held_back_ = true, stop_in_final_ = false;
  int asked_ = 0, failing_ = -1, last_round_ = 0;
  std::atomic<bool> stop_ = false;
};

TEST_F(RaceWithFinal, TimesTheFastestAloneWhereTheDeviceWasHeldBack) {
  int rounds = 0;
  rules_.on_round = [&](int round, int) { EXPECT_EQ(round, ++rounds); };
  const auto results = run();
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(rounds, 10);
  EXPECT_EQ(finals_, (std::vector<int>{5, 5, 5, 0, 0})) << "the first must not be dropped";
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(results[i].timing.median, alone_[i]);
    EXPECT_EQ(results[i].timing.samples, 5);
  }
  // The others are moved as far as the one that moved farthest: the first, from 1.00 to 1.10.
  for (std::size_t i = 3; i < 5; ++i) {
    EXPECT_DOUBLE_EQ(results[i].timing.median, together_[i] * 1.10);
    EXPECT_EQ(results[i].timing.low, results[i].timing.median);
    EXPECT_EQ(results[i].timing.high, results[i].timing.median);
    EXPECT_FALSE(results[i].to_be_timed_again);
  }
}

TEST_F(RaceWithFinal, WhoMayNotBeDroppedTakesPart) {
  const auto results = run_race(5, {true, true, true, true, false}, rules_);
  EXPECT_EQ(finals_, (std::vector<int>{2, 2, 2, 0, 5})) << "4 % behind it leave after two rounds";
  EXPECT_DOUBLE_EQ(results[4].timing.median, alone_[4]);
}

TEST_F(RaceWithFinal, HasNoMoreRoundsThanTheRace) {
  rules_.policy.min_rounds = 2;
  rules_.policy.max_rounds = 4;
  rules_.deciding = [](const auto& times) { return std::vector<bool>(times.size(), true); };
  run();
  EXPECT_EQ(finals_, (std::vector<int>{4, 4, 4, 0, 0}));
}

TEST_F(RaceWithFinal, TimesOfNothingHaveNone) {
  rules_.sample = [](int index, int, double) -> Result<double> { return index < 2 ? 0.0 : 1.0; };
  const auto results = run();
  EXPECT_EQ(results[0].timing.median, 0);
  EXPECT_EQ(results[4].timing.median, 1);
}

TEST_F(RaceWithFinal, EndsWithoutWhereNothingHeldItBackOrNoneIsWanted) {
  held_back_ = false;
  for (const double settle : {0.08, 0.0}) {
    const auto results = run();
    EXPECT_EQ(asked_, 1);
    EXPECT_EQ(finals_, std::vector<int>(5)) << settle;
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(results[i].timing.median, together_[i]);
    rules_.policy.settle_seconds = 0;
    held_back_ = true;
    asked_ = last_round_ = 0;
  }
  // One alone has nobody to meet.
  rules_.policy.settle_seconds = 0.08;
  rules_.policy.final_ratio = 1.01;
  asked_ = last_round_ = 0;
  EXPECT_EQ(run()[0].timing.median, together_[0]);
  EXPECT_EQ(finals_, std::vector<int>(5));
}

TEST_F(RaceWithFinal, DropsGoesOnAndFailsAsInTheRoundsBefore) {
  failing_ = 1;
  rules_.policy.final_ratio = 1.10;  // so that who is 1.05 behind after two rounds leaves
  bool in_final = false;
  rules_.deciding = [&](const std::vector<std::optional<Timing>>& times) {
    std::vector<bool> decides(5, false);
    in_final = !times[4];
    if (in_final) {
      EXPECT_FALSE(times[1]) << "it has crashed";
      EXPECT_DOUBLE_EQ(times[3]->median, 0.5);
      decides[0] = decides[3] = true;
    }
    return decides;
  };
  const auto results = run();
  EXPECT_TRUE(in_final);
  EXPECT_EQ(finals_, (std::vector<int>{25, 1, 2, 25, 0})) << "as many rounds as before";
  EXPECT_EQ(results[1].outcome, Outcome::crashed);
  EXPECT_EQ(results[2].outcome, Outcome::measured);
}

TEST_F(RaceWithFinal, AStoppedOneHasNotBeen) {
  for (const bool before : {false, true}) {
    stop_in_final_ = !before;
    stop_ = false;
    asked_ = last_round_ = 0;
    if (before) {
      rules_.on_round = [&](int round, int) { stop_ = round == 5; };
      finals_ = std::vector<int>(5);
    }
    const auto results = run();
    EXPECT_EQ(std::count(finals_.begin(), finals_.end(), 1), before ? 0 : 1);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(results[i].outcome, Outcome::measured);
      EXPECT_TRUE(results[i].to_be_timed_again) << i;
      EXPECT_EQ(results[i].timing.median, together_[i]);
      EXPECT_EQ(results[i].timing.samples, 5);
    }
  }
}

TEST(Race, NobodyRuns) {
  RaceRules rules;
  rules.policy = quick();
  rules.sample = [](int, int, double) -> Result<double> { return 1.0; };
  EXPECT_TRUE(run_race(0, {}, rules).empty());
}

}  // namespace
}  // namespace culet::benchmark
