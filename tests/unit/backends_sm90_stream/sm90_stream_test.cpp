// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
#include "backends/backends.h"
#include "support/compile_check.h"

namespace culet {
namespace {

Support ask(const std::string& problem, const char* device = "h200") {
  return make_sm90_stream_backend()->supports(Problem::parse(problem).value(),
                                              DeviceSpec::preset(device).value());
}

TEST(Sm90Stream, NamesTheRuleItRefusesBy) {
  EXPECT_TRUE(ask("16x4096x4096:bf16").yes);
  EXPECT_TRUE(ask("128x77x200:f16:epi=\"relu(acc)\"").yes);
  EXPECT_NE(ask("16x64x64:bf16", "a100").reason.find("sm_80"), std::string::npos);
  EXPECT_NE(ask("129x64x64:bf16").reason.find("m=129"), std::string::npos);
  EXPECT_NE(ask("16x64x100:bf16").reason.find("16 bytes"), std::string::npos);
  EXPECT_NE(ask("16x64x64:f32").reason.find("f32*f32"), std::string::npos);
  EXPECT_NE(ask("16x64x64:bf16:layout=nt").reason.find("layout"), std::string::npos);
  EXPECT_NE(ask("16x64x0:bf16").reason.find("k=0"), std::string::npos);
}

TEST(Sm90Stream, EveryConfigurationFitsTheDevice) {
  const auto backend = make_sm90_stream_backend();
  const DeviceSpec device = DeviceSpec::preset("h200").value();
  for (const char* text : {"1x256x7168:bf16", "16x4096x4096:bf16", "64x28672x4096:bf16",
                           "128x151936x5120:bf16", "8x8x64:bf16"}) {
    const Problem problem = Problem::parse(text).value();
    const auto configs = backend->configs(problem, device);
    EXPECT_FALSE(configs.empty()) << text;
    for (const Config& config : configs) {
      const Step step{"sm90_stream", config, Part::all};
      const auto launch = static_cast<const KernelFamily&>(*backend).launch(problem, step, device);
      ASSERT_TRUE(launch) << launch.error().message;
      EXPECT_LE(launch->shared_bytes, device.shared_per_block) << text << " " << config.text();
      EXPECT_EQ(config.get_int("stages") % config.get_int("groups"), 0) << config.text();
      EXPECT_GE(config.get_int("stages"), 2 * config.get_int("groups"))
          << "a group waits for itself";
      EXPECT_LE(config.get_int("rows"), 256) << "a TMA box";
      EXPECT_LE(launch->block[0], 1024u);
    }
  }
}

TEST(Sm90Stream, CompilesCleanly) {
  const auto backend = make_sm90_stream_backend();
  for (const char* problem :
       {"1x4096x4096:bf16", "64x28672x4096:bf16", "128x4096x14336:f16>f32:const=b",
        "16x2112x7168:bf16:epi=\"silu(acc * s[m] + bias[n]) + c[m,n]\""}) {
    testing::expect_clean_compiles(*backend, problem, "h200", 6);
  }
}

}  // namespace
}  // namespace culet
