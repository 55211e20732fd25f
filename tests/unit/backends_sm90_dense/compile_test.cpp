// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A covering set of the Hopper kernel's configurations compiles for sm_90a without spills, stack
// frames or ptxas' warnings about setmaxnreg and serialised WGMMA. No GPU is needed.
#include "../../support/compile_check.h"
#include "backends/backends.h"

namespace culet {
namespace {

struct Case {
  const char* problem;
  const char* config;
};

constexpr const char* kPlain = "4096x4096x4096:bf16";
constexpr const char* kBias = "4096x4096x4096:bf16:epi=\"gelu(acc + bias[n]) + c[m,n]\"";

const Case kCases[] = {
    {kPlain, "tile=128x256x64 cluster=1x1 stages=4 schedule=cooperative raster=m"},
    {kPlain, "tile=128x256x64 cluster=2x1 stages=4 schedule=cooperative raster=n group=16"},
    {kPlain, "tile=256x128x64 cluster=1x2 stages=4 schedule=cooperative raster=m"},
    {kPlain, "tile=256x160x64 cluster=2x1 stages=4 schedule=cooperative raster=m"},
    {kPlain, "tile=256x192x64 cluster=1x2 stages=3 schedule=cooperative raster=m"},
    {kPlain, "tile=192x192x64 cluster=2x1 stages=4 schedule=cooperative raster=m"},
    {kPlain, "tile=128x208x64 cluster=1x1 stages=4 schedule=cooperative raster=m"},
    {kPlain, "tile=128x192x64 cluster=2x1 stages=5 schedule=pingpong raster=m"},
    {kPlain, "tile=64x256x64 cluster=1x1 stages=5 schedule=pingpong raster=m splits=2"},
    {kPlain, "tile=64x64x64 cluster=1x1 stages=6 schedule=cooperative raster=m occupancy=2"},
    {kPlain, "tile=64x128x64 cluster=4x1 stages=8 schedule=pingpong raster=m"},
    {kPlain, "tile=128x128x64 cluster=2x2 stages=6 schedule=pingpong raster=m"},
    {"64x4096x4096:bf16", "tile=64x32x64 cluster=1x1 stages=12 schedule=cooperative raster=m"},
    {"4096x4096x4096:f16>f32",
     "tile=128x256x64 cluster=1x1 stages=4 schedule=cooperative raster=m"},
    {"4096x4097x4096:f16", "tile=128x96x64 cluster=1x2 stages=6 schedule=cooperative raster=m"},
    {kBias, "tile=128x256x64 cluster=2x1 stages=4 schedule=cooperative raster=m"},
    {kBias, "tile=192x128x64 cluster=1x1 stages=5 schedule=cooperative raster=m"},
    {kBias, "tile=128x144x64 cluster=1x1 stages=5 schedule=pingpong raster=m"},
    {kBias, "tile=256x144x64 cluster=1x1 stages=3 schedule=cooperative raster=m"},
    // Clusters that split k.
    {kPlain, "tile=128x128x64 cluster=2x1x2 stages=5 schedule=cooperative raster=m"},
    {kBias, "tile=128x192x64 cluster=1x1x3 stages=3 schedule=cooperative raster=m"},
    {"256x4096x4096:e4m3", "tile=128x128x128 cluster=1x1x2 stages=5 schedule=cooperative raster=m"},
    // Widths that are odd multiples of eight, and the widest tile of three consumers.
    {kPlain, "tile=128x168x64 cluster=2x1 stages=5 schedule=pingpong raster=m"},
    {kPlain, "tile=192x200x64 cluster=1x2 stages=4 schedule=cooperative raster=m"},
    // Turned round.
    {"777x4096x4096:bf16",
     "tile=200x128x64 wide=b cluster=2x4 stages=4 schedule=cooperative raster=m"},
    {"777x4096x4096:bf16",
     "tile=112x256x64 wide=b cluster=4x2 stages=4 schedule=cooperative raster=m"},
    {"777x4096x4096:bf16:epi=\"gelu(acc + bias[n]) + c[m,n]\"",
     "tile=112x128x64 wide=b cluster=1x1 stages=5 schedule=pingpong raster=m"},
    // The other layouts of 16-bit operands.
    {"4096x4096x4096:bf16:layout=nn",
     "tile=128x256x64 cluster=1x2 stages=4 schedule=cooperative raster=m"},
    {"4096x4096x4096:bf16:layout=tt",
     "tile=128x160x64 cluster=2x1 stages=5 schedule=pingpong raster=m"},
    {"4096x4096x4096:f16:layout=nt",
     "tile=128x160x64 cluster=2x1 stages=5 schedule=pingpong raster=m"},
    // 8-bit floats, summed in the tensor core and promoted.
    {"4096x4096x4096:e4m3:acc=fast",
     "tile=128x256x128 cluster=2x1 stages=4 schedule=cooperative raster=m"},
    {"4096x4096x4096:e4m3*e5m2:acc=fast:epi=\"acc * sa:f32 * sb:f32\"",
     "tile=128x160x128 cluster=1x2 stages=5 schedule=pingpong raster=m"},
    {"4096x4096x4096:e4m3", "tile=128x192x128 cluster=2x1 stages=5 schedule=cooperative raster=m"},
    {"4096x4096x4096:e5m2*e4m3>f32",
     "tile=256x128x128 cluster=1x2 stages=4 schedule=cooperative raster=m"},
    {"4096x4096x4096:e4m3:epi=\"gelu(acc * sa:f32 * sb:f32 + bias[n])\"",
     "tile=128x128x128 cluster=2x1 stages=5 schedule=pingpong raster=m"},
    {"4096x4096x4096:s8", "tile=128x256x128 cluster=2x1 stages=4 schedule=cooperative raster=m"},
    {"4096x4096x4096:u8*s8>bf16:epi=\"acc * sa[m]:f32 * sb[n]:f32\"",
     "tile=128x128x128 cluster=1x1 stages=5 schedule=pingpong raster=m"},
};

class Sm90DenseCompile : public ::testing::TestWithParam<Case> {};

TEST_P(Sm90DenseCompile, WithoutSpillsOrWarnings) {
  const auto device = DeviceSpec::preset("h200");
  ASSERT_TRUE(device);
  testing::expect_clean_build(*make_sm90_dense_backend(), GetParam().problem, GetParam().config,
                              *device);
}

INSTANTIATE_TEST_SUITE_P(Configurations, Sm90DenseCompile, ::testing::ValuesIn(kCases));

TEST(CompileCheck, FindsWhatItLooksFor) {
  const std::string clean = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n";
  EXPECT_EQ(compile_complaint(clean), "");
  EXPECT_NE(compile_complaint("8 bytes stack frame, 0 bytes spill stores"), "");
  EXPECT_NE(compile_complaint("0 bytes stack frame, 40 bytes spill stores"), "");
  EXPECT_NE(compile_complaint(clean + "info : (C7510) Potential Performance Loss"), "");
}

}  // namespace
}  // namespace culet
