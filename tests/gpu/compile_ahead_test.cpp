// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What compiling ahead gains on a real GPU, and that the times taken meanwhile are the same.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>

#include "compile/compiler.h"
#include "culet/culet.h"
#include "gpu_case.h"

namespace culet {
namespace {

using test::gpu;
using test::take;

/// Problems of which each has kernels of its own.
constexpr const char* kProblems[] = {
    "256x4096x4096:bf16",
    "256x4096x4096:f16",
    "256x4096x4096:bf16:layout=tt",
    "256x4096x4096:f16:epi=\"gelu(acc + bias[n])\"",
};

struct Session {
  std::int64_t compiled = 0;
  double total = 0, waited = 0;  ///< seconds; waited for compilers, but for the first problem
  std::map<std::string, double> times;  ///< by problem and candidate
};

Session run(bool ahead, std::size_t count) {
  TuneOptions options;
  options.compile_ahead = ahead;
  Tuner tuner(Registry::standard(), *gpu(), options);
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < count; ++i) problems.push_back(take(Problem::parse(kProblems[i])));
  Session result;
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const Problem* next = i + 1 < problems.size() ? &problems[i + 1] : nullptr;
    const TuneReport report = take(tuner.tune(problems[i], nullptr, next));
    EXPECT_NE(report.choice(), nullptr) << report.why;
    if (i > 0) result.waited += report.compile_seconds;
    std::printf("  %-55s compile %5.2f s, benchmark %5.2f s\n", problems[i].text().c_str(),
                report.compile_seconds, report.benchmark_seconds);
    for (const Trial& trial : report.trials) {
      if (trial.outcome == Outcome::measured)
        result.times[problems[i].text() + " " + trial.candidate.text()] = trial.timing->median;
    }
  }
  result.total = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.compiled = tuner.counts().compiled;
  return result;
}

TEST(CompileAhead, HidesCompilingAndLeavesTimesAlone) {
  CULET_NEEDS_GPU();
  if (const auto found = Compiler::toolchain(SourceLanguage::cuda, *gpu()); !found)
    GTEST_SKIP() << found.error().message;
  (void)run(false, 1);  // libraries are loaded then
  const Session without = run(false, std::size(kProblems)), with = run(true, std::size(kProblems));
  double logs = 0, worst = 1;
  int both = 0;
  for (const auto& [name, seconds] : with.times) {
    const auto at = without.times.find(name);
    if (at == without.times.end()) continue;
    const double ratio = seconds / at->second;
    logs += std::log(ratio);
    if (std::fabs(std::log(ratio)) > std::fabs(std::log(worst))) worst = ratio;
    ++both;
  }
  const double mean = std::exp(logs / std::max(both, 1));
  std::printf("  %d kernels: %.2f s without, %.2f s with; waited %.2f and %.2f s after the first\n",
              static_cast<int>(with.compiled), without.total, with.total, without.waited,
              with.waited);
  std::printf("  times of %d candidates, with over without: mean %.4f, farthest %.4f\n", both, mean,
              worst);
  EXPECT_EQ(with.compiled, without.compiled);
  EXPECT_LT(with.waited, without.waited);
  EXPECT_NEAR(mean, 1, 0.02);
}

}  // namespace
}  // namespace culet
