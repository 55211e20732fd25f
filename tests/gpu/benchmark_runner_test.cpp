// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The trial runner on a GPU: planted faults, the reference against the host's, timing.
#include <cmath>
#include <cstdio>

#include "benchmark/cuda_kernels.h"
#include "benchmark/reference.h"
#include "benchmark_planted.h"

namespace culet {
namespace {

using test::gpu;
using test::planted;
using test::take;

#define CULET_NEEDS_COMPILER()                                                        \
  CULET_NEEDS_GPU();                                                                  \
  const auto context = take(cuda::Context::enter(gpu()->ordinal));                    \
  if (const auto found = Compiler::toolchain(SourceLanguage::cuda, *gpu()); !found) { \
    GTEST_SKIP() << found.error().message;                                            \
  }

constexpr const char* kProblem = "77x90x70:f32:lda=75:ldb=72:ldd=96";

std::unique_ptr<TrialRunner> runner_for(const std::string& text, RunnerOptions options = {}) {
  if (options.max_memory_bytes == 0) options.max_memory_bytes = 8e9;
  return take(make_trial_runner(take(Problem::parse(text)), *gpu(), options));
}

Verification verdict_of(const std::string& entry, const std::string& text = kProblem,
                        bool full = true) {
  return runner_for(text)->verify(planted(entry, take(Problem::parse(text))), full);
}

void expect_wrong(const Verification& verdict, const std::string& says) {
  EXPECT_EQ(verdict.outcome, Outcome::wrong) << "looked for: " << says;
  EXPECT_NE(verdict.reason.find(says), std::string::npos) << verdict.reason;
}

TEST(CudaRunner, CorrectPasses) {
  CULET_NEEDS_COMPILER();
  for (const std::string text : {kProblem, "1x1x1:f32", "5x3x0:f32", "16x300x131:f32:aligna=4",
                                 "300x200x64:f32", "20x30x40:f32:m=1..50"}) {
    const Verification verdict = verdict_of("correct", text);
    EXPECT_EQ(verdict.outcome, Outcome::measured) << text << ": " << verdict.reason;
    EXPECT_LE(verdict.error, 1);
  }
}

TEST(CudaRunner, FindsPlantedFaults) {
  CULET_NEEDS_COMPILER();
  expect_wrong(verdict_of("one_element"), "D[38,30] of batch 0 is ");
  expect_wrong(verdict_of("short_k_in_corner"), "D[76,89] of batch 0 is ");
  expect_wrong(verdict_of("nan_element"), "D[38,30] of batch 0 is NaN");
  expect_wrong(verdict_of("unwritten"), "D[38,30] of batch 0 was not written");
  expect_wrong(verdict_of("writes_padding"), "memory beside D was overwritten");
  expect_wrong(verdict_of("writes_before"), "before D's first element");
  expect_wrong(verdict_of("reads_padding"), "is NaN");
  expect_wrong(verdict_of("reads_scratch"), "is NaN");
  expect_wrong(verdict_of("soils_prefix"), "was not left zero");
  expect_wrong(verdict_of("beyond_scratch"), "beyond its 256 bytes of workspace");
  expect_wrong(verdict_of("assumes_alignment"), "should be");
  expect_wrong(verdict_of("flaky", std::string(kProblem) + ":order=deterministic"),
               "differs from run to run");
  EXPECT_EQ(verdict_of("no_such_entry").outcome, Outcome::build_failed);
}

TEST(CudaRunner, OneProductMissingInALargeOutput) {
  CULET_NEEDS_COMPILER();
  const std::string text = "4096x4096x2048:f32";
  expect_wrong(verdict_of("short_k_in_corner", text, false), "D[4095,4095]");
  expect_wrong(verdict_of("one_element", text, true), "D[2048,1365]");
}

// Both references against each other, over formats and layouts.
TEST(CudaRunner, ReferenceAgreesWithTheHosts) {
  CULET_NEEDS_COMPILER();
  using namespace benchmark;  // NOLINT
  for (const std::string text :
       {"70x90x100:f32", "70x90x100:bf16:layout=nt", "70x90x100:f16:layout=tt:lda=112",
        "33x65x300x3:bf16:layout=nn", "20x30x128:e4m3", "20x30x128:e5m2", "20x30x128:s8",
        "20x30x40x3:f32:strideb=0", "20x30x50:tf32", "20x30x50:f64"}) {
    auto parsed = Problem::parse(text);
    if (!parsed) {
      ADD_FAILURE() << text << ": " << parsed.error().message;
      continue;
    }
    const SetLayout layout = take(make_set_layout(*parsed, true));
    const SetSeed seed{3, 1};
    auto kernels = take(CheckKernels::load(*parsed, *gpu()));
    auto reference = take(kernels->reference(layout, seed, 1000, nullptr));
    ASSERT_TRUE(reference->complete);
    std::vector<double> sums(static_cast<std::size_t>(reference->sums.bytes()) / 8);
    ASSERT_TRUE(reference->sums.download(sums.data(), reference->sums.bytes()));
    Problem plain = *parsed;
    plain.d = DType::f64;  // the sum itself
    plain.epilogue = Epilogue();
    SetLayout bare = layout;
    bare.problem = plain;
    const HostReference host(bare, seed, {}, DeviceKind::cuda);
    for (std::size_t t = 0; t < reference->tiles.size(); ++t) {
      const verify::Tile tile = reference->tiles[t];
      for (std::int64_t i = 0; i < 64 && tile.m + i < parsed->m; i += 7) {
        for (std::int64_t j = 0; j < 64 && tile.n + j < parsed->n; j += 5) {
          const double want = host.wanted(tile.batch, tile.m + i, tile.n + j).value;
          EXPECT_NEAR(sums[t * 4096 + static_cast<std::size_t>(i * 64 + j)], want, 1e-9) << text;
        }
      }
    }
    // What the kernel fills in is what the host generates.
    auto block = take(cuda::DeviceBuffer::allocate(layout.block_bytes));
    ASSERT_TRUE(kernels->fill(layout, seed, block.data(), nullptr));
    std::vector<char> device(static_cast<std::size_t>(layout.block_bytes)), ours = device;
    ASSERT_TRUE(block.download(device.data(), layout.block_bytes));
    fill_set(layout, seed, ours.data());
    EXPECT_TRUE(device == ours) << text;
  }
}

TEST(CudaRunner, TimesForReal) {
  CULET_NEEDS_COMPILER();
  const std::string text = "256x1024x512:f32";
  const Problem p = take(Problem::parse(text));
  const BuiltCandidate once = planted("correct", p), twice = planted("twice", p);
  RunnerOptions options;
  options.policy.drop_ratio = 10;
  options.policy.min_rounds = 15;
  auto runner = runner_for(text, options);
  // Where others use the device as well, one attempt that they leave alone is enough.
  bool as_expected = false;
  for (int attempt = 0; attempt < 5 && !as_expected; ++attempt) {
    const auto results = runner->race({&twice, &once, &once}, {true, true, true}, nullptr);
    for (const RaceResult& result : results) {
      ASSERT_EQ(result.outcome, Outcome::measured) << result.reason;
      std::printf("  %.3f us [%.3f, %.3f] over %d rounds\n", result.timing.median * 1e6,
                  result.timing.low * 1e6, result.timing.high * 1e6, result.timing.samples);
    }
    std::printf("  notes: '%s'\n", runner->notes().c_str());
    const double one = results[1].timing.median;
    as_expected = std::abs(results[0].timing.median / one - 2) < 0.5 &&
                  std::abs(results[2].timing.median / one - 1) < 0.02;
  }
  EXPECT_TRUE(as_expected) << "one run takes half as long as two, and as long as itself";
}

TEST(CudaRunner, SimulatedClockDecides) {
  CULET_NEEDS_COMPILER();
  const Problem p = take(Problem::parse(kProblem));
  const BuiltCandidate first = planted("correct", p), second = planted("twice", p);
  RunnerOptions options;
  options.simulated_clock = [](const Candidate& candidate, int) {
    return candidate.steps.front().config.get("entry") == "correct" ? 1.0 : 0.95;
  };
  const auto results =
      runner_for(kProblem, options)->race({&first, &second}, {false, true}, nullptr);
  EXPECT_EQ(results[0].timing.median, 1.0);
  EXPECT_EQ(results[1].timing.median, 0.95);
}

// An illegal access destroys the context: in a process of its own, so that other tests keep theirs.
TEST(CudaRunnerDeathTest, StickyErrorsAreSaid) {
  CULET_NEEDS_GPU();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Problem p = *Problem::parse(kProblem);
        auto runner = runner_for(kProblem);
        const Verification crash = runner->verify(planted("illegal_address", p), true);
        const Verification after = runner->verify(planted("correct", p), true);
        std::fprintf(stderr, "first: %s; then: %s\n", crash.reason.c_str(), after.reason.c_str());
        std::_Exit(crash.outcome == Outcome::crashed && after.outcome == Outcome::crashed ? 0 : 1);
      },
      testing::ExitedWithCode(0), "then: .*earlier candidate");
}

}  // namespace
}  // namespace culet
