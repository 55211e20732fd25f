// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The runner on the CPU, end to end, against kernels with planted faults.
#include "benchmark/operands.h"
#include "planted.h"

namespace culet {
namespace {

constexpr const char* kProblem = "37x45x70:f32:lda=75:ldb=72:ldd=50";

Verification verdict_of(const std::string& entry, const std::string& problem = kProblem,
                        bool full = true) {
  const Planted planted(entry);
  EXPECT_TRUE(planted.ok) << planted.reason;
  if (!planted.ok) return {};
  auto runner = runner_for(problem);
  return runner == nullptr ? Verification{} : runner->verify(planted.candidate, full);
}

void expect_wrong(const Verification& verdict, const std::string& says) {
  EXPECT_EQ(verdict.outcome, Outcome::wrong);
  EXPECT_NE(verdict.reason.find(says), std::string::npos) << verdict.reason;
}

TEST(CpuRunner, CorrectPasses) {
  for (const std::string problem :
       {kProblem, "1x1x1:f32", "5x3x0:f32", "64x64x64x3:f32", "16x300x130:f32:aligna=4:alignd=4"}) {
    const Verification verdict = verdict_of("correct", problem);
    EXPECT_EQ(verdict.outcome, Outcome::measured) << problem << ": " << verdict.reason;
    EXPECT_LE(verdict.error, 1);
  }
}

TEST(CpuRunner, OneWrongElementAnywhere) {
  const Verification verdict = verdict_of("one_element");
  expect_wrong(verdict, "D[18,15] of batch 0 is ");
  expect_wrong(verdict, "should be ");
  EXPECT_GT(verdict.error, 1);
}

TEST(CpuRunner, OneProductMissingInTheCornerOfALargeOutput) {
  // Too large to check in full: the corner is among the samples.
  const std::string problem = "500x600x900:f32";
  expect_wrong(verdict_of("short_k_in_corner", problem, false), "D[499,599]");
  EXPECT_EQ(verdict_of("correct", problem, false).outcome, Outcome::measured);
}

TEST(CpuRunner, NaN) { expect_wrong(verdict_of("nan_element"), "D[1,2] of batch 0 is NaN"); }

TEST(CpuRunner, Unwritten) {
  expect_wrong(verdict_of("unwritten"), "D[3,4] of batch 0 was not written");
}

TEST(CpuRunner, WritesOutsideD) {
  expect_wrong(verdict_of("writes_padding"), "memory beside D was overwritten");
  expect_wrong(verdict_of("writes_before"), "before D's first element");
  expect_wrong(verdict_of("writes_behind"), "after D's first element");
}

TEST(CpuRunner, ReadsOutsideItsOperands) {
  expect_wrong(verdict_of("reads_padding"), "D[36,0] of batch 0 is NaN");
  expect_wrong(verdict_of("reads_neighbour"), "D[36,0] of batch 0 is NaN");
}

TEST(CpuRunner, DifferentFromRunToRun) {
  EXPECT_EQ(verdict_of("flaky").outcome, Outcome::measured);
  expect_wrong(verdict_of("flaky", std::string(kProblem) + ":order=deterministic"),
               "differs from run to run");
}

TEST(CpuRunner, RelyingOnMoreThanTheGuaranteedAlignment) {
  expect_wrong(verdict_of("assumes_alignment"), "D[0,0]");
  EXPECT_EQ(verdict_of("assumes_alignment", "8x8x8:f32:aligna=64").outcome, Outcome::measured);
}

TEST(CpuRunner, TheWholeRangeOfM) {
  const Planted fixed("ignores_m", 16);
  ASSERT_TRUE(fixed.ok) << fixed.reason;
  EXPECT_EQ(runner_for("16x20x30:f32")->verify(fixed.candidate, true).outcome, Outcome::measured);
  const Verification ranged = runner_for("16x20x30:f32:m=1..40")->verify(fixed.candidate, true);
  expect_wrong(ranged, "m=");
}

TEST(CpuRunner, MissingEntryIsABuildFailure) {
  EXPECT_EQ(verdict_of("no_such_entry").outcome, Outcome::build_failed);
}

TEST(CpuRunner, TooSlowIsTimedOut) {
  const Planted planted("slow");
  ASSERT_TRUE(planted.ok) << planted.reason;
  RunnerOptions options;
  options.policy.trial_seconds = 0.001;  // some CPUs take 7 ms for it
  const Verification verdict = runner_for(kProblem, options)->verify(planted.candidate, true);
  EXPECT_EQ(verdict.outcome, Outcome::timed_out) << verdict.reason;
}

TEST(CpuRunner, TooLittleMemoryIsSaid) {
  RunnerOptions options;
  options.max_memory_bytes = 1e6;
  auto runner = make_trial_runner(*Problem::parse("2048x2048x2048:f32"), test_cpu(), options);
  ASSERT_FALSE(runner);
  EXPECT_EQ(runner.error().code, ErrorCode::unsupported);
  EXPECT_NE(runner.error().message.find("GB"), std::string::npos) << runner.error().message;
}

TEST(CpuRunner, OperandsBeyondAllMemoryAreSaid) {
  // D and each of the three are 2^61 bytes: sums of them do not fit into 64 bits.
  const auto problem =
      Problem::parse("536870912x536870912x0:f64:epi=\"acc + a[m,n] + b[m,n] + c[m,n]\"");
  ASSERT_TRUE(problem) << problem.error().message;
  auto runner = make_trial_runner(*problem, test_cpu(), {});
  ASSERT_FALSE(runner);
  EXPECT_EQ(runner.error().code, ErrorCode::unsupported);
  EXPECT_NE(runner.error().message.find("2^61 bytes"), std::string::npos) << runner.error().message;
}

TEST(CpuRunner, AnEmptyOperandMayHaveAnyLeadingDimension) {
  // Rows of nothing, 2^58 apart: where the last of 2^31 would be is not asked (UBSan would tell).
  const auto problem = Problem::parse("8x8x0:f32:lda=288230376151711744:m=1..2147483647");
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_TRUE(benchmark::check_cases(*problem, 1));
}

TEST(CpuRunner, DescriptionsOfDevicesCannotBeTimed) {
  DeviceSpec absent = test_cpu();
  absent.present = false;
  EXPECT_FALSE(make_trial_runner(*Problem::parse("8x8x8:f32"), absent, {}));
}

TEST(CpuRunner, RacesForReal) {
  const Planted quick("correct"), slow("slow");
  ASSERT_TRUE(quick.ok) << quick.reason;
  RunnerOptions options;
  options.policy.target_seconds = 0.002;
  int rounds = 0;
  const auto results =
      runner_for(kProblem, options)
          ->race({&slow.candidate, &quick.candidate}, {true, true}, [&](int, int) { ++rounds; });
  ASSERT_EQ(results.size(), 2u);
  for (const RaceResult& result : results)
    EXPECT_EQ(result.outcome, Outcome::measured) << result.reason;
  EXPECT_LT(results[1].timing.median * 2, results[0].timing.median);
  EXPECT_GT(results[1].timing.median, 1e-7);
  EXPECT_LE(results[1].timing.low, results[1].timing.median);
  EXPECT_GE(results[1].timing.high, results[1].timing.median);
  EXPECT_EQ(results[0].timing.samples, 2);  // hopelessly behind
  EXPECT_GE(results[1].timing.samples, 5);
  EXPECT_GE(rounds, 5);
}

TEST(CpuRunner, SimulatedClockDecides) {
  const Planted first("correct"), second("slow");
  ASSERT_TRUE(first.ok) << first.reason;
  RunnerOptions options;
  options.simulated_clock = [](const Candidate& candidate, int) {
    return candidate.steps.front().config.get("entry") == "correct" ? 1.0 : 0.95;
  };
  const auto results = runner_for(kProblem, options)
                           ->race({&first.candidate, &second.candidate}, {false, true}, nullptr);
  EXPECT_EQ(results[0].timing.median, 1.0);
  EXPECT_EQ(results[1].timing.median, 0.95);
}

TEST(CpuRunner, EmptyProblemsTakeNoTime) {
  const Planted planted("correct");
  ASSERT_TRUE(planted.ok) << planted.reason;
  auto runner = runner_for("0x8x8:f32");
  ASSERT_NE(runner, nullptr);
  EXPECT_EQ(runner->verify(planted.candidate, true).outcome, Outcome::measured);
  const auto results = runner->race({&planted.candidate}, {true}, nullptr);
  EXPECT_EQ(results[0].outcome, Outcome::measured);
}

}  // namespace
}  // namespace culet
