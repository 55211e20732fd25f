// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
#include "backends/backends.h"
#include "support/compile_check.h"

namespace culet {
namespace {

Support ask(const std::string& problem) {
  return make_gemv_backend()->supports(Problem::parse(problem).value(),
                                       DeviceSpec::preset("h200").value());
}

TEST(Gemv, NamesTheRuleItRefusesBy) {
  EXPECT_TRUE(ask("1x4096x4096:bf16").yes);
  EXPECT_TRUE(ask("8x100x8:f16").yes);
  EXPECT_NE(ask("9x64x64:bf16").reason.find("m=9"), std::string::npos);
  EXPECT_NE(ask("8x64x64:bf16:m=1..16").reason.find("m=16"), std::string::npos);
  EXPECT_NE(ask("1x64x100:bf16").reason.find("k=100"), std::string::npos);
  EXPECT_NE(ask("1x64x64:f32").reason.find("f32*f32"), std::string::npos);
  EXPECT_NE(ask("1x64x64:bf16:layout=tt").reason.find("layout"), std::string::npos);
  EXPECT_NE(ask("1x64x64:bf16:alignb=2").reason.find("16 bytes"), std::string::npos);
}

TEST(Gemv, TheSumsOfALaneFitIntoTheExchange) {
  const auto backend = make_gemv_backend();
  const DeviceSpec device = DeviceSpec::preset("h200").value();
  for (int m = 1; m <= 8; ++m) {
    const Problem problem = Problem::parse(std::to_string(m) + "x4096x4096:bf16").value();
    const auto configs = backend->configs(problem, device);
    EXPECT_FALSE(configs.empty());
    for (const Config& config : configs) EXPECT_LE(config.get_int("rows") * m, 32);
  }
}

TEST(Gemv, CompilesCleanly) {
  const auto backend = make_gemv_backend();
  for (const char* problem :
       {"1x4096x4096:bf16", "3x4096x4096:f16>f32:const=b", "8x4096x4096:bf16"}) {
    testing::expect_clean_compiles(*backend, problem, "h200", 5);
  }
  testing::expect_clean_compiles(*backend, "4x4096x4096:bf16:epi=\"gelu(acc * s[m] + bias[n])\"",
                                 "a100", 3);
}

}  // namespace
}  // namespace culet
