// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Numerics of the decode families, sm90_stream and gemv, on a GPU, through Plan; every result
// exact.
#include "kernels_case.h"

namespace culet {
namespace {

using namespace test;  // NOLINT: the helpers of kernels_case.h

/// A sample of the space: every `stride`-th configuration, all of them at 1.
void check_all(const std::string& problem, const char* family_name, std::size_t stride = 1) {
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

// Between them every configuration of the space for a small, a middle and a wide problem.
TEST(StreamKernel, EveryConfigurationIsExact) {
  CULET_NEEDS_HOPPER();
  for (const char* problem : {"1x264x1032:bf16", "16x4104x520:bf16"}) {
    check_all(problem, "sm90_stream", 2);
    if (HasFatalFailure()) return;
  }
  for (const char* problem : {"64x1000x1000:f16", "128x520x264:bf16>f32", "40x8200x264:bf16"}) {
    check_all(problem, "sm90_stream", 5);
    if (HasFatalFailure()) return;
  }
}

TEST(StreamKernel, EveryTypeIsExact) {
  CULET_NEEDS_HOPPER();
  for (const char* problem :
       {"5x136x1040:e4m3", "16x264x2064:e4m3*e5m2>f32", "64x520x1040:e5m2>f16",
        "33x264x1040:e4m3:acc=fast", "128x264x400:e4m3>f32:acc=fast", "3x136x1040:s8",
        "64x520x2064:s8*u8", "100x264x400:u8>f32:epi=\"acc * s:f32 + bias[n]\"",
        "9x200x1040:u8*s8>s32", "64x136x1032:f16>f32"}) {
    check_all(problem, "sm90_stream", 13);
    if (HasFatalFailure()) return;
  }
}

TEST(StreamKernel, SizesStridesEpiloguesAndRanges) {
  CULET_NEEDS_HOPPER();
  for (const char* problem : {
           "3x7x8:bf16",
           "1x1x8:bf16",
           "9x65x24:f16",
           "17x129x72:bf16:lda=80:ldb=88:ldd=131",
           "33x257x136:bf16>f32:ldd=259",
           "40x258x136:bf16:ldd=262",
           "7x72x64x3:bf16:stridea=0",
           "64x72x64x3:bf16:strideb=0:strided=10000",
           "48x136x264x5:f16",
           "12x200x200:bf16:m=1..20",
           "50x300x264:bf16:m=1..100",
           "5x300x264:bf16:const=b",
           "33x65x128:bf16:epi=\"relu(acc + bias[n])\"",
           "70x66x128:f16:epi=\"acc * s[m]:f32 + c[m,n]\"",
           "16x264x512:e4m3:epi=\"acc * s1:f32 * s2:f32\"",
           "127x333x8184:bf16",
       }) {
    check_all(problem, "sm90_stream", 37);
    if (HasFatalFailure()) return;
  }
}

TEST(StreamKernel, EveryKIsExact) {
  CULET_NEEDS_HOPPER();
  for (int k = 1; k <= 130; ++k) {
    const std::string size = std::to_string(k);
    check("9x40x" + size + ":bf16>f32:lda=136:ldb=136", "sm90_stream",
          "rows=40 boxes=1 stages=4 groups=2 cluster=1");
    if (HasFatalFailure()) return;
    check("40x40x" + size + ":bf16>f32:lda=136:ldb=136", "sm90_stream",
          "rows=24 wide=a boxes=1 stages=6 a_stages=4 groups=2 cluster=1 share=2");
    if (HasFatalFailure()) return;
  }
  for (const char* k : {"1000", "4104", "5376", "7168", "16448"}) {
    check_all(std::string("9x264x") + k + ":bf16>f32", "sm90_stream", 29);
    if (HasFatalFailure()) return;
  }
}

TEST(StreamKernel, TheSameBitsEveryTime) {
  CULET_NEEDS_HOPPER();
  for (const char* config : {
           "rows=64 boxes=2 stages=6 groups=2 cluster=4",
           "rows=32 wide=a boxes=1 stages=12 a_stages=8 groups=4 cluster=2 share=1",
           "rows=64 wide=a boxes=1 stages=8 a_stages=4 groups=2 cluster=1 share=4",
           "rows=40 wide=a boxes=1 stages=8 a_stages=4 groups=2 cluster=2 share=2",
       }) {
    check_repeatable("64x640x8192:bf16", "sm90_stream", config);
    if (HasFatalFailure()) return;
  }
}

TEST(GemvKernel, EveryConfigurationIsExact) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (int m = 1; m <= 8; ++m) {
    check_all(std::to_string(m) + "x263x1032:bf16", "gemv", m == 1 || m == 8 ? 1 : 5);
    if (HasFatalFailure()) return;
  }
}

TEST(GemvKernel, EveryTypeIsExact) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const char* problem :
       {"1x263x2064:e4m3", "2x263x1040:e5m2>f32", "5x100x1040:e4m3*e5m2>f16",
        "8x136x1040:e4m3:acc=fast", "1x263x2064:s8", "3x100x1040:u8*s8", "8x136x1040:s8*u8>f32",
        "4x136x1040:u8>bf16:epi=\"acc * s:f32\"", "6x136x1032:f16>f32"}) {
    check_all(problem, "gemv", 7);
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
           "1x5x0:bf16:lda=8:ldb=8:epi=\"acc + bias[n]\"",
       }) {
    check_all(problem, "gemv", 11);
    if (HasFatalFailure()) return;
  }
}

TEST(GemvKernel, EveryKIsExact) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (int k = 8; k <= 1096; k += 8) {
    const std::string size = std::to_string(k);
    for (const char* config :
         {"math=mma rows=16 unroll=2 warps=4 k_warps=4", "rows=2 unroll=2 warps=8 k_warps=4"}) {
      check("3x40x" + size + ":bf16>f32:lda=1104:ldb=1104", "gemv", config);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace culet
