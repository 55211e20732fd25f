// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A covering set of the general tensor-core kernel's configurations compiles for sm_80 and sm_90a
// without spills or stack frames. No GPU is needed.
#include "../../support/compile_check.h"
#include "backends/backends.h"

namespace culet {
namespace {

struct Case {
  const char* preset;
  const char* problem;
  const char* config;
};

constexpr const char* kBias = "512x512x512:bf16:epi=\"gelu(acc + bias[n]) + c[m,n]\"";
constexpr const char* kOdd = "511x513x515:f16";

const Case kCases[] = {
    {"h200", "512x512x512:bf16", "tile=128x128x32 warps=2x4 stages=4 occupancy=2 raster=m"},
    {"a100", "512x512x512:bf16", "tile=128x128x64 warps=4x2 stages=3 occupancy=1 raster=m"},
    {"a100", "512x512x512:f16:layout=nn", "tile=128x256x32 warps=2x4 stages=4 raster=m"},
    {"h200", "512x512x512:f16:layout=tt", "tile=256x128x32 warps=4x2 stages=4 raster=m"},
    {"h200", kBias, "tile=128x128x32 warps=4x2 stages=4 occupancy=2 raster=m"},
    {"a100", kBias, "tile=64x64x64 warps=2x2 stages=3 occupancy=3 raster=m splits=2"},
    {"h200", kOdd, "tile=128x128x32 warps=2x4 stages=2 occupancy=1 raster=m"},
    {"a100", kOdd, "tile=64x64x32 warps=2x2 stages=2 occupancy=4 raster=m"},
    {"h200", "16x512x515:bf16", "tile=16x64x64 warps=1x4 stages=3 occupancy=4 raster=m"},
    {"a100", "16x512x514:bf16:layout=nt", "tile=16x128x64 warps=1x4 stages=4 raster=m"},
    {"h200", "512x512x512:e4m3*e5m2>bf16", "tile=128x128x64 warps=2x4 stages=3 raster=m"},
    {"a100", "512x512x512:e4m3", "tile=64x128x64 warps=2x4 stages=3 raster=m"},
    {"h200", "512x512x512:s8*u8>s32:layout=nn", "tile=128x128x64 warps=2x4 stages=3 raster=m"},
    {"a100", "512x512x511:u8*s8>s8:layout=tt:epi=\"acc * s[m]\"",
     "tile=64x64x64 warps=2x2 stages=3 raster=m"},
    {"h200", kOdd, "tile=128x128x64 warps=2x2 stages=3 occupancy=2 pack=ab raster=m"},
    {"a100", "511x513x515:bf16:layout=nt",
     "tile=128x128x64 warps=2x4 stages=3 pack=ab raster=m splits=4"},
    {"h200", "512x512x512:s8:layout=nt", "tile=128x128x64 warps=2x4 stages=4 pack=ab raster=m"},
    {"h200", "511x512x515:e4m3:layout=nn", "tile=64x64x64 warps=2x2 stages=4 pack=a raster=m"},
};

class MmaCompile : public ::testing::TestWithParam<Case> {};

TEST_P(MmaCompile, WithoutSpills) {
  const DeviceSpec device = DeviceSpec::preset(GetParam().preset).value();
  testing::expect_clean_build(*make_mma_backend(), GetParam().problem, GetParam().config, device);
}

INSTANTIATE_TEST_SUITE_P(Configurations, MmaCompile, ::testing::ValuesIn(kCases));

}  // namespace
}  // namespace culet
