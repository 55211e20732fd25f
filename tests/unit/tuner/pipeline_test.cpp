// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The honesty of the pipeline, with planted families: what is wrong is rejected, what is not
// clearly faster than the vendor is not chosen, and a repeated question costs nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <map>

#include "planted.h"

namespace culet {
namespace {

using testing::own;
using testing::Planted;
using testing::planted_registry;

Problem problem(const std::string& text = "33x47x29:f32") { return Problem::parse(text).value(); }

/// Seconds by backend name instead of measured ones.
TuneOptions simulated(std::map<std::string, double> seconds) {
  TuneOptions options;
  options.simulated_clock = [seconds](const Candidate& candidate, int) {
    const auto at = seconds.find(candidate.steps.front().backend);
    return at == seconds.end() ? 0.0 : at->second;
  };
  return options;
}

DeviceSpec cpu() { return find_device("cpu:1").value(); }

const Trial& trial_of(const TuneReport& report, const std::string& backend) {
  for (const Trial& trial : report.trials) {
    if (trial.candidate.steps.front().backend == backend) return trial;
  }
  throw std::runtime_error("no trial of " + backend);
}

Planted vendor() {
  Planted planted;
  planted.name = "vendor_lib";
  planted.vendor = true;
  return planted;
}

TEST(Pipeline, OneWrongElementIsRejected) {
  Planted wrong = own("own");
  wrong.fault = "if (x->n_end == 47) d[32 * x->ldd + 46] *= 1.01f;";
  Tuner tuner(planted_registry({vendor(), wrong}), cpu(),
              simulated({{"vendor_lib", 1e-3}, {"own", 1e-4}}));
  const auto report = tuner.tune(problem());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(trial_of(*report, "own").outcome, Outcome::wrong);
  EXPECT_NE(trial_of(*report, "own").reason.find("D[32,46]"), std::string::npos)
      << trial_of(*report, "own").reason;
  ASSERT_NE(report->choice(), nullptr);
  EXPECT_EQ(report->choice()->candidate.steps.front().backend, "vendor_lib");
}

TEST(Pipeline, AFifthOfAPerCentFasterIsNotChosen) {
  Tuner tuner(planted_registry({vendor(), own("own")}), cpu(),
              simulated({{"vendor_lib", 1e-3}, {"own", 0.998e-3}}));
  const auto report = tuner.tune(problem());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(trial_of(*report, "own").outcome, Outcome::measured);
  EXPECT_EQ(report->choice()->candidate.steps.front().backend, "vendor_lib");
}

TEST(Pipeline, FivePerCentFasterIsChosen) {
  Tuner tuner(planted_registry({vendor(), own("own")}), cpu(),
              simulated({{"vendor_lib", 1e-3}, {"own", 0.95e-3}}));
  const auto report = tuner.tune(problem());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->choice()->candidate.steps.front().backend, "own");
  ASSERT_TRUE(report->vs_default());
  EXPECT_NEAR(*report->vs_default(), 1 / 0.95, 1e-6);
}

/// Asks for an end after the first round.
class StopsInARace : public Observer {
 public:
  void progress(const Progress& progress) override {
    if (progress.phase == "time" && progress.done > 0) stop = true;
  }
  std::atomic<bool> stop = false;
};

TEST(Pipeline, AStoppedRaceSaysSo) {
  StopsInARace stops;
  TuneOptions options = simulated({{"vendor_lib", 1e-3}, {"own", 0.95e-3}});
  Tuner whole(planted_registry({vendor(), own("own")}), cpu(), options);
  const auto finished = whole.tune(problem());
  ASSERT_TRUE(finished) << finished.error().message;
  EXPECT_EQ(finished->why.find("stopped"), std::string::npos) << finished->why;
  options.stop = &stops.stop;
  Tuner tuner(planted_registry({vendor(), own("own")}), cpu(), options);
  const auto report = tuner.tune(problem(), &stops);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_LE(trial_of(*report, "own").timing->samples, 2);
  EXPECT_NE(report->why.find("; stopped while it was timed"), std::string::npos) << report->why;
}

TEST(Pipeline, AThrowingBuildFailsAloneWithItsLog) {
  Planted throwing = own("own");
  throwing.throws = "the generator is out of registers";
  Tuner tuner(planted_registry({vendor(), throwing}), cpu());
  const auto report = tuner.tune(problem());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(trial_of(*report, "own").outcome, Outcome::build_failed);
  EXPECT_NE(trial_of(*report, "own").log.find("out of registers"), std::string::npos);
  EXPECT_EQ(report->choice()->candidate.steps.front().backend, "vendor_lib");
}

TEST(Pipeline, ACompileErrorFailsAloneWithTheCompilersLog) {
  Planted broken = own("own");
  broken.syntax_error = "this is not C++;";
  Tuner tuner(planted_registry({vendor(), broken}), cpu());
  const auto report = tuner.tune(problem());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(trial_of(*report, "own").outcome, Outcome::build_failed);
  EXPECT_NE(trial_of(*report, "own").log.find("error"), std::string::npos);
  EXPECT_NE(trial_of(*report, "own").reason.find("error"), std::string::npos)
      << "the reason quotes it";
}

TEST(Pipeline, ASecondTuningCompilesAndTimesNothing) {
  auto cache = open_cache("none").value();
  Tuner first(planted_registry({vendor(), own("own")}), cpu(),
              simulated({{"vendor_lib", 1e-3}, {"own", 0.5e-3}}), cache);
  const auto cold = first.tune(problem());
  ASSERT_TRUE(cold) << cold.error().message;
  EXPECT_EQ(first.counts().compiled, 2);
  EXPECT_EQ(first.counts().timed, 2);
  EXPECT_FALSE(cold->from_cache);

  Tuner second(planted_registry({vendor(), own("own")}), cpu(),
               simulated({{"vendor_lib", 1e-3}, {"own", 0.5e-3}}), cache);
  const auto warm = second.tune(problem());
  ASSERT_TRUE(warm) << warm.error().message;
  EXPECT_EQ(second.counts().compiled, 0);
  EXPECT_EQ(second.counts().timed, 0);
  EXPECT_TRUE(warm->from_cache);
  EXPECT_EQ(warm->choice()->candidate, cold->choice()->candidate);
}

TEST(Pipeline, ANewCandidateRacesAgainstTheStoredBest) {
  auto cache = open_cache("none").value();
  const auto clock = simulated({{"vendor_lib", 1e-3}, {"own", 0.9e-3}, {"newer", 0.5e-3}});
  Tuner first(planted_registry({vendor(), own("own")}), cpu(), clock, cache);
  ASSERT_TRUE(first.tune(problem()));
  Tuner second(planted_registry({vendor(), own("own"), own("newer")}), cpu(), clock, cache);
  const auto report = second.tune(problem());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(second.counts().compiled, 1) << "code of the others comes from the store";
  EXPECT_EQ(second.counts().timed, 3);
  EXPECT_EQ(report->choice()->candidate.steps.front().backend, "newer");
}

TEST(Pipeline, TopCutsEachRankedBackendAndSaysSo) {
  Planted many = own("own");
  many.configs = 12;
  TuneOptions options = simulated({{"vendor_lib", 1e-3}, {"own", 0.5e-3}});
  options.top = 3;
  Tuner tuner(planted_registry({vendor(), many}), cpu(), options);
  const auto report = tuner.tune(problem());
  ASSERT_TRUE(report) << report.error().message;
  int measured = 0, cut = 0;
  for (const Trial& trial : report->trials) {
    if (trial.candidate.steps.front().backend != "own") continue;
    measured += trial.outcome == Outcome::measured;
    cut += trial.outcome == Outcome::ranked && !trial.reason.empty();
    if (trial.outcome == Outcome::measured) {
      EXPECT_LT(trial.candidate.steps.front().config.get_int("variant"), 3);
    }
  }
  EXPECT_EQ(measured, 3);
  EXPECT_EQ(cut, 9);
}

TEST(Pipeline, OneOfABackendThatTheModelGivesNoChance) {
  Planted fast = own("own"), slow = own("slow"), close = own("close");
  for (Planted* each : {&fast, &slow, &close}) each->configs = 6;
  slow.estimate_seconds = 2.1 * fast.estimate_seconds;
  close.estimate_seconds = 1.04 * fast.estimate_seconds;
  const auto measured = [&](const std::vector<Planted>& backends, int top) {
    TuneOptions options = simulated({{"own", 1e-3}, {"close", 1e-3}, {"slow", 1e-3}});
    options.top = top;
    Tuner tuner(planted_registry(backends), cpu(), options);
    std::map<std::string, int> count;
    const TuneReport report = tuner.tune(problem()).value();
    for (const Trial& trial : report.trials) {
      const std::string& name = trial.candidate.steps.front().backend;
      count[name] += trial.outcome == Outcome::measured;
      if (trial.outcome != Outcome::measured) {
        EXPECT_NE(trial.reason, "") << trial.candidate.text();
      }
    }
    return count;
  };
  using Count = std::map<std::string, int>;
  EXPECT_EQ(measured({slow, close, fast}, 3), (Count{{"own", 3}, {"close", 3}, {"slow", 1}}));
  EXPECT_EQ(measured({slow, close, fast}, -1), (Count{{"own", 6}, {"close", 6}, {"slow", 6}}));
  EXPECT_EQ(measured({slow}, 3), (Count{{"slow", 3}})) << "the best there is";
  close.estimate_seconds *= 1.2;
  fast.estimate_seconds /= 1e6;
  EXPECT_EQ(measured({slow, close, fast}, 3), (Count{{"own", 3}, {"close", 3}, {"slow", 3}}))
      << "one alone may be estimated wrong";
}

std::vector<std::int64_t> measured_variants(int configs, int per_tile, int top) {
  Planted many = own("own");
  many.configs = configs;
  many.per_tile = per_tile;
  TuneOptions options = simulated({{"own", 0.5e-3}});
  options.top = top;
  Tuner tuner(planted_registry({many}), cpu(), options);
  const auto report = tuner.tune(problem()).value();
  std::vector<std::int64_t> variants;
  for (const Trial& trial : report.trials) {
    if (trial.outcome == Outcome::measured) {
      variants.push_back(trial.candidate.steps.front().config.get_int("variant"));
    }
  }
  std::sort(variants.begin(), variants.end());
  return variants;
}

TEST(Pipeline, NoTileShapeTakesMoreThanHalfOfTheTrials) {
  EXPECT_EQ(measured_variants(12, 6, 4), (std::vector<std::int64_t>{0, 1, 6, 7}));
  EXPECT_EQ(measured_variants(12, 12, 4), (std::vector<std::int64_t>{0, 1, 2, 3}))
      << "no other shape";
}

TEST(Pipeline, AStoredSelectionStandsWhereTheModelNowRanksOtherwise) {
  auto cache = open_cache("none").value();
  Planted a = own("own");
  a.configs = 6;
  TuneOptions options = simulated({{"vendor_lib", 1e-3}, {"own", 0.5e-3}});
  options.top = 2;
  Tuner first(planted_registry({vendor(), a}), cpu(), options, cache);
  ASSERT_TRUE(first.tune(problem()));
  DeviceSpec faster = cpu();
  for (auto& [dtype, ops] : faster.vector_ops) ops *= 3;
  a.reversed = true;
  Tuner second(planted_registry({vendor(), a}), faster, options, cache);
  const auto again = second.tune(problem());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->from_cache);
  EXPECT_EQ(second.counts().timed, 0);
  EXPECT_EQ(again->choice()->candidate.steps.front().config.get_int("variant"), 0);
}

TEST(Pipeline, TheFallbackIsTriedOnlyAlone) {
  Planted slow = own("slow");
  slow.fallback = true;
  Tuner with_vendor(planted_registry({vendor(), slow}), cpu());
  EXPECT_EQ(trial_of(*with_vendor.tune(problem()), "slow").outcome, Outcome::ranked);
  Tuner alone(planted_registry({slow}), cpu());
  const auto report = alone.tune(problem());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->choice()->candidate.steps.front().backend, "slow");
  EXPECT_FALSE(report->vs_default());
}

TEST(Pipeline, AnyNumberOfTrialsCanBeAskedFor) {
  Planted many = own("own");
  many.configs = 4;
  many.per_tile = 2;
  Planted slow = own("slow");
  slow.fallback = true;
  TuneOptions options = simulated({{"own", 0.5e-3}});
  options.top = std::numeric_limits<int>::max();
  Tuner tuner(planted_registry({many, slow}), cpu(), options);
  const auto report = tuner.tune(problem());
  ASSERT_TRUE(report) << report.error().message;
  for (const Trial& trial : report->trials) {
    const bool fallback = trial.candidate.steps.front().backend == "slow";
    EXPECT_EQ(trial.outcome, fallback ? Outcome::ranked : Outcome::measured)
        << trial.candidate.text() << ": " << trial.reason;
  }
}

TEST(Pipeline, TheFallbackIsTriedWhereNothingElseWorks) {
  Planted slow = own("slow");
  slow.fallback = true;
  Planted broken = own("broken");
  broken.syntax_error = "this is not C++";
  Planted wrong = own("wrong");
  wrong.fault = "if (x->n_end == 47) d[32 * x->ldd + 46] *= 1.01f;";
  for (const std::vector<Planted>& others : {std::vector{broken}, {wrong}, {broken, wrong}}) {
    std::vector<Planted> all = others;
    all.push_back(slow);
    Tuner tuner(planted_registry(all), cpu());
    const auto report = tuner.tune(problem());
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_NE(report->choice(), nullptr) << report->why;
    EXPECT_EQ(report->choice()->candidate.steps.front().backend, "slow");
    for (const Planted& other : others)
      EXPECT_NE(trial_of(*report, other.name).outcome, Outcome::measured);
  }
}

TEST(Pipeline, NoCandidateListsEveryReason) {
  Planted picky = own("picky");
  picky.refuses = "only on Tuesdays";
  Tuner tuner(planted_registry({picky, vendor()}), cpu());
  const auto report = tuner.tune(problem("8x8x8:bf16"));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::no_candidate);
  EXPECT_NE(report.error().detail.find("picky: only on Tuesdays"), std::string::npos);
  EXPECT_NE(report.error().detail.find("vendor_lib: f32 only"), std::string::npos);
}

TEST(Pipeline, ABackendWithoutAConfigurationIsAReason) {
  Planted none = own("none");
  none.configs = 0;
  Tuner tuner(planted_registry({none}), cpu());
  const auto report = tuner.tune(problem());
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().detail.find("none: it has no configuration"), std::string::npos)
      << report.error().detail;
}

TEST(Pipeline, StoppedBeforeAnythingWasTimedNothingIsChosen) {
  std::atomic<bool> stop{true};
  TuneOptions options;
  options.stop = &stop;
  Tuner tuner(planted_registry({vendor(), own("own")}), cpu(), options);
  const auto report = tuner.tune(problem());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->choice(), nullptr);
  EXPECT_NE(report->why.find("stopped"), std::string::npos) << report->why;
}

TEST(Pipeline, EmptyProblemsLaunchNothing) {
  Tuner tuner(planted_registry({vendor()}), cpu());
  for (const char* text : {"0x8x8:f32", "8x0x8:f32"}) {
    const auto report = tuner.tune(problem(text));
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->choice(), nullptr);
    EXPECT_TRUE(report->trials.empty());
  }
  EXPECT_EQ(tuner.counts().timed, 0);
}

TEST(Pipeline, TheChosenPlanComputesTheProduct) {
  Tuner tuner(planted_registry({vendor(), own("own")}), cpu());
  const auto plan = tuner.plan(problem("3x2x4:f32:layout=tt"));
  ASSERT_TRUE(plan) << plan.error().message;
  const float a[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const float b[8] = {1, 0, 0, 1, 1, 0, 0, 1};
  float d[6] = {};
  Arguments arguments;
  arguments.a = a;
  arguments.b = b;
  arguments.d = d;
  std::vector<char> workspace(static_cast<std::size_t>(plan->workspace().bytes) + 1);
  arguments.workspace = workspace.data();
  const auto ok = plan->run(arguments);
  ASSERT_TRUE(ok) << ok.error().message;
  const float expected[6] = {4, 6, 12, 14, 20, 22};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(d[i], expected[i]) << i;
}

TEST(Pipeline, APlanOfAMisspelledCandidateIsRefused) {
  Tuner tuner(Registry::standard(), cpu());
  EXPECT_TRUE(tuner.plan(problem(), Candidate::parse("reference{sum=f64}").value()));
  const auto plan = tuner.plan(problem(), Candidate::parse("reference{sun=f64}").value());
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(plan.error().message, "reference: sun=f64: it has no such key here, only sum");
  const auto bench = tuner.bench(problem(), {Candidate::parse("reference{sum=f9}").value()});
  ASSERT_FALSE(bench);
  EXPECT_NE(bench.error().message.find("reference has no sum=f9 here, only f64; `culet rank"),
            std::string::npos)
      << bench.error().message;
}

TEST(Pipeline, RankingNeedsNoDevice) {
  DeviceSpec elsewhere = cpu();
  elsewhere.present = false;
  Tuner tuner(planted_registry({vendor(), own("own")}), elsewhere);
  const auto report = tuner.rank(problem());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(tuner.counts().compiled, 0);
  EXPECT_TRUE(trial_of(*report, "own").estimate);
  const auto tuned = tuner.tune(problem());
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::device);
}

}  // namespace
}  // namespace culet
