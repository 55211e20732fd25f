// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the backends really give passes verification: the tolerances are not too tight for any
// vendor plan or own family, and the largest errors seen are printed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "benchmark/trial_runner.h"
#include "compile/compiler.h"
#include "culet/registry.h"
#include "gpu_case.h"

namespace culet {
namespace {

using test::gpu;
using test::take;

Result<BuiltCandidate> build(const Registry& registry, const Problem& problem,
                             const Candidate& candidate, Compiler& compiler) {
  BuiltCandidate built{candidate, {}};
  for (const Step& step : candidate.steps) {
    const Problem part = step.part == Part::gemm ? problem_of(problem, Part::gemm) : problem;
    auto result = registry.find(step.backend)->build(part, step, *gpu(), compiler);
    if (!result) return tl::unexpected(result.error());
    built.steps.push_back(std::move(*result));
  }
  return built;
}

/// Verifies up to three candidates of each backend; the largest error of each.
void verify_backends(const std::string& text, double max_memory_bytes = 20e9) {
  const Problem problem = take(Problem::parse(text));
  static const Registry registry = Registry::standard();
  static Compiler compiler(nullptr);
  RunnerOptions options;
  options.max_memory_bytes = max_memory_bytes;
  const auto begin = std::chrono::steady_clock::now();
  auto runner = take(make_trial_runner(problem, *gpu(), options));
  std::map<std::string, int> taken;
  std::map<std::string, double> largest;
  for (const RankedCandidate& ranked : registry.discover(problem, *gpu())) {
    const std::string& backend = ranked.candidate.steps.front().backend;
    if (ranked.fallback || taken[backend]++ >= 3) continue;
    const auto built = build(registry, problem, ranked.candidate, compiler);
    if (!built) {
      ADD_FAILURE() << text << ' ' << ranked.candidate.text() << ": " << built.error().message;
      continue;
    }
    const Verification verdict = runner->verify(*built, true);
    largest[backend] = std::max(largest[backend], verdict.error);
    EXPECT_EQ(verdict.outcome, Outcome::measured)
        << text << ' ' << ranked.candidate.text() << ": " << verdict.reason;
  }
  std::printf("  %s:", text.c_str());
  for (const auto& [backend, error] : largest) std::printf(" %s %.2f", backend.c_str(), error);
  std::printf(" (%.2f s)\n",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  EXPECT_FALSE(largest.empty()) << text;
}

TEST(Backends, PassVerification) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const std::string text :
       {"512x512x512:bf16", "16x4096x4096:bf16", "16x4096x14336:bf16", "64x1024x28672:bf16",
        "333x777x1000:f16", "128x256x512:f32", "128x256x4096:tf32", "7x1023x1024:bf16:layout=tt",
        "256x256x256x5:bf16", "512x512x4096:bf16>f32", "16x1024x4096:e4m3",
        "16x1024x4096:e4m3:acc=fast", "64x1024x4096:s8", "2048x4096x4096:bf16"}) {
    verify_backends(text);
  }
}

TEST(Backends, MoreThan2To31ElementsPassVerification) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  // Of D, of A, of B, and of all batch entries together.
  for (const std::string text : {"65536x33024x64:bf16", "66048x64x32768:bf16",
                                 "16x66048x32768:bf16", "64x64x64x540000:bf16"}) {
    verify_backends(text, 60e9);
  }
}

TEST(Backends, EpiloguesPassVerification) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const std::string epilogue :
       {"relu(acc + bias[n])", "gelu_tanh(acc + bias[n])", "0.5 * acc + 2 * c[m,n]",
        "silu(acc * s[m]) * c[m,n]:f32", "gelu(acc)"}) {
    verify_backends("96x512x768:bf16:epi=\"" + epilogue + "\"");
    verify_backends("96x512x768:f16*f16>f32:epi=\"" + epilogue + "\"");
  }
}

}  // namespace
}  // namespace culet
