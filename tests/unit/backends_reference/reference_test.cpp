// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
#include <gtest/gtest.h>

#include "../support/gemm_case.h"
#include "backends/backends.h"

namespace culet::test {
namespace {

void check(const std::string& text, double tolerance = 0) {
  const auto backend = make_reference_backend();
  for (const int threads : {1, 2}) {
    const DeviceSpec device = cpu(threads);
    GemmCase c(text);
    ASSERT_TRUE(backend->supports(c.problem, device).yes);
    c.check(*backend, backend->configs(c.problem, device).front(), device, Part::all, -1,
            tolerance);
  }
}

TEST(Reference, EveryLayoutAndOddSize) {
  for (const char* layout : {"tt", "tn", "nt", "nn"}) {
    check("3x5x7:f32:layout=" + std::string(layout));
    check("33x65x300:f32:layout=" + std::string(layout));
    check("1x129x64:f32:layout=" + std::string(layout));
  }
}

TEST(Reference, EveryDtype) {
  for (const char* dtypes : {"f64", "f32", "f16", "bf16", "f16*f16>f32", "bf16*bf16>f32", "s8",
                             "u8*s8>s32", "e4m3", "e5m2*e4m3>f32"}) {
    check("35x67x41:" + std::string(dtypes));
  }
}

TEST(Reference, LeadingDimensionsAndBatches) {
  check("17x19x23:f32:lda=40:ldb=41:ldd=42");
  check("17x19x23x3:f32:lda=40:ldb=41:ldd=42");
  check("17x19x23x3:f32:strideb=0");
  check("17x19x23x3:f32:stridea=0");
}

TEST(Reference, EmptySum) {
  check("5x6x0:f32");
  check("5x6x0:f32:epi=\"acc + bias[n]\"");
}

TEST(Reference, Epilogue) {
  check("33x70x40:f32:epi=\"relu(0.5 * acc + bias[n] + 2 * c[m,n] - s[m])\"");
  check("33x70x40x2:bf16:epi=\"gelu(acc + bias[n]:f32) * s\"");
}

TEST(Reference, RunsForSmallerM) {
  const auto backend = make_reference_backend();
  const DeviceSpec device = cpu(2);
  GemmCase c("64x70x40:f32:m=1..64");
  for (const std::int64_t m : {1, 31, 64}) {
    c.check(*backend, backend->configs(c.problem, device).front(), device, Part::all, m);
  }
}

TEST(Reference, RefusesAnotherProblemsArtifact) {
  const auto backend = make_reference_backend();
  const DeviceSpec device = cpu(1);
  GemmCase c("4x4x4:f32");
  NoCompiler context;
  const Step step{"reference", backend->configs(c.problem, device).front(), Part::all};
  auto built = backend->build(*Problem::parse("4x4x5:f32"), step, device, context);
  ASSERT_TRUE(built);
  const auto plan = Plan::load(c.problem, BuiltCandidate{{{step}}, {*built}}, device);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message, "reference: made for the problem 4x4x5:f32");
}

}  // namespace
}  // namespace culet::test
