// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Numerics of the general CUDA kernels and the epilogue step on a GPU, through Plan: every dtype,
// layout, stride and alignment; every result exact.
#include "kernels_case.h"

namespace culet {
namespace {

using namespace test;  // NOLINT: the helpers of kernels_case.h

// --- simt ----------------------------------------------------------------------------------------

TEST(SimtKernel, EveryConfigurationIsExact) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const char* problem : {"200x136x100:bf16", "7x200x515:bf16", "1x200x512:f32:layout=tt",
                              "5x201x300:f16:layout=nt", "70x65x40:f64:layout=nn"}) {
    const auto configs = family("simt").configs(take(Problem::parse(problem)), *gpu());
    warm_up(problem, "simt", configs);
    for (const Config& config : configs) check(problem, "simt", config);
    if (HasFatalFailure()) return;
  }
}

TEST(SimtKernel, EpilogueOperandsMustBeAligned) {
  CULET_NEEDS_GPU();
  GpuCase gemm("40x48x64:f32:epi=\"acc + bias[n]\"");
  const Problem& p = gemm.host.problem;
  const Plan plan = take(plan_of(p, "simt", family("simt").configs(p, *gpu()).front()));
  gemm.prepare(plan);
  Arguments arguments = gemm.arguments();
  const void* extra[] = {static_cast<const char*>(arguments.extra[0]) + 4};
  arguments.extra = extra;
  const auto ran = plan.run(arguments);
  ASSERT_FALSE(ran);
  EXPECT_NE(ran.error().message.find("is not aligned to 16 bytes"), std::string::npos);
}

TEST(SimtKernel, DtypesLayoutsStridesAndEpilogues) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const char* problem : {
           "33x65x31:f64",
           "33x65x32:f32:layout=tt",
           "33x65x31:f32:layout=nn",
           "33x65x31:tf32:layout=nt",
           "33x64x32:f16:acc=f16",
           "33x65x31:bf16:layout=tt",
           "33x65x32:e4m3",
           "33x65x31:e5m2*e4m3>f32",
           "33x65x32:e4m3>e4m3:epi=\"acc * s:f32\"",
           "33x65x32:e5m2>e5m2",
           "33x65x32:s8",
           "33x65x31:u8*s8>s32:layout=nn",
           "33x65x32:s8>s8:epi=\"0.25 * acc\"",
           "33x65x32:s8*u8>f32:epi=\"acc * s[m]:f32\"",
           "40x48x40x3:f32:stridea=0",
           "40x48x40x3:bf16:layout=nt:strideb=0:strided=2000",
           "33x65x31:f32:lda=40:ldb=50:ldd=70",
           "3x65x31:bf16:lda=33:ldb=34:ldd=70",
           "5x7x0:bf16:epi=\"acc + bias[n]\"",
           "33x65x0:f32",
           "64x64x40:bf16:m=1..70",
           "2x64x40:bf16:m=1..7",
           "33x65x31:f64:epi=\"max(acc, c[m,n]) + bias[n]\"",
           "300x70x33x2:f32:epi=\"relu(acc + c[m,n]) * s[m]\"",
           "1x1x1:f32",
           "2x1x4097:f16>f32",
       }) {
    const auto configs = family("simt").configs(take(Problem::parse(problem)), *gpu());
    ASSERT_FALSE(configs.empty()) << problem;
    // The first of each kernel: rows where m allows, tile.
    check(problem, "simt", configs.front());
    if (configs.back().get("kernel") != configs.front().get("kernel")) {
      check(problem, "simt", configs.back());
    }
    if (HasFatalFailure()) return;
  }
}

TEST(SimtKernel, EveryKIsExact) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (int k = 0; k <= 130; ++k) {
    const std::string size = std::to_string(k);
    // A pitch of its own keeps the source, and so the code, the same for every k.
    check("17x24x" + size + ":bf16>f32:lda=136:ldb=136", "simt",
          "kernel=tile tile=32x32x16 thread=2x4");
    check("3x24x" + size + ":bf16>f32:lda=136:ldb=136", "simt",
          "kernel=rows rows=4 columns=2 warps=4x1");
    check("3x24x" + size + ":f32:layout=tt:lda=136", "simt",
          "kernel=rows rows=4 columns=4 warps=4x1");
    if (HasFatalFailure()) return;
  }
}

TEST(SimtKernel, OperandsMayStartAtAnyElement) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  const std::string tile = "kernel=tile tile=64x64x16 thread=4x4";
  check_shifted("70x72x72:bf16:aligna=2:alignb=2:alignd=2", "simt", tile, 2, 6, 2);
  check_shifted("70x72x72:f32:layout=nt:aligna=4:alignb=8:alignd=4", "simt", tile, 4, 8, 12);
  check_shifted("3x72x72:bf16:aligna=2:alignb=4:alignd=2", "simt",
                "kernel=rows rows=4 columns=1 warps=4x1", 2, 4, 2);
}

TEST(SimtKernel, TwentyRunsAreBitwiseEqual) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  check_repeatable("300x264x4096:bf16", "simt", "kernel=tile tile=64x64x16 thread=4x4");
  check_repeatable("4x1032x4096:bf16", "simt", "kernel=rows rows=4 columns=2 warps=8x1");
  check_repeatable("4x1032x4096:bf16:layout=tt", "simt", "kernel=rows rows=4 columns=8 warps=8x1");
}

// --- two steps -----------------------------------------------------------------------------------

TEST(PointwiseKernel, FinishesAnotherStepsAccumulators) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const char* text : {
           "33x64x40:bf16:epi=\"relu(acc + bias[n]) + c[m,n]\"",
           "33x65x31x3:f32:epi=\"acc * s[m]\"",
           "33x65x32:s8>s8:epi=\"0.25 * acc\"",
           "33x65x31:f64:epi=\"acc + bias[n]\"",
           "40x64x40:bf16:m=1..70:epi=\"acc + c[m,n]\"",
           "5x7x0:bf16:epi=\"acc + bias[n]\"",
           "33x65x31x3:s8:epi=\"acc + c[m,n]\"",
       }) {
    SCOPED_TRACE(text);
    GpuCase gemm(text);
    const Problem& p = gemm.host.problem;
    const Step first{"simt", family("simt").configs(problem_of(p, Part::gemm), *gpu()).back(),
                     Part::gemm};
    const Step second{"pointwise", family("pointwise").configs(p, *gpu()).front(), Part::epilogue};
    const auto gemm_step =
        family("simt").build(problem_of(p, Part::gemm), first, *gpu(), compiler());
    ASSERT_TRUE(gemm_step) << gemm_step.error().message << gemm_step.error().detail;
    const auto epilogue_step = family("pointwise").build(p, second, *gpu(), compiler());
    ASSERT_TRUE(epilogue_step) << epilogue_step.error().message << epilogue_step.error().detail;
    const auto plan = Plan::load(p, {{{first, second}}, {*gemm_step, *epilogue_step}}, *gpu());
    ASSERT_TRUE(plan) << plan.error().message;
    gemm.run_and_compare(*plan);
    for (const std::int64_t m : {p.m_range.low, p.m_range.high}) {
      if (m != p.m) gemm.run_and_compare(*plan, m);
    }
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace culet
