// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Which plan serves which m of a table.
#include "tuner/plan_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <set>

#include "planted.h"

namespace culet {
namespace {

using testing::own;
using testing::Planted;
using testing::planted_registry;

constexpr double kNever = std::numeric_limits<double>::infinity();

std::vector<std::int64_t> ends(const std::vector<MRange>& ranges) {
  std::vector<std::int64_t> all;
  for (const MRange& range : ranges) all.insert(all.end(), {range.low, range.high});
  return all;
}

TEST(TableHalves, MeetInTheMiddle) {
  using Ends = std::vector<std::int64_t>;
  EXPECT_EQ(ends(halves({7, 7})), Ends({7, 7}));
  EXPECT_EQ(ends(halves({7, 8})), Ends({7, 7, 8, 8}));
  EXPECT_EQ(ends(halves({2049, 3072})), Ends({2049, 2560, 2561, 3072}));
}

int index_of(const std::vector<std::vector<double>>& seconds, int preferred) {
  return least_behind(seconds, preferred, 0.01).index;
}

TEST(LeastBehind, WeighsBothEnds) {
  EXPECT_EQ(index_of({{1.0, 3.0}, {2.0, 2.0}, {1.2, 2.2}}, 0), 2);
  EXPECT_EQ(index_of({{1.0, 3.0}, {2.0, 1.0}}, 0), 1) << "2 behind 3";
  EXPECT_EQ(index_of({{1.49, 1.36}, {1.51, 1.0}, {1.0, 1.7}}, 0), 1) << "not the least worst";
  EXPECT_DOUBLE_EQ(least_behind({{1.49, 1.36}, {1.51, 1.0}, {1.0, 1.7}}, 0, 0.01).behind, 1.51);
}

TEST(LeastBehind, KeepsThePreferredInATie) {
  EXPECT_EQ(index_of({{1.0, 1.0}, {1.009, 1.0}}, 1), 1);
  EXPECT_EQ(index_of({{1.0, 1.0}, {1.021, 1.0}}, 1), 0);
}

TEST(LeastBehind, WhatCannotRunEverywhereIsLast) {
  EXPECT_EQ(index_of({{kNever, 1.0}, {5.0, 4.0}}, 0), 1);
  EXPECT_EQ(index_of({{kNever, 1.0}, {1.0, kNever}}, 1), 1) << "none can: the preferred";
  EXPECT_EQ(index_of({{kNever, 1.0}, {kNever, 2.0}}, 1), 0) << "a probe nobody has";
}

/// Takes a millisecond longer where `condition` holds of m.
Planted slow_where(const std::string& name, const std::string& condition) {
  return own(name,
             "if (" + condition + ") for (volatile long i = 0; i < 1000000; i = i + 1) (void)i;");
}

class Counting : public Observer {
 public:
  void started(const Problem& p) override { tuned.push_back(p.m_range.high); }
  std::vector<std::int64_t> tuned;
};

/// {high end, backend} of every interval.
std::vector<std::pair<std::int64_t, std::string>> served_by(const PlanTable& table) {
  std::vector<std::pair<std::int64_t, std::string>> all;
  for (const auto& interval : table.intervals()) {
    EXPECT_EQ(interval.plan.problem().m_range, interval.range) << "made for what it serves";
    all.emplace_back(interval.range.high, interval.plan.candidate().steps.front().backend);
  }
  return all;
}

TEST(PlanTable, APieceIsServedByWhatIsFastInEachHalf) {
  TuneOptions options;
  options.policy.target_seconds = 1e-4;
  const auto registry = [] {
    return planted_registry({slow_where("low", "x->m > 20"), slow_where("high", "x->m <= 20")});
  };
  const auto cache = open_cache("none").value();
  Tuner tuner(registry(), find_device("cpu:1").value(), options, cache);
  const Problem problem = Problem::parse("24x8x8:f32:m=9..24").value();
  Counting counting;
  const auto table = tuner.plan_table(problem, &counting);
  ASSERT_TRUE(table) << table.error().message << table.error().detail;
  EXPECT_EQ(counting.tuned, (std::vector<std::int64_t>{12, 16, 24})) << "at these m alone";
  using Served = std::vector<std::pair<std::int64_t, std::string>>;
  const Served expected = {{10, "low"}, {12, "low"}, {14, "low"},
                           {16, "low"}, {20, "low"}, {24, "high"}};
  EXPECT_EQ(served_by(*table), expected);

  Tuner again(registry(), find_device("cpu:1").value(), options, cache);
  const auto same = again.plan_table(problem);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(again.counts().timed, 0) << "races are stored as well";
  EXPECT_EQ(served_by(*same), expected);
}

TEST(PlanTable, AHalfIsCutWhereNoPlanIsFastAtBothEnds) {
  TuneOptions options;
  options.policy.target_seconds = 1e-4;
  Tuner tuner(planted_registry({slow_where("low", "x->m > 18"), slow_where("high", "x->m <= 18")}),
              find_device("cpu:1").value(), options);
  const auto table = tuner.plan_table(Problem::parse("24x8x8:f32:m=17..24").value());
  ASSERT_TRUE(table) << table.error().message << table.error().detail;
  using Served = std::vector<std::pair<std::int64_t, std::string>>;
  EXPECT_EQ(served_by(*table), (Served{{18, "low"}, {20, "high"}, {24, "high"}}));
}

/// Wrong at m = 20 alone, where no piece ends.
Planted wrong_at_20(const std::string& name) { return own(name, "if (x->m == 20) d[0] += 1;"); }

TEST(PlanTable, WhatIsWrongAtAnEndOfAPartDoesNotServeIt) {
  TuneOptions options;
  options.policy.target_seconds = 1e-4;
  Tuner tuner(planted_registry({wrong_at_20("wrong"), slow_where("slow", "x->m > 0")}),
              find_device("cpu:1").value(), options);
  const auto table = tuner.plan_table(Problem::parse("24x8x8:f32:m=17..24").value());
  ASSERT_TRUE(table) << table.error().message << table.error().detail;
  for (const auto& [high, backend] : served_by(*table)) {
    EXPECT_EQ(backend, high == 20 ? "slow" : "wrong") << high;
  }
}

TEST(PlanTable, AnMThatNothingComputesIsAnError) {
  TuneOptions options;
  options.policy.target_seconds = 1e-4;
  const Problem problem = Problem::parse("24x8x8:f32:m=17..24").value();
  for (const auto& registry : {planted_registry({wrong_at_20("a")}),
                               planted_registry({wrong_at_20("a"), wrong_at_20("b")})}) {
    Tuner tuner(registry, find_device("cpu:1").value(), options);
    const auto table = tuner.plan_table(problem);
    ASSERT_FALSE(table);
    EXPECT_EQ(table.error().code, ErrorCode::no_candidate);
    const std::string& message = table.error().message;
    EXPECT_EQ(message.rfind("m=20: ", 0), 0u) << message;
    EXPECT_NE(message.find("{variant=0} is wrong: D[0,0]"), std::string::npos) << message;
  }
}

/// Who is timed at an m.
class TimedAt : public Observer {
 public:
  explicit TimedAt(std::int64_t m) : m_(m) {}
  void trial(const Problem& p, const Trial& trial) override {
    if (p.m == m_) candidates.insert(trial.candidate.text());
  }
  std::set<std::string> candidates;

 private:
  std::int64_t m_;
};

TEST(PlanTable, TheModelLeavesOutWhatIsFarBehindInItsOwnBackend) {
  TuneOptions options;
  options.isolation = Isolation::none;
  // In its backend variant 1 is estimated at twice variant 0, and `boasts` at nothing.
  Planted two = own("two"), boasts = own("boasts");
  two.configs = 2;
  boasts.estimate_seconds = 1e-6;
  options.simulated_clock = [](const Candidate& candidate, int) {
    return candidate.steps.front().backend == "two" ? 1e-3 : 2e-3;
  };
  Tuner tuner(planted_registry({two, boasts}), find_device("cpu:1").value(), options);
  TimedAt timed(20);
  const auto table = tuner.plan_table(Problem::parse("24x8x8:f32:m=17..24").value(), &timed);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(timed.candidates, (std::set<std::string>{"two{variant=0}", "boasts{variant=0}"}));
  for (const auto& [high, backend] : served_by(*table)) EXPECT_EQ(backend, "two") << high;
}

/// Asks for an end when something is timed at m.
class StopsAt : public Observer {
 public:
  explicit StopsAt(std::int64_t m) : m_(m) {}
  void trial(const Problem& p, const Trial&) override {
    if (p.m == m_) stop = true;
  }
  std::atomic<bool> stop = false;

 private:
  std::int64_t m_;
};

TEST(PlanTable, IsNotMadeOfHalfARace) {
  StopsAt stops(17);  // where nothing is tuned, only raced
  TuneOptions options;
  options.policy.target_seconds = 1e-4;
  options.stop = &stops.stop;
  Tuner tuner(planted_registry({own("a"), own("b")}), find_device("cpu:1").value(), options);
  const auto table = tuner.plan_table(Problem::parse("24x8x8:f32:m=17..24").value(), &stops);
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code, ErrorCode::interrupted) << table.error().message;
}

TEST(PlanTable, NoRowsAreServedWhereTheyAreInTheRange) {
  TuneOptions options;
  options.policy.target_seconds = 1e-4;
  Tuner tuner(planted_registry({own("only")}), find_device("cpu:1").value(), options);
  const auto table = tuner.plan_table(Problem::parse("3x8x8:f32:m=0..3").value());
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->intervals().front().range.low, 0);
  std::vector<float> a(24, 1), b(64, 1), d(24, -1);
  Arguments arguments;
  arguments.a = a.data();
  arguments.b = b.data();
  arguments.d = d.data();
  for (const std::int64_t m : {0, 2}) {
    arguments.m = m;
    const auto ran = table->run(arguments);
    ASSERT_TRUE(ran) << ran.error().message;
    for (std::int64_t i = 0; i < 24; ++i)
      EXPECT_EQ(d[static_cast<std::size_t>(i)], i < 8 * m ? 8 : -1) << m;
  }
}

TEST(PlanTable, APinnedPieceIsServedByItsPin) {
  TuneOptions options;
  options.policy.target_seconds = 1e-4;
  const Problem problem = Problem::parse("24x8x8:f32:m=17..24").value();
  const Candidate slow = Candidate::parse("slow{variant=0}").value();
  options.overrides.pin(problem, DeviceKind::cpu, slow);
  Tuner tuner(planted_registry({own("fast"), slow_where("slow", "x->m > 0")}),
              find_device("cpu:1").value(), options);
  const auto table = tuner.plan_table(problem);
  ASSERT_TRUE(table) << table.error().message;
  ASSERT_EQ(table->intervals().size(), 1u);
  EXPECT_EQ(table->intervals()[0].plan.candidate(), slow);
}

TEST(PlanTable, APieceWhosePinCannotBeUsedIsRaced) {
  TuneOptions options;
  options.policy.target_seconds = 1e-4;
  const Problem problem = Problem::parse("24x8x8:f32:m=17..24").value();
  Planted broken = own("broken");
  broken.throws = "it is out of registers";
  options.overrides.pin(problem, DeviceKind::cpu, Candidate::parse("broken{variant=0}").value());
  Tuner tuner(
      planted_registry({broken, slow_where("low", "x->m > 20"), slow_where("high", "x->m <= 20")}),
      find_device("cpu:1").value(), options);
  const auto table = tuner.plan_table(problem);
  ASSERT_TRUE(table) << table.error().message;
  ASSERT_EQ(table->intervals().size(), 2u);
  EXPECT_EQ(table->intervals()[0].plan.candidate().steps.front().backend, "low");
  EXPECT_EQ(table->intervals()[1].plan.candidate().steps.front().backend, "high");
}

}  // namespace
}  // namespace culet
