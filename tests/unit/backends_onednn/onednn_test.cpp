// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
#include "device/onednn.h"

#include <gtest/gtest.h>

#include "../support/gemm_case.h"
#include "backends/backends.h"

namespace culet::test {
namespace {

class OneDnnTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!onednn()) GTEST_SKIP() << onednn().error().message;
  }

  /// Whether the library has more than its reference code for a dtype on this CPU.
  bool has(const char* dtypes) {
    const Problem problem = *Problem::parse("64x64x64:" + std::string(dtypes));
    return backend_->supports(problem, cpu(1)).yes;
  }

  void check(const std::string& text, double tolerance = 0) {
    for (const int threads : {1, 2}) {
      const DeviceSpec device = cpu(threads);
      GemmCase c(text);
      const Support support = backend_->supports(c.problem, device);
      ASSERT_TRUE(support.yes) << text << ": " << support.reason;
      const std::vector<Config> configs = backend_->configs(c.problem, device);
      ASSERT_FALSE(configs.empty()) << text;
      for (const Config& config : configs) {
        c.check(*backend_, config, device, Part::all, -1, tolerance);
        if (HasFatalFailure()) return;
      }
    }
  }

  std::shared_ptr<const Backend> backend_ = make_onednn_backend();
};

TEST_F(OneDnnTest, EveryLayoutPlainAndPacked) {
  for (const char* dtypes : {"f32", "bf16", "bf16*bf16>f32"}) {
    if (!has(dtypes)) continue;
    for (const char* layout : {"tt", "tn", "nt", "nn"}) {
      for (const char* sizes : {"3x5x7", "17x33x65", "64x64x64", "1x100x77", "100x1x77"}) {
        const std::string text = std::string(sizes) + ":" + dtypes + ":layout=" + layout;
        check(text);
        check(text + ":pack=b");
        check(text + ":lda=130:ldb=131:ldd=132");
        check(text + ":lda=130:ldb=131:ldd=132:pack=b");
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(OneDnnTest, Batches) {
  for (const char* keys : {"", ":stridea=0", ":strideb=0"}) {
    check("5x9x11x3:f32" + std::string(keys));
    check("5x9x11x3:f32" + std::string(keys) + ":pack=b");
    check("5x90x110x4:f32:lda=120:ldb=121:ldd=122" + std::string(keys) + ":pack=b");
  }
}

TEST_F(OneDnnTest, PacksOnlyWhereTheProblemAllowsIt) {
  const auto count = [&](const char* text) {
    int packed = 0;
    for (const Config& config : backend_->configs(*Problem::parse(text), cpu(1))) {
      packed += config.get("weights") == "packed" ? 1 : 0;
    }
    return packed;
  };
  EXPECT_EQ(count("16x64x64:f32"), 0);
  EXPECT_EQ(count("16x64x64:f32:pack=b"), 1);
}

TEST_F(OneDnnTest, FusesBiasAndActivation) {
  check("20x33x40:f32:epi=\"acc + bias[n]\"");
  check("20x33x40x2:f32:epi=\"relu(acc + bias[n])\"");
  check("20x33x40:f32:epi=\"relu(acc)\"");
  check("20x33x40:f32:pack=b:epi=\"gelu_tanh(acc + bias[n])\"", 1e-5);
  if (has("bf16")) check("20x33x40:bf16:epi=\"relu(acc + bias[n]:f32)\"");
  if (has("bf16")) check("20x33x40:bf16:epi=\"relu(acc + bias[n])\"");
  const Support support =
      backend_->supports(*Problem::parse("20x33x40:f32:epi=\"relu(acc + bias[n])\""), cpu(1));
  EXPECT_TRUE(support.fuses_epilogue);
}

TEST_F(OneDnnTest, LeavesOtherEpiloguesToASecondStep) {
  const DeviceSpec device = cpu(2);
  for (const char* text :
       {"20x33x40:f32:epi=\"2 * acc + bias[n]\"", "20x33x40:f32:epi=\"acc + c[m,n]\"",
        "20x33x40x3:f32:epi=\"silu(acc) * s[m]\""}) {
    GemmCase c(text);
    const Support support = backend_->supports(c.problem, device);
    ASSERT_TRUE(support.yes) << support.reason;
    EXPECT_FALSE(support.fuses_epilogue) << text;
    const Config config = backend_->configs(problem_of(c.problem, Part::gemm), device).front();
    c.check(*backend_, config, device, Part::gemm, -1, 1e-6);
  }
}

TEST_F(OneDnnTest, RangeOfMSharesOnePackedLayout) {
  const DeviceSpec device = cpu(2);
  GemmCase c("16x70x48:f32:m=1..16:pack=b");
  for (const Config& config : backend_->configs(c.problem, device)) {
    auto plan = c.load(*backend_, config, device);
    ASSERT_TRUE(plan) << plan.error().message;
    for (const std::int64_t m : {1, 5, 16}) c.run_and_compare(*plan, m);
  }
}

TEST_F(OneDnnTest, SaysWhyNot) {
  const auto reason = [&](const char* text) {
    const Support support = backend_->supports(*Problem::parse(text), cpu(1));
    EXPECT_FALSE(support.yes) << text;
    return support.reason;
  };
  EXPECT_EQ(reason("4x4x4:f16"), "f16*f16>f16: only f32*f32>f32 and bf16*bf16>f32 or bf16");
  EXPECT_EQ(reason("4x4x0:f32"), "k=0: it would leave D as it was");
  EXPECT_EQ(reason("4x4x4:f32:m=1..1000"),
            "m=1..1000: more than 256 sizes, each of which needs code");
}

TEST_F(OneDnnTest, ThreadsOfTheCallerComeBack) {
  const OneDnn& library = *onednn();
  if (library.omp_get_max_threads == nullptr) GTEST_SKIP() << "not an OpenMP build";
  const int before = library.omp_get_max_threads();
  check("20x33x40:f32");
  EXPECT_EQ(library.omp_get_max_threads(), before);
}

}  // namespace
}  // namespace culet::test
