// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A whole tuning run with families whose kernels take their process down.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "planted.h"

namespace culet {
namespace {

using testing::own;
using testing::Planted;
using testing::planted_registry;

/// Every kind of fault, among good ones.
std::vector<Planted> faulty() {
  Planted vendor = own("vendor_lib");
  vendor.vendor = true;
  Planted throwing_build = own("build_throws");
  throwing_build.throws = "planted";
  Planted no_build = own("no_build");
  no_build.syntax_error = "this is no C++";
  return {vendor,
          own("segfaults", "*(volatile int*)16 = 1;"),
          own("spins", "for (;;) asm volatile(\"\" ::: \"memory\");"),
          own("aborts", "__builtin_trap();"),
          own("throws", "throw 42;"),
          own("allocates",
              "for (;;) { volatile char* p = new char[64 << 20]; "
              "for (long i = 0; i < (64 << 20); i += 1 << 20) p[i] = 1; }"),
          own("writes_outside", "d[(x->m_end - 1) * x->ldd + x->n + 1] = 0;"),
          own("wrong", "d[0] += 1;"),
          own("nan", "d[1] = __builtin_nanf(\"\");"),
          throwing_build,
          no_build,
          own("good")};
}

class Notes : public Observer {
 public:
  void warning(std::string_view text) override { warnings.emplace_back(text); }
  void progress(const Progress& progress) override { phases.emplace_back(progress.phase); }
  std::vector<std::string> warnings, phases;
};

TuneOptions quick() {
  TuneOptions options;
  options.max_memory_bytes = 256e6;
  options.policy.target_seconds = 1e-3;
  options.policy.rotate_bytes = 1 << 20;
  options.policy.trial_seconds = 1;
  return options;
}

const Trial& trial_of(const TuneReport& report, const std::string& backend) {
  static const Trial none;
  const auto at = std::find_if(report.trials.begin(), report.trials.end(), [&](const Trial& t) {
    return t.candidate.steps.front().backend == backend;
  });
  if (at == report.trials.end()) {
    ADD_FAILURE() << backend;
    return none;
  }
  return *at;
}

TEST(Isolation, ATuningRunSurvivesEveryFault) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve more memory than any limit";
#endif
  const DeviceSpec cpu = find_device("cpu:1").value();
  Tuner tuner(planted_registry(faulty()), cpu, quick());
  Notes notes;
  const auto report = tuner.tune(Problem::parse("24x30x20:f32").value(), &notes);
  ASSERT_TRUE(report) << report.error().message;
  const auto expect = [&](const std::string& backend, Outcome outcome, const std::string& says) {
    const Trial& trial = trial_of(*report, backend);
    EXPECT_EQ(to_string(trial.outcome), to_string(outcome)) << backend << ": " << trial.reason;
    EXPECT_NE(trial.reason.find(says), std::string::npos) << backend << ": " << trial.reason;
  };
  expect("segfaults", Outcome::crashed, "SIGSEGV");
  expect("spins", Outcome::timed_out, "killed after");
  expect("aborts", Outcome::crashed, "SIGILL");
  expect("throws", Outcome::crashed, "exception");
  expect("allocates", Outcome::crashed, "out of memory");
  expect("writes_outside", Outcome::wrong, "overwritten");
  expect("wrong", Outcome::wrong, "D[0,0]");
  expect("nan", Outcome::wrong, "NaN");
  expect("build_throws", Outcome::build_failed, "threw");
  expect("no_build", Outcome::build_failed, "error");
  expect("good", Outcome::measured, "");
  expect("vendor_lib", Outcome::measured, "");
  ASSERT_NE(report->choice(), nullptr);
  EXPECT_EQ(report->choice()->outcome, Outcome::measured);
  EXPECT_TRUE(notes.warnings.empty()) << notes.warnings.front();
  EXPECT_NE(std::find(notes.phases.begin(), notes.phases.end(), "verify"), notes.phases.end());
  EXPECT_NE(std::find(notes.phases.begin(), notes.phases.end(), "time"), notes.phases.end());
  // The next problem is tuned as if nothing had been.
  const auto next = tuner.tune(Problem::parse("8x8x8:f32").value());
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_EQ(trial_of(*next, "good").outcome, Outcome::measured);
}

TEST(Isolation, BothWaysTakeTheSameTimes) {
  // Not to a per cent on a busy machine, which may need some attempts: the smallest times count. A
  // worker that timed something else would be off by more every time.
  const DeviceSpec cpu = find_device("cpu:1").value();
  double seconds[2] = {1e9, 1e9};
  const auto alike = [&] { return std::abs(seconds[0] / seconds[1] - 1) < 0.5; };
  for (int attempt = 0; attempt < 5 && (attempt == 0 || !alike()); ++attempt) {
    for (const Isolation isolation : {Isolation::process, Isolation::none}) {
      TuneOptions options = quick();
      options.isolation = isolation;
      options.policy.target_seconds = 5e-3;
      Tuner tuner(planted_registry({own("good")}), cpu, options);
      const auto report = tuner.tune(Problem::parse("64x64x64:f32").value());
      ASSERT_TRUE(report) << report.error().message;
      ASSERT_NE(report->choice(), nullptr);
      double& least = seconds[isolation == Isolation::none];
      least = std::min(least, report->choice()->timing->median);
    }
  }
  EXPECT_TRUE(alike()) << "in a worker " << seconds[0] << " s, here " << seconds[1] << " s";
}

TEST(Isolation, WithoutAWorkerOneNoteSaysSo) {
  setenv("CULET_WORKER", "/bin/false", 1);
  Tuner tuner(planted_registry({own("good")}), find_device("cpu:1").value(), quick());
  Notes notes;
  for (const char* problem : {"8x8x8:f32", "9x8x8:f32"}) {
    const auto report = tuner.tune(Problem::parse(problem).value(), &notes);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_NE(report->choice(), nullptr);
  }
  unsetenv("CULET_WORKER");
  ASSERT_EQ(notes.warnings.size(), 1u);
  EXPECT_NE(notes.warnings[0].find("/bin/false"), std::string::npos) << notes.warnings[0];
}

TEST(Isolation, Parses) {
  EXPECT_EQ(parse_isolation("process").value(), Isolation::process);
  EXPECT_EQ(parse_isolation("none").value(), Isolation::none);
  EXPECT_FALSE(parse_isolation("thread"));
}

}  // namespace
}  // namespace culet
