// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Kernels that lose the CUDA context or never end: each costs itself only, and this process and its
// own context live on.
#include "benchmark/isolation.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "benchmark_planted.h"
#include "culet/culet.h"

namespace culet {
namespace {

using test::gpu;
using test::planted;
using test::take;

#define CULET_NEEDS_COMPILER()                                                        \
  CULET_NEEDS_GPU();                                                                  \
  if (const auto found = Compiler::toolchain(SourceLanguage::cuda, *gpu()); !found) { \
    GTEST_SKIP() << found.error().message;                                            \
  }

constexpr const char* kProblem = "77x90x70:f32:lda=75:ldb=72:ldd=96";

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

RunnerOptions quick(double trial_seconds) {
  RunnerOptions options;
  options.max_memory_bytes = 4e9;
  options.policy.trial_seconds = trial_seconds;
  return options;
}

void expect(const Verification& verdict, Outcome outcome, const std::string& says) {
  EXPECT_EQ(to_string(verdict.outcome), to_string(outcome)) << verdict.reason;
  EXPECT_NE(verdict.reason.find(says), std::string::npos) << verdict.reason;
}

TEST(Isolation, EveryFaultCostsItsCandidateOnly) {
  CULET_NEEDS_COMPILER();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  auto buffer = take(cuda::DeviceBuffer::allocate(4096));
  ASSERT_TRUE(buffer.fill(0x5a));
  const Problem p = take(Problem::parse(kProblem));
  WorkerHost host;
  auto begin = Clock::now();
  auto runner = take(host.make_runner(p, *gpu(), quick(2)));
  std::printf("  worker, context and operands: %.2f s\n", seconds_since(begin));
  EXPECT_EQ(host.take_note(), "");
  const BuiltCandidate correct = planted("correct", p);
  const auto verdict = [&](const std::string& entry) {
    const auto start = Clock::now();
    const Verification found = runner->verify(planted(entry, p), true);
    const double took = seconds_since(start);
    const auto again = Clock::now();
    const Verification after = runner->verify(correct, true);
    EXPECT_EQ(after.outcome, Outcome::measured) << "after " << entry << ": " << after.reason;
    std::printf("  %-16s %-10s in %.2f s, the next one in %.2f s: %s\n", entry.c_str(),
                std::string(to_string(found.outcome)).c_str(), took, seconds_since(again),
                found.reason.c_str());
    return found;
  };
  expect(verdict("illegal_address"), Outcome::crashed, "");
  expect(verdict("spins"), Outcome::timed_out, "a run did not end in 2");
  expect(verdict("one_element"), Outcome::wrong, "D[38,30] of batch 0 is ");
  expect(verdict("nan_element"), Outcome::wrong, "NaN");
  expect(verdict("writes_padding"), Outcome::wrong, "overwritten");
  expect(verdict("no_such_entry"), Outcome::build_failed, "");
  std::printf("  workers started: %d\n", host.started());
  // This process never noticed.
  char bytes[4096] = {};
  ASSERT_TRUE(buffer.download(bytes, sizeof bytes));
  EXPECT_TRUE(std::all_of(bytes, bytes + sizeof bytes, [](char c) { return c == 0x5a; }));
  EXPECT_TRUE(cuda::synchronize());
}

TEST(Isolation, ARaceGoesOnWithoutThoseThatDie) {
  CULET_NEEDS_COMPILER();
  const Problem p = take(Problem::parse(kProblem));
  WorkerHost host;
  auto runner = take(host.make_runner(p, *gpu(), quick(2)));
  const BuiltCandidate correct = planted("correct", p), twice = planted("twice", p),
                       faults = planted("illegal_address_later", p),
                       spins = planted("spins_later", p);
  const auto begin = Clock::now();
  const auto results =
      runner->race({&correct, &faults, &spins, &twice}, {false, true, true, false}, nullptr);
  for (const RaceResult& result : results) {
    std::printf("  %-10s %.3f us, %d rounds: %s\n", std::string(to_string(result.outcome)).c_str(),
                result.timing.median * 1e6, result.timing.samples, result.reason.c_str());
  }
  std::printf("  race of %.2f s with %d workers\n", seconds_since(begin), host.started());
  EXPECT_EQ(results[0].outcome, Outcome::measured) << results[0].reason;
  EXPECT_GE(results[0].timing.samples, 5);
  EXPECT_EQ(results[1].outcome, Outcome::crashed) << results[1].reason;
  EXPECT_EQ(results[2].outcome, Outcome::timed_out) << results[2].reason;
  EXPECT_EQ(results[3].outcome, Outcome::measured) << results[3].reason;
}

TEST(Isolation, AWorkerTakesTheSameTimes) {
  CULET_NEEDS_COMPILER();
  const Problem p = take(Problem::parse("256x1024x512:f32"));
  const BuiltCandidate correct = planted("correct", p);
  double seconds[2] = {};
  WorkerHost host;
  RunnerOptions options = quick(10);
  options.policy.min_rounds = 15;
  for (const bool here : {false, true}) {
    auto runner = here ? take(make_trial_runner(p, *gpu(), options))
                       : take(host.make_runner(p, *gpu(), options));
    const auto results = runner->race({&correct, &correct}, {false, false}, nullptr);
    ASSERT_EQ(results[0].outcome, Outcome::measured) << results[0].reason;
    seconds[here] = results[0].timing.median;
  }
  std::printf("  in a worker %.3f us, here %.3f us, ratio %.4f\n", seconds[0] * 1e6,
              seconds[1] * 1e6, seconds[0] / seconds[1]);
  EXPECT_NEAR(seconds[0] / seconds[1], 1, 0.03);
}

/// The planted kernels as a family.
class PlantedCuda : public KernelFamily {
 public:
  PlantedCuda(std::string name, std::string entry)
      : name_(std::move(name)), entry_(std::move(entry)) {}
  std::string_view name() const override { return name_; }
  std::string version() const override { return "1"; }
  DeviceKind device_kind() const override { return DeviceKind::cuda; }
  Support supports(const Problem&, const DeviceSpec&) const override { return Support::can(); }
  std::vector<Config> configs(const Problem&, const DeviceSpec&) const override {
    return {Config().set("entry", entry_)};
  }
  std::optional<Features> features(const Problem&, const Config&,
                                   const DeviceSpec&) const override {
    return Features{};
  }
  Result<Source> source(const Problem&, const Step&, const DeviceSpec&) const override {
    return Source{SourceLanguage::cuda, test::kPlantedCuda, entry_, {}};
  }
  Result<LaunchSpec> launch(const Problem& problem, const Step&, const DeviceSpec&) const override {
    return planted(entry_, problem).steps.front().launch;
  }

 private:
  std::string name_, entry_;
};

TuneOptions tune_options() {
  TuneOptions options;
  options.max_memory_bytes = 4e9;
  options.policy.trial_seconds = 2;
  return options;
}

TEST(Isolation, ATuningRunSurvivesEveryFault) {
  CULET_NEEDS_COMPILER();
  Registry registry = Registry::standard();
  std::string names = "cublaslt";
  for (const char* entry : {"correct", "twice", "illegal_address", "spins", "one_element",
                            "nan_element", "illegal_address_later", "spins_later"}) {
    ASSERT_TRUE(registry.add(std::make_shared<PlantedCuda>(std::string("p_") + entry, entry)));
    names += std::string(",p_") + entry;
  }
  TuneOptions options = tune_options();
  options.backends = take(BackendFilter::parse(names, registry));
  const auto begin = Clock::now();
  Tuner tuner(registry, *gpu(), options);
  const TuneReport report = take(tuner.tune(take(Problem::parse("256x512x256:f32"))));
  std::printf("  %.2f s: %s\n", seconds_since(begin), report.why.c_str());
  int measured = 0;
  for (const Trial& trial : report.trials) {
    const std::string& name = trial.candidate.steps.front().backend;
    const std::string outcome(to_string(trial.outcome));
    std::printf("    %-24s %-12s %s\n", name.c_str(), outcome.c_str(), trial.reason.c_str());
    measured += trial.outcome == Outcome::measured;
    if (name.find("illegal") != std::string::npos) {
      EXPECT_EQ(outcome, "crashed");
    } else if (name.find("spins") != std::string::npos) {
      EXPECT_EQ(outcome, "timed_out");
    } else if (name.find("element") != std::string::npos) {
      EXPECT_EQ(outcome, "wrong");
    } else {
      EXPECT_EQ(outcome, "measured") << name << ": " << trial.reason;
    }
  }
  EXPECT_GE(measured, 3);
  ASSERT_NE(report.choice(), nullptr);
  // The choice runs here, in this process's own context.
  const auto plan = tuner.plan(report.problem, report.choice()->candidate);
  ASSERT_TRUE(plan) << plan.error().message;
  test::GpuCase gemm("256x512x256:f32");
  gemm.run_and_compare(*plan);
}

TEST(Isolation, ACandidateRunsAsLongAsItIsToSettle) {
  CULET_NEEDS_COMPILER();
  const Problem p = take(Problem::parse("256x1024x512:f32"));
  const BuiltCandidate correct = planted("correct", p);
  WorkerHost host;
  for (const bool isolated : {true, false}) {
    const auto runner = isolated ? take(host.make_runner(p, *gpu(), quick(2)))
                                 : take(make_trial_runner(p, *gpu(), quick(2)));
    ASSERT_TRUE(runner->sample(correct, 0));
    const auto begin = Clock::now();
    const double at_once = take(runner->sample(correct, 0));
    const double between = seconds_since(begin);
    const double settled = take(runner->sample(correct, 0.3));
    const double after = seconds_since(begin) - between;
    EXPECT_GE(after, 0.25) << isolated;
    EXPECT_LT(between, 0.25) << isolated;
    EXPECT_NEAR(settled / at_once, 1, 0.5) << isolated;
    runner->leave(correct);
  }
}

/// Whether this process holds the device's primary context.
bool holds_context() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  using State = int (*)(int, unsigned*, int*);
  const auto state = reinterpret_cast<State>(dlsym(library, "cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 0;
  if (state == nullptr || state(gpu()->ordinal, &flags, &active) != 0) return true;
  return active != 0;
}

// In processes of their own, where nothing else has made a context.
TEST(IsolationDeathTest, TuningOwnFamiliesMakesNoContextHere) {
  CULET_NEEDS_COMPILER();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto tuned = [](const char* backends) {
    Registry registry = Registry::standard();
    TuneOptions options = tune_options();
    options.backends = *BackendFilter::parse(backends, registry);
    Tuner tuner(registry, *gpu(), options);
    const auto report = tuner.tune(*Problem::parse("16x1024x1024:bf16"));
    const bool ok = report && report->choice() != nullptr;
    std::fprintf(stderr, "%s; context held: %s\n", ok ? "tuned" : "failed",
                 holds_context() ? "yes" : "no");
    std::_Exit(ok ? 0 : 1);
  };
  EXPECT_EXIT(tuned("gemv,simt"), testing::ExitedWithCode(0), "tuned; context held: no");
  // Only cuBLASLt must be asked here what it has.
  EXPECT_EXIT(tuned("cublaslt"), testing::ExitedWithCode(0), "tuned; context held: ");
}

}  // namespace
}  // namespace culet
