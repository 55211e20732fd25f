// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The vendor's library as a backend, against a reference of our own: dtypes, layouts, epilogues,
// strides, and every algorithm its heuristics offer.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "backends/backends.h"
#include "compile/compiler.h"
#include "culet/registry.h"
#include "gpu_case.h"

namespace culet {
namespace {

using test::gpu;
using test::GpuCase;
using test::take;

const Backend& backend() {
  static const auto made = make_cublaslt_backend();
  return *made;
}

#define CULET_NEEDS_CUBLASLT()                                     \
  CULET_NEEDS_GPU();                                               \
  const auto context = take(cuda::Context::enter(gpu()->ordinal)); \
  if (backend().version() == "cublasLt absent") GTEST_SKIP() << "no cuBLASLt"

Result<Plan> load(const Problem& problem, const Config& config) {
  test::NoCompiler none;
  const Step step{"cublaslt", config, Part::all};
  auto built = backend().build(problem, step, *gpu(), none);
  if (!built) return tl::unexpected(built.error());
  return Plan::load(problem, {{{step}}, {*built}}, *gpu());
}

struct Case {
  const char* problem;
  double tolerance;
};

/// Operands are multiples of 1/4 up to 1, so sums are exact in f32: only the rounding of D, which
/// the reference does too, and the library's own activation functions are left.
const Case kWhole[] = {
    {"32x64x128:bf16", 0},
    {"17x64x128:bf16>f32", 0},
    {"32x64x128:f16", 0},
    {"32x64x128:f16:acc=f16", 4e-3},
    {"32x64x128:f16>f32:layout=tt", 0},
    {"32x64x128:bf16:layout=nt", 0},
    {"32x64x128:bf16:layout=nn", 0},
    {"32x64x128:f32:layout=tt", 0},
    {"33x65x67:f32", 0},
    {"32x64x128:tf32>f32", 0},
    {"32x48x64:f64:acc=f64", 0},
    {"32x64x128:s8", 0},
    {"32x64x128:e4m3", 0},
    {"32x64x128:e4m3:acc=fast", 0},
    {"32x64x128:e4m3*e5m2>f32", 0},
    {"8x64x96x3:bf16", 0},
    {"8x64x96x3:bf16:strideb=0", 0},
    {"32x64x128:bf16:lda=136:ldb=144:ldd=72", 0},
    {"32x64x128:bf16:epi=\"0.5 * acc\"", 0},
    {"32x64x128:bf16:epi=\"acc + bias[n]\"", 0},
    {"32x64x128:bf16:epi=\"relu(acc + bias[n])\"", 0},
    {"32x64x128:f16:epi=\"gelu_tanh(acc + bias[n])\"", 2e-3},
    {"32x64x128:bf16:epi=\"relu(acc)\"", 0},
    {"32x64x128:bf16:epi=\"0.5 * acc + 2 * c[m,n]\"", 0},
    {"32x64x128:f32:epi=\"acc + c[m,n]\"", 0},
    {"8x64x96x3:bf16:epi=\"acc + c[m,n] + bias[n]\"", 0},
    {"32x64x128:s8:epi=\"2 * acc + 3 * c[m,n]\"", 0},
    {"32x64x128:e4m3>bf16:epi=\"acc + bias[n]\"", 0},
    {"16x64x128:bf16:m=1..64", 0},
    {"1x512x256:bf16", 0},
};

TEST(Cublaslt, EveryAlgorithmComputesTheProblem) {
  CULET_NEEDS_CUBLASLT();
  int algorithms = 0;
  for (const Case& item : kWhole) {
    SCOPED_TRACE(item.problem);
    GpuCase gemm(item.problem);
    const Problem& problem = gemm.host.problem;
    const Support support = backend().supports(problem, *gpu());
    EXPECT_TRUE(support.yes) << support.reason;
    EXPECT_TRUE(support.fuses_epilogue) << "only the gemm part";
    const auto configs = backend().configs(problem, *gpu());
    EXPECT_FALSE(configs.empty());
    for (std::size_t i = 0; i < configs.size() && i < 12; ++i) {
      SCOPED_TRACE(configs[i].text());
      // Half-precision partial sums of a split k are the library's choice.
      const bool rounded = configs[i].get("reduction") == "output";
      const auto plan = load(problem, configs[i]);
      ASSERT_TRUE(plan) << plan.error().message;
      gemm.run_and_compare(*plan, -1, rounded ? 2e-2 : item.tolerance);
      for (const std::int64_t m : {problem.m_range.low, problem.m_range.high}) {
        if (m != problem.m) gemm.run_and_compare(*plan, m, rounded ? 2e-2 : item.tolerance);
      }
      ++algorithms;
    }
  }
  std::printf("  %d algorithms of %s\n", algorithms, backend().version().c_str());
}

TEST(Cublaslt, ConfigsAreSelfDescribingAndStable) {
  CULET_NEEDS_CUBLASLT();
  const Problem problem = take(Problem::parse("64x4096x4096:bf16"));
  const auto configs = backend().configs(problem, *gpu());
  ASSERT_GE(configs.size(), 2u);
  EXPECT_EQ(configs, backend().configs(problem, *gpu()));
  for (const Config& config : configs) {
    const Config again = take(Config::parse(config.text()));
    EXPECT_EQ(again, config);
  }
  std::printf("  %zu algorithms, first: %s\n", configs.size(), configs[0].text().c_str());
}

TEST(Cublaslt, WhatItDoesNotFuseIsGemmOnly) {
  CULET_NEEDS_CUBLASLT();
  for (const char* text :
       {"32x64x128:bf16:epi=\"silu(acc)\"", "32x64x128:bf16:epi=\"acc * s[m]\"",
        "32x64x128:bf16:epi=\"acc + bias[n]:f32\"", "32x64x128:s8:epi=\"0.5 * acc\""}) {
    const Support support = backend().supports(take(Problem::parse(text)), *gpu());
    EXPECT_TRUE(support.yes) << text << ": " << support.reason;
    EXPECT_FALSE(support.fuses_epilogue) << text;
  }
}

TEST(Cublaslt, AnotherStepDoesTheRest) {
  CULET_NEEDS_CUBLASLT();
  if (const auto found = Compiler::toolchain(SourceLanguage::cuda, *gpu()); !found) {
    GTEST_SKIP() << found.error().message;
  }
  const Registry registry = Registry::standard();
  Compiler compiler(nullptr);
  for (const char* text :
       {"17x64x128:bf16:epi=\"acc + bias[n]:f32\"", "8x64x96x3:bf16:epi=\"acc * s[m]:f32\""}) {
    SCOPED_TRACE(text);
    GpuCase gemm(text);
    const Problem& problem = gemm.host.problem;
    bool seen = false;
    for (const RankedCandidate& item : registry.discover(problem, *gpu())) {
      if (item.candidate.steps[0].backend != "cublaslt") continue;
      ASSERT_EQ(item.candidate.steps.size(), 2u);
      EXPECT_TRUE(item.vendor);
      BuiltCandidate built{item.candidate, {}};
      for (const Step& step : item.candidate.steps) {
        const Problem part = step.part == Part::gemm ? problem_of(problem, Part::gemm) : problem;
        built.steps.push_back(
            take(registry.find(step.backend)->build(part, step, *gpu(), compiler)));
      }
      gemm.run_and_compare(take(Plan::load(problem, built, *gpu())));
      seen = true;
    }
    EXPECT_TRUE(seen);
  }
}

TEST(Cublaslt, RefusalsHaveReasons) {
  CULET_NEEDS_CUBLASLT();
  for (const char* text : {"32x64x0:bf16", "0x64x64:bf16", "32x64x128:u8", "33x65x67:s8",
                           "32x64x128:e4m3:layout=tt"}) {
    const Support support = backend().supports(take(Problem::parse(text)), *gpu());
    EXPECT_FALSE(support.yes) << text;
    EXPECT_FALSE(support.reason.empty()) << text;
    EXPECT_EQ(support.reason.find('\n'), std::string::npos);
    std::printf("  %s: %s\n", text, support.reason.c_str());
  }
}

TEST(Cublaslt, AForeignAlgorithmIsRefused) {
  CULET_NEEDS_CUBLASLT();
  const Problem problem = take(Problem::parse("32x64x128:bf16"));
  Config config = backend().configs(problem, *gpu()).at(0);
  Config other = config;
  other.set("lib", "1.2.3");
  auto plan = load(problem, other);
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("1.2.3"), std::string::npos);
  other = config;
  other.set("raw", "zz");
  EXPECT_FALSE(load(problem, other));
  other = config;
  other.set("raw", "ffffffffffffffff.ffffffffffffffff");
  plan = load(problem, other);
  EXPECT_FALSE(plan) << "the library takes any bits for an algorithm";
}

TEST(Cublaslt, CapturedInAGraphAtItsFirstRun) {
  CULET_NEEDS_CUBLASLT();
  GpuCase gemm("48x96x160:bf16:epi=\"relu(acc + bias[n])\"");
  const Plan plan = take(load(gemm.host.problem, backend().configs(gemm.host.problem, *gpu())[0]));
  gemm.prepare(plan);
  const cuda::Stream stream = take(cuda::Stream::create());
  const cuda::Graph graph = take(cuda::Graph::capture(stream.get(), [&] {
    return plan.run(gemm.arguments(), {stream.get(), false});
  }));
  ASSERT_TRUE(graph.launch(stream.get()));
  ASSERT_TRUE(stream.synchronize());
  gemm.compare();
}

TEST(Cublaslt, HostTimeOfARun) {
  CULET_NEEDS_CUBLASLT();
  const Problem big = take(Problem::parse("64x4096x4096:bf16"));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(backend().configs(big, *gpu()).empty());
  const std::chrono::duration<double> asked = std::chrono::steady_clock::now() - begin;
  std::printf("  asking for algorithms: %.0f us\n", asked.count() * 1e6);
  for (const char* text :
       {"16x64x128:bf16", "16x64x128:bf16:epi=\"relu(acc + bias[n])\"", "16x64x128:bf16:m=1..64"}) {
    GpuCase gemm(text);
    const Plan plan =
        take(load(gemm.host.problem, backend().configs(gemm.host.problem, *gpu())[0]));
    gemm.prepare(plan);
    const cuda::Stream stream = take(cuda::Stream::create());
    const Arguments arguments = gemm.arguments(gemm.host.problem.m_range.low);
    double best = 1e9;
    for (int burst = 0; burst < 20; ++burst) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < 200; ++i) ASSERT_TRUE(plan.run(arguments, {stream.get(), false}));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count() / 200 * 1e9);
      ASSERT_TRUE(stream.synchronize());
    }
    std::printf("  %s: %.0f ns a run\n", text, best);
    EXPECT_LT(best, 20000);
  }
}

}  // namespace
}  // namespace culet
