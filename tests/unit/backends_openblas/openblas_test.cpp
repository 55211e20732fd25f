// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
#include "device/openblas.h"

#include <gtest/gtest.h>

#include "../support/gemm_case.h"
#include "backends/backends.h"

namespace culet::test {
namespace {

class OpenBlasTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!openblas()) GTEST_SKIP() << openblas().error().message;
  }
  /// All configurations on one and two threads.
  void check(const std::string& text) {
    for (const int threads : {1, 2}) {
      const DeviceSpec device = cpu(threads);
      GemmCase c(text);
      const Support support = backend_->supports(c.problem, device);
      ASSERT_TRUE(support.yes) << text << ": " << support.reason;
      for (const Config& config : backend_->configs(c.problem, device)) {
        c.check(*backend_, config, device);
        if (HasFatalFailure()) return;
      }
    }
  }
  std::shared_ptr<const Backend> backend_ = make_openblas_backend();
};

TEST_F(OpenBlasTest, EveryLayout) {
  for (const char* layout : {"tt", "tn", "nt", "nn"}) {
    for (const char* sizes : {"3x5x7", "17x33x65", "64x64x64", "100x1x77", "1x100x77", "1x1x9"}) {
      check(std::string(sizes) + ":f32:layout=" + layout);
      check(std::string(sizes) + ":f32:layout=" + layout + ":lda=130:ldb=131:ldd=132");
    }
  }
}

TEST_F(OpenBlasTest, Batches) {
  for (const char* sizes : {"5x9x11x3", "1x40x20x3", "40x1x20x3"}) {
    check(std::string(sizes) + ":f32");
    check(std::string(sizes) + ":f32:stridea=0");
    check(std::string(sizes) + ":f32:strideb=0");
  }
}

TEST_F(OpenBlasTest, EmptySumGivesZero) {
  check("4x5x0:f32");
  check("1x5x0:f32");
  check("4x1x0:f32:ldd=7");
}

TEST_F(OpenBlasTest, GemvIsOfferedFirstWhereOneSizeIsOne) {
  const DeviceSpec device = cpu(1);
  const auto first = [&](const char* text) {
    return std::string(backend_->configs(*Problem::parse(text), device).front().get("call"));
  };
  EXPECT_EQ(first("1x64x64:f32"), "gemv");
  EXPECT_EQ(first("64x1x64:f32"), "gemv");
  EXPECT_EQ(first("64x64x64:f32"), "gemm");
  EXPECT_EQ(first("64x64x64:f32:m=1..64"), "auto");
}

TEST_F(OpenBlasTest, RangeOfM) {
  const DeviceSpec device = cpu(2);
  GemmCase c("16x40x24:f32:m=1..16");
  for (const Config& config : backend_->configs(c.problem, device)) {
    for (const std::int64_t m : {1, 2, 16}) c.check(*backend_, config, device, Part::all, m);
  }
}

TEST_F(OpenBlasTest, EpilogueByASecondStep) {
  GemmCase c("30x41x22x2:f32:ldd=50:epi=\"relu(acc + bias[n]) + 0.5 * c[m,n]\"");
  const DeviceSpec device = cpu(2);
  const Support support = backend_->supports(c.problem, device);
  ASSERT_TRUE(support.yes);
  EXPECT_FALSE(support.fuses_epilogue);
  const Config config = backend_->configs(problem_of(c.problem, Part::gemm), device).front();
  c.check(*backend_, config, device, Part::gemm);
}

TEST_F(OpenBlasTest, SaysWhyNot) {
  const DeviceSpec device = cpu(1);
  EXPECT_EQ(backend_->supports(*Problem::parse("4x4x4:bf16"), device).reason,
            "bf16*bf16>bf16: only f32*f32>f32");
  EXPECT_EQ(backend_->supports(*Problem::parse("4x4x4:f32:lda=3000000000"), device).reason,
            "lda=3000000000: its integers end at 2147483647");
}

TEST_F(OpenBlasTest, VersionNamesTheCore) {
  EXPECT_NE(openblas()->version.find(' '), std::string::npos) << openblas()->version;
  EXPECT_EQ(backend_->version(), openblas()->version);
}

TEST_F(OpenBlasTest, RefusesAnotherVersionsArtifact) {
  GemmCase c("4x4x4:f32");
  const DeviceSpec device = cpu(1);
  NoCompiler context;
  const Step step{"openblas", backend_->configs(c.problem, device).front(), Part::all};
  auto built = backend_->build(c.problem, step, device, context);
  ASSERT_TRUE(built);
  built->artifact.bytes = "version=0.0.1 Haswell\n";
  const auto plan = Plan::load(c.problem, BuiltCandidate{{{step}}, {*built}}, device);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message,
            "openblas: made for OpenBLAS 0.0.1 Haswell, but " + openblas()->version + " is here");
}

}  // namespace
}  // namespace culet::test
