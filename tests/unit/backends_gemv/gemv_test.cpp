// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The GEMV family without a GPU: what it refuses, what its space promises, and that samples of it
// compile without spills.
#include "backends/backends.h"
#include "backends/gemv/gemv_config.h"
#include "support/compile_check.h"

namespace culet {
namespace {

using gemv::GemvConfig;

Problem parse(const std::string& text) { return Problem::parse(text).value(); }

Support ask(const std::string& problem) {
  return make_gemv_backend()->supports(parse(problem), DeviceSpec::preset("h200").value());
}

TEST(Gemv, NamesTheRuleItRefusesBy) {
  for (const char* text : {"1x4096x4096:bf16", "8x100x8:f16", "1x100x16:e4m3*e5m2",
                           "8x100x32:s8*u8", "3x5x16:e5m2>f16:acc=fast"}) {
    EXPECT_TRUE(ask(text).yes) << text << ": " << ask(text).reason;
  }
  EXPECT_NE(ask("9x64x64:bf16").reason.find("m=9"), std::string::npos);
  EXPECT_NE(ask("8x64x64:bf16:m=1..16").reason.find("m=16"), std::string::npos);
  EXPECT_NE(ask("1x64x100:bf16").reason.find("k=100"), std::string::npos);
  EXPECT_NE(ask("1x64x100:bf16:lda=104:ldb=104").reason.find("k=100"), std::string::npos);
  EXPECT_NE(ask("1x64x64:f32").reason.find("f32*f32"), std::string::npos);
  EXPECT_NE(ask("1x64x64:bf16:layout=tt").reason.find("layout"), std::string::npos);
  EXPECT_NE(ask("1x64x64:bf16:alignb=2").reason.find("alignb=2"), std::string::npos);
}

TEST(Gemv, SpaceIsWithinTheKernelsRules) {
  for (const char* preset : {"h200", "a100"}) {
    const DeviceSpec device = DeviceSpec::preset(preset).value();
    bool clusters = false, mma = false;
    for (int m = 1; m <= 8; ++m) {
      const Problem p = parse(std::to_string(m) + "x256x7168:bf16");
      const auto configs = gemv::space(p, device);
      EXPECT_FALSE(configs.empty());
      for (const GemvConfig& c : configs) {
        const std::string name = c.config().text();
        clusters |= c.cluster > 1;
        mma |= c.mma;
        if (!c.mma) {
          EXPECT_LE(c.rows * m, 32) << name << ": one sum a lane after the exchange";
        }
        EXPECT_LE(gemv::occupancy(c, p, device) * c.warps * 32 * gemv::registers(c, p),
                  device.registers_per_unit)
            << name;
        const auto parsed = GemvConfig::parse(c.config());
        ASSERT_TRUE(parsed) << parsed.error().message;
        EXPECT_EQ(parsed->config(), c.config());
        EXPECT_EQ(gemv::config_error(c, p, device), "") << name;
      }
    }
    EXPECT_TRUE(mma);
    EXPECT_EQ(clusters, std::string(preset) == "h200");
  }
}

TEST(Gemv, RefusesConfigurationsInOneLine) {
  const auto refused = [](const char* text) {
    const auto c = GemvConfig::parse(Config::parse(text).value());
    return c ? std::string("accepted") : c.error().message;
  };
  EXPECT_EQ(refused("rows=2 unroll=2 warps=8 k_warps=1"), "accepted");
  EXPECT_NE(refused("rows=3 unroll=2 warps=8 k_warps=1").find("rows=3"), std::string::npos);
  EXPECT_NE(refused("rows=2 unroll=2 warps=4 k_warps=8").find("k_warps=8"), std::string::npos);
  EXPECT_NE(refused("math=mma rows=8 unroll=2 warps=4 k_warps=1").find("rows=8"),
            std::string::npos);
  EXPECT_NE(refused("math=x rows=8 unroll=2 warps=4 k_warps=1").find("math=x"), std::string::npos);
  const Problem p = parse("8x64x4096:bf16");
  GemvConfig c;
  c.rows = 8;
  EXPECT_NE(gemv::config_error(c, p, DeviceSpec::preset("h200").value()).find("rows=8"),
            std::string::npos);
}

TEST(Gemv, CompilesCleanly) {
  const auto backend = make_gemv_backend();
  for (const char* problem : {"1x4096x4096:bf16", "3x4096x4096:f16>f32:const=b", "8x4096x4096:bf16",
                              "2x4096x4096:e4m3", "8x4096x4096:s8*u8"}) {
    testing::expect_clean_compiles(*backend, problem, "h200", 5);
  }
  testing::expect_clean_compiles(*backend, "4x4096x4096:bf16:epi=\"gelu(acc * s[m] + bias[n])\"",
                                 "a100", 3);
}

}  // namespace
}  // namespace culet
