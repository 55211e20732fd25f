// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Numerics of the decode families, sm90_stream and gemv, on a GPU, through Plan; every result
// exact.
#include "kernels_case.h"

namespace culet {
namespace {

using namespace test;  // NOLINT: the helpers of kernels_case.h

void check_all(const char* problem, const char* family_name, std::size_t stride = 1) {
  std::vector<Config> configs;
  const auto all = family(family_name).configs(take(Problem::parse(problem)), *gpu());
  ASSERT_FALSE(all.empty()) << problem;
  for (std::size_t i = 0; i < all.size(); i += stride) configs.push_back(all[i]);
  warm_up(problem, family_name, configs);
  for (const Config& config : configs) {
    check(problem, family_name, config);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(StreamKernel, EveryConfigurationIsExact) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const char* problem :
       {"1x264x1032:bf16", "16x4104x520:bf16", "64x1000x1000:f16", "128x520x264:bf16>f32"}) {
    check_all(problem, "sm90_stream");
    if (HasFatalFailure()) return;
  }
}

TEST(StreamKernel, SizesStridesEpiloguesAndRanges) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const char* problem : {
           "3x7x8:bf16",
           "1x1x8:bf16",
           "9x65x24:f16",
           "17x129x72:bf16:lda=80:ldb=88:ldd=131",
           "33x257x136:bf16>f32:ldd=259",
           "7x72x64x3:bf16:stridea=0",
           "7x72x64x3:bf16:strideb=0:strided=1000",
           "12x200x200:bf16:m=1..20",
           "5x300x264:bf16:const=b",
           "33x65x128:bf16:epi=\"relu(acc + bias[n])\"",
           "6x66x128:f16:epi=\"acc * s[m]:f32 + c[m,n]\"",
           "127x333x8184:bf16",
       }) {
    check_all(problem, "sm90_stream", 17);
    if (HasFatalFailure()) return;
  }
}

TEST(StreamKernel, EveryKIsExact) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (int k = 1; k <= 130; ++k) {
    const std::string size = std::to_string(k);
    check("9x40x" + size + ":bf16>f32:lda=136:ldb=136", "sm90_stream",
          "rows=40 boxes=1 stages=4 groups=2 cluster=1");
    if (HasFatalFailure()) return;
  }
  for (const char* k : {"1000", "4104", "5376", "7168", "16448"}) {
    check_all((std::string("9x264x") + k + ":bf16>f32").c_str(), "sm90_stream", 13);
    if (HasFatalFailure()) return;
  }
}

TEST(GemvKernel, EveryConfigurationIsExact) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (int m = 1; m <= 8; ++m) {
    check_all((std::to_string(m) + "x263x1032:bf16").c_str(), "gemv");
    if (HasFatalFailure()) return;
  }
}

TEST(GemvKernel, SizesStridesEpiloguesAndRanges) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const char* problem : {
           "1x1x8:bf16",
           "3x7x16:f16>f32",
           "5x65x2056:bf16:lda=2064:ldb=2072:ldd=71",
           "4x72x64x3:bf16:stridea=0",
           "4x72x64x3:bf16:strideb=0:strided=1000",
           "6x200x200:bf16:m=1..7",
           "2x300x264:bf16:const=b",
           "3x65x128:bf16:epi=\"relu(acc + bias[n])\"",
           "8x66x128:f16:epi=\"acc * s[m]:f32 + c[m,n]\"",
           "1x5x0:bf16:epi=\"acc + bias[n]\"",
       }) {
    check_all(problem, "gemv", 5);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace culet
