// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The general CUDA family: it refuses nothing that is valid, its configurations keep the rules of
// the kernel, and a covering set of them compiles cleanly.
#include <gtest/gtest.h>

#include <set>

#include "../../support/compile_check.h"
#include "backends/backends.h"
#include "backends/simt/simt_config.h"

namespace culet {
namespace {

Problem problem(const std::string& text) {
  auto parsed = Problem::parse(text);
  EXPECT_TRUE(parsed) << text << ": " << parsed.error().message;
  return parsed.value();
}

const char* const kProblems[] = {
    "1x4096x4096:bf16",
    "8x1000x777:f16:layout=tt",
    "100x100x100:f64",
    "257x129x65x3:f32:layout=nt",
    "64x64x100:e4m3*e5m2>bf16",
    "33x65x31:s8",
    "33x65x31:u8*s8>s8:layout=nn:epi=\"acc * s\"",
    "64x64x64:tf32",
    "3x5x0:bf16:epi=\"acc + bias[n]\"",
    "4096x4096x4096:bf16:aligna=2:alignb=2:alignd=2",
};

TEST(Simt, AnswersEveryValidProblemOnEveryPart) {
  const auto backend = make_simt_backend();
  for (const char* preset : {"h200", "a100"}) {
    const DeviceSpec device = DeviceSpec::preset(preset).value();
    for (const char* text : kProblems) {
      const Problem p = problem(text);
      EXPECT_TRUE(backend->supports(p, device).yes) << text;
      const auto configs = backend->configs(p, device);
      EXPECT_FALSE(configs.empty()) << text;
      std::set<std::string> seen;
      for (const Config& config : configs) {
        EXPECT_TRUE(seen.insert(config.text()).second) << config.text();
        const auto c = simt::SimtConfig::parse(config);
        ASSERT_TRUE(c) << config.text();
        EXPECT_EQ(c->config(), config);
        EXPECT_EQ(simt::config_error(*c, p), "");
        const auto features = backend->features(p, config, device);
        ASSERT_TRUE(features);
        EXPECT_GT(features->tiles, 0);
      }
    }
  }
}

TEST(Simt, EverySmallProblemHasAConfiguration) {
  const auto backend = make_simt_backend();
  const DeviceSpec device = DeviceSpec::preset("h200").value();
  for (int m = 1; m <= 40; ++m) {
    for (int n : {1, 7, 16, 31, 32, 33, 64, 65, 200}) {
      for (const char* type : {"f32", "f64", "bf16", "s8"}) {
        const std::string text = std::to_string(m) + "x" + std::to_string(n) + "x16:" + type;
        EXPECT_FALSE(backend->configs(Problem::parse(text).value(), device).empty()) << text;
      }
    }
  }
}

TEST(Simt, RefusesPartsThatAreTooOldOrNoPartAtAll) {
  DeviceSpec device = DeviceSpec::preset("a100").value();
  device.architecture = "sm_61";
  const Support answer = make_simt_backend()->supports(problem("1x1x1:f32"), device);
  EXPECT_FALSE(answer.yes);
  EXPECT_NE(answer.reason.find("sm_61"), std::string::npos);
}

TEST(Simt, LoadsAreAsWideAsEveryLineAllows) {
  EXPECT_EQ(simt::vectors_of(problem("64x64x64:bf16")).a, 8);
  EXPECT_EQ(simt::vectors_of(problem("64x64x68:bf16")).a, 4);
  EXPECT_EQ(simt::vectors_of(problem("64x64x63:bf16")).a, 1);
  EXPECT_EQ(simt::vectors_of(problem("64x64x64:bf16:alignb=4")).b, 2);
  EXPECT_EQ(simt::vectors_of(problem("64x64x64x2:bf16:stridea=4100")).a, 4);
  EXPECT_EQ(simt::vectors_of(problem("64x64x64:f64")).a, 2);
  EXPECT_EQ(simt::vectors_of(problem("64x64x64:e4m3>bf16")).a, 8);
}

TEST(Simt, TheRowsKernelServesTheWholeRange) {
  for (const auto& c : simt::space(problem("1x64x64:bf16:m=1..5"))) {
    if (c.rows_kernel) {
      EXPECT_EQ(c.rows, 8);
    }
  }
  for (const auto& c : simt::space(problem("1x64x64:bf16:m=1..9"))) EXPECT_FALSE(c.rows_kernel);
}

TEST(Simt, LaunchCoversEveryTile) {
  const auto backend = make_simt_backend();
  const auto& family = dynamic_cast<const KernelFamily&>(*backend);
  const Step step{"simt", Config::parse("kernel=tile tile=64x64x16 thread=4x4").value(), Part::all};
  const auto spec =
      family.launch(problem("100x100x10x3:f32:m=0..100"), step, DeviceSpec::preset("a100").value());
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->grid[0].at(100), 2 * 2 * 3);
  EXPECT_EQ(spec->grid[0].at(1), 1 * 2 * 3);
  EXPECT_EQ(spec->grid[0].at(0), 0);
  EXPECT_EQ(spec->block[0], 256U);
}

struct Case {
  const char* preset;
  const char* problem;
  const char* config;
};

const Case kCases[] = {
    {"a100", "512x512x512:f32", "kernel=tile tile=128x128x16 thread=8x8"},
    {"a100", "512x512x512:f64:layout=nt", "kernel=tile tile=128x64x8 thread=8x4"},
    {"a100", "512x512x511:bf16:layout=nn:epi=\"gelu_tanh(acc + bias[n])\"",
     "kernel=tile tile=64x64x16 thread=4x4"},
    {"h200", "512x512x512:e4m3*e5m2>e4m3:epi=\"acc * s\"", "kernel=tile tile=64x64x16 thread=4x4"},
    {"a100", "16x512x512:u8*s8>s8:epi=\"acc * s[m]\"", "kernel=tile tile=16x128x16 thread=2x8"},
    {"a100", "8x512x512:bf16", "kernel=rows rows=8 columns=2 warps=4x1"},
    {"h200", "8x512x512:bf16:layout=tt", "kernel=rows rows=8 columns=8 warps=4x1"},
    {"a100", "1x512x512:f64", "kernel=rows rows=1 columns=1 warps=1x4"},
    {"a100", "1x512x512:s8", "kernel=rows rows=1 columns=2 warps=1x4"},
};

class SimtCompile : public ::testing::TestWithParam<Case> {};

TEST_P(SimtCompile, WithoutSpills) {
  const DeviceSpec device = DeviceSpec::preset(GetParam().preset).value();
  testing::expect_clean_build(*make_simt_backend(), GetParam().problem, GetParam().config, device);
}

INSTANTIATE_TEST_SUITE_P(Configurations, SimtCompile, ::testing::ValuesIn(kCases));

}  // namespace
}  // namespace culet
