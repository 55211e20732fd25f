// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The rules of selection, one test each.
#include "selection/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace culet {
namespace {

constexpr double kUs = 1e-6;

Trial trial(const std::string& text, double us, double half_interval_us = 0) {
  Trial t;
  t.candidate = Candidate::parse(text).value();
  t.outcome = Outcome::measured;
  t.timing = Timing{us * kUs, (us - half_interval_us) * kUs, (us + half_interval_us) * kUs, 9};
  return t;
}

Trial vendor(const std::string& text, double us, double half_interval_us = 0) {
  Trial t = trial(text, us, half_interval_us);
  t.vendor = true;
  return t;
}

Trial fallback(const std::string& text, double us) {
  Trial t = trial(text, us);
  t.fallback = true;
  return t;
}

Trial with_estimate(Trial t, double us) {
  t.estimate = Estimate{us * kUs, Limiter::dram};
  return t;
}

Trial ranked(const std::string& text, double estimate_us) {
  Trial t;
  t.candidate = Candidate::parse(text).value();
  t.outcome = Outcome::ranked;
  t.estimate = Estimate{estimate_us * kUs, Limiter::math};
  return t;
}

TEST(Select, HalfAPercentFasterIsNotEnough) {
  const Selection s = select({vendor("cublaslt{algo=1}", 100), trial("own", 99.5)}, 0.01);
  EXPECT_EQ(s.index, 0);
  EXPECT_NE(s.why.find("cublaslt"), std::string::npos);
  EXPECT_NE(s.why.find("not faster beyond the noise"), std::string::npos) << s.why;
}

TEST(Select, FivePercentFasterWithClearIntervalsWins) {
  const Selection s = select({vendor("cublaslt", 100, 1), trial("own", 95, 1)}, 0.01);
  EXPECT_EQ(s.index, 1);
  EXPECT_NE(s.why.find("1.05x as fast as the best vendor plan, cublaslt"), std::string::npos)
      << s.why;
}

TEST(Select, OverlappingIntervalsKeepTheVendor) {
  EXPECT_EQ(select({vendor("cublaslt", 100, 3), trial("own", 95, 3)}, 0.01).index, 0);
  EXPECT_EQ(select({vendor("cublaslt", 100, 3), trial("own", 95, 1.9)}, 0.01).index, 1);
}

TEST(Select, SlowerOwnKeepsTheVendor) {
  const Selection s = select({trial("own", 120), vendor("cublaslt", 100)}, 0.01);
  EXPECT_EQ(s.index, 1);
  EXPECT_NE(s.why.find("own, takes 120 us"), std::string::npos) << s.why;
}

TEST(Select, TheBestVendorPlanCounts) {
  const std::vector<Trial> trials = {vendor("cublaslt{algo=1}", 120),
                                     vendor("cublaslt{algo=2}", 96), trial("own", 95.5)};
  EXPECT_EQ(select(trials, 0.01).index, 1);
}

TEST(Select, TiesGoToTheBetterRanked) {
  std::vector<Trial> trials = {vendor("cublaslt", 100), with_estimate(trial("b", 80.0), 70),
                               with_estimate(trial("a", 80.5), 60),
                               with_estimate(trial("c", 81.5), 50)};
  Selection s = select(trials, 0.01);
  EXPECT_EQ(s.index, 2) << "c is outside the noise";
  EXPECT_NE(s.why.find("better-ranked of those within 1 %"), std::string::npos) << s.why;
  trials[2].estimate = trials[1].estimate;
  EXPECT_EQ(select(trials, 0.01).index, 2) << "equal estimates: by text";
  trials[1].estimate.reset();
  EXPECT_EQ(select(trials, 0.01).index, 2) << "no estimate ranks last";
}

TEST(Select, VendorPlansThatTieGoToTheVendorsOrder) {
  std::vector<Trial> trials = {vendor("cublaslt{algo=1}", 100), vendor("cublaslt{algo=2}", 99.5),
                               vendor("cublaslt{algo=3}", 99.2), vendor("cublaslt{algo=4}", 101),
                               trial("own", 99.0)};
  trials[0].order = 1;
  trials[1].order = 2;
  trials[2].order = 7;
  trials[3].order = 0;
  const Selection s = select(trials, 0.01);
  EXPECT_EQ(s.index, 0) << "algo=4 comes first, but is outside the noise";
  EXPECT_NE(s.why.find("at 100 us, the vendor's first of equals is kept"), std::string::npos)
      << s.why;
  for (Trial& t : trials) t.order = -1;
  EXPECT_EQ(select(trials, 0.01).index, 0) << "no order is known: by text";
  // What a challenger has to beat is the fastest of them all the same.
  trials[4] = trial("own", 98.5);
  EXPECT_EQ(select(trials, 0.01).index, 0);
  trials[4] = trial("own", 98.0);
  EXPECT_EQ(select(trials, 0.01).index, 4);
}

TEST(Select, ATieNeverBringsBackOneTheVendorBeats) {
  // b would win the tie, but is itself within the noise of the vendor.
  const std::vector<Trial> trials = {vendor("cublaslt", 100), with_estimate(trial("a", 98.5), 90),
                                     with_estimate(trial("b", 99.3), 10)};
  EXPECT_EQ(select(trials, 0.01).index, 1);
}

TEST(Select, WithoutVendorItSaysSo) {
  const Selection s = select({trial("a", 10), trial("b", 9), fallback("reference", 5)}, 0.01);
  EXPECT_EQ(s.index, 1);
  EXPECT_NE(s.why.find("no vendor plan was measured"), std::string::npos) << s.why;
  EXPECT_NE(s.why.find("2 own candidates"), std::string::npos) << s.why;
}

TEST(Select, FallbackOnlyWhenAlone) {
  EXPECT_EQ(select({fallback("reference", 1), vendor("cublaslt", 100)}, 0.01).index, 1);
  const Selection s = select({fallback("reference", 1)}, 0.01);
  EXPECT_EQ(s.index, 0);
  EXPECT_NE(s.why.find("fallback reference"), std::string::npos);
}

TEST(Select, OnlyMeasuredTrialsCount) {
  std::vector<Trial> trials = {vendor("cublaslt", 100), trial("own", 10)};
  for (const Outcome outcome : {Outcome::ranked, Outcome::build_failed, Outcome::wrong,
                                Outcome::crashed, Outcome::timed_out}) {
    trials[1].outcome = outcome;
    const Selection s = select(trials, 0.01);
    EXPECT_EQ(s.index, 0);
    EXPECT_NE(s.why.find("no own candidate was measured"), std::string::npos) << s.why;
  }
  trials[1].outcome = Outcome::measured;
  trials[1].timing.reset();
  EXPECT_EQ(select(trials, 0.01).index, 0);
}

TEST(Select, Nothing) {
  const Selection s = select({}, 0.01);
  EXPECT_EQ(s.index, -1);
  EXPECT_EQ(s.why, "no candidate was measured");
  EXPECT_EQ(select({ranked("a", 1)}, 0.01).index, -1);
}

TEST(Select, OrderOfTheTrialsDoesNotMatter) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    std::vector<Trial> trials;
    for (int i = 0; i < 8; ++i) {
      const double us = 90 + static_cast<double>(random() % 200) / 10;
      Trial t = trial("b" + std::to_string(i) + "{x=1}", us, 0.3);
      t.vendor = i < 2;
      if (!t.vendor) t = with_estimate(t, 80 + static_cast<double>(random() % 4));
      trials.push_back(t);
    }
    const Selection first = select(trials, 0.01);
    const Candidate chosen = trials[static_cast<std::size_t>(first.index)].candidate;
    std::shuffle(trials.begin(), trials.end(), random);
    const Selection second = select(trials, 0.01);
    ASSERT_EQ(trials[static_cast<std::size_t>(second.index)].candidate, chosen);
    // The promise: never slower than the best vendor plan, beyond a tie of its own plans.
    double best_vendor = 1;
    for (const Trial& t : trials) {
      if (t.vendor) best_vendor = std::min(best_vendor, t.timing->median);
    }
    const Trial& choice = trials[static_cast<std::size_t>(second.index)];
    ASSERT_LE(choice.timing->median, best_vendor * (choice.vendor ? 1.01 : 1));
  }
}

TEST(SelectByModel, OwnBeforeVendorBeforeFallback) {
  Trial v = ranked("cublaslt{algo=1}", 0);
  v.vendor = true;
  v.estimate.reset();
  Trial v2 = v;
  v2.candidate = Candidate::parse("cublaslt{algo=0}").value();
  Trial f = ranked("reference", 1);
  f.fallback = true;
  Selection s = select_by_model({f, v, v2, ranked("b", 20), ranked("a", 10)});
  EXPECT_EQ(s.index, 4);
  EXPECT_NE(s.why.find("nothing was measured"), std::string::npos);
  EXPECT_NE(s.why.find("limited by math"), std::string::npos) << s.why;
  EXPECT_EQ(select_by_model({ranked("b", 10), ranked("a", 10)}).index, 1) << "ties by text";
  EXPECT_EQ(select_by_model({f, v, v2}).index, 1) << "the vendor's first";
  EXPECT_EQ(select_by_model({f}).index, 0);
  EXPECT_EQ(select_by_model({}).index, -1);
  Trial failed = ranked("a", 1);
  failed.outcome = Outcome::build_failed;
  EXPECT_EQ(select_by_model({failed, ranked("b", 2)}).index, 1);
}

std::vector<int> who_decide(const std::vector<Trial>& trials) {
  const auto decides = deciding(trials, 0.01);
  EXPECT_EQ(decides.size(), trials.size());
  std::vector<int> who;
  for (int i = 0; i < static_cast<int>(decides.size()); ++i)
    if (decides[static_cast<std::size_t>(i)]) who.push_back(i);
  return who;
}

using Who = std::vector<int>;

TEST(Deciding, NobodyWhereIntervalsChangeNothing) {
  EXPECT_EQ(who_decide({}), Who());
  EXPECT_EQ(who_decide({ranked("own{x=1}", 5)}), Who());
  EXPECT_EQ(who_decide({vendor("v{x=1}", 100, 1), trial("own{x=1}", 80, 1)}), Who());
  // Which of two is faster is open, but the better-ranked is taken in any case.
  EXPECT_EQ(who_decide({vendor("v{x=1}", 120, 1), with_estimate(trial("own{x=1}", 100, 0.2), 90),
                        with_estimate(trial("own{x=2}", 100.1, 0.2), 95)}),
            Who());
}

TEST(Deciding, WhoMayBeInATieOrOutOfItIfThatMatters) {
  // 2 is better-ranked, and in the tie of 1 or just not; 3 is worse-ranked, so it does not matter.
  EXPECT_EQ(who_decide({vendor("v{x=1}", 120, 0.3), with_estimate(trial("own{x=1}", 100, 0.3), 90),
                        with_estimate(trial("own{x=2}", 101.1, 0.3), 85),
                        with_estimate(trial("own{x=3}", 101.1, 0.3), 95)}),
            Who({0, 1, 2}));
}

TEST(Deciding, WhetherTheVendorIsBeaten) {
  const auto estimated = with_estimate(trial("own{x=1}", 99.2, 0.4), 90);
  EXPECT_EQ(who_decide({vendor("v{x=1}", 100, 0.1), vendor("v{x=2}", 110, 1), estimated}),
            Who({0, 2}));
  EXPECT_EQ(who_decide({vendor("v{x=1}", 98, 0.1), vendor("v{x=2}", 110, 1), estimated}), Who());
  // Neither's interval alone reaches, both together do.
  EXPECT_EQ(
      who_decide({vendor("v{x=1}", 100, 0.4), with_estimate(trial("own{x=1}", 99.7, 0.4), 90)}),
      Who({0, 1}));
}

TEST(Deciding, FailedOnesDoNot) {
  Trial failed = with_estimate(trial("own{x=2}", 101, 1), 80);
  failed.outcome = Outcome::crashed;
  failed.timing.reset();
  EXPECT_EQ(who_decide({vendor("v{x=1}", 120, 1), trial("own{x=1}", 100, 0.1), failed}), Who());
}

}  // namespace
}  // namespace culet
