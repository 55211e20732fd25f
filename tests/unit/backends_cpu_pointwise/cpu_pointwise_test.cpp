// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The epilogue step behind a gemm step of the reference.
#include <gtest/gtest.h>

#include "../support/gemm_case.h"
#include "backends/backends.h"

namespace culet::test {
namespace {

void check(const std::string& text, double tolerance = 0) {
  const auto backend = make_cpu_pointwise_backend();
  for (const int threads : {1, 2, 3}) {
    SCOPED_TRACE(text + " x" + std::to_string(threads));
    const DeviceSpec device = cpu(threads);
    GemmCase c(text);
    NoCompiler context;
    const Step step{"cpu_pointwise", backend->configs(c.problem, device).front(), Part::epilogue};
    auto built = backend->build(c.problem, step, device, context);
    ASSERT_TRUE(built);
    auto plan = c.load({own_step("reference", c.problem, Part::gemm, threads), *built}, device);
    ASSERT_TRUE(plan) << plan.error().message;
    c.run_and_compare(*plan, -1, tolerance);
  }
}

TEST(CpuPointwise, EveryOperationExact) {
  for (const char* e : {"acc + 1", "acc - 2", "acc * 0.5", "acc / 2", "max(acc, 1)", "min(acc, 1)",
                        "-acc", "relu(acc)", "abs(acc)"}) {
    check("5x300x9:f32:epi=\"" + std::string(e) + "\"");
  }
}

TEST(CpuPointwise, EveryFunctionClose) {
  for (const char* e : {"gelu(acc)", "gelu_tanh(acc)", "silu(acc)", "sigmoid(acc)", "tanh(acc)",
                        "exp(acc)", "sqrt(abs(acc))", "rcp(acc + 0.03125)"}) {
    check("5x300x9:f32:epi=\"" + std::string(e) + "\"", 2e-6);
  }
}

TEST(CpuPointwise, EveryOperandIndex) {
  check("7x530x9:f32:epi=\"acc + bias[n] + c[m,n] + r[m] + s\"");
  check("7x530x9x3:f32:ldd=540:epi=\"acc + bias[n] + c[m,n] + r[m] + s\"");
  check("7x53x9x3:bf16:epi=\"acc + bias[n] + c[m,n]:f32\"");
  check("7x53x9:f16:epi=\"acc + bias[n]:bf16\"");
}

TEST(CpuPointwise, OneRowIsDividedByColumns) { check("1x1000x9x2:f32:epi=\"2 * acc + bias[n]\""); }

TEST(CpuPointwise, IntegersAndDoubles) {
  check("33x100x50:s8:epi=\"acc + bias[n]\"");
  check("33x100x50:f64:epi=\"0.5 * acc\"");
}

TEST(CpuPointwise, LongExpressionReusesItsBlocks) {
  std::string e = "acc";
  for (int i = 1; i < 30; ++i)
    e = "(" + e + " + bias[n]) * 0.5 + max(acc, " + std::to_string(i) + ")";
  check("3x40x5:f32:epi=\"" + e + "\"", 1e-5);
  check("3x40x5:f32:epi=\"(acc + 1) * (acc - 1) + (acc + 2) * (acc - 2) - acc * acc\"");
}

TEST(CpuPointwise, EmptySum) { check("5x40x0:f32:epi=\"relu(acc + bias[n])\""); }

TEST(CpuPointwise, ComputesNothingElse) {
  const auto backend = make_cpu_pointwise_backend();
  const Problem problem = *Problem::parse("4x4x4:f32");
  EXPECT_TRUE(backend->is_epilogue_step());
  EXPECT_EQ(backend->supports(problem, cpu(1)).reason, "computes epilogue steps only");
  NoCompiler context;
  const Step whole{"cpu_pointwise", {}, Part::all};
  EXPECT_FALSE(backend->build(problem, whole, cpu(1), context));
}

}  // namespace
}  // namespace culet::test
