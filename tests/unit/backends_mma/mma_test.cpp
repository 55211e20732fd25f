// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The general tensor-core family: what it refuses and why, configurations that keep the kernel's
// rules, how operands are read, launches.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "backends/backends.h"
#include "backends/mma/mma_config.h"

namespace culet {
namespace {

Problem problem(const std::string& text) {
  auto parsed = Problem::parse(text);
  EXPECT_TRUE(parsed) << text << ": " << parsed.error().message;
  return parsed.value();
}

DeviceSpec preset(const char* name) { return DeviceSpec::preset(name).value(); }

const char* const kProblems[] = {
    "1x4096x4096:bf16",
    "8x1000x777:f16:layout=tt",
    "1023x1025x1027:bf16",
    "257x129x65x3:bf16:layout=nt",
    "64x64x100:e4m3*e5m2>bf16",
    "33x65x31:s8",
    "33x65x31:u8*s8>s8:layout=nn:epi=\"acc * s\"",
    "3x5x0:bf16:epi=\"acc + bias[n]\"",
    "4096x4096x4096:bf16:aligna=2:alignb=2:alignd=2",
    "64x50257x2048:f16>f32",
    "4096x8x512:bf16:layout=nn",
    "127x333x8191:bf16:m=1..300",
};

TEST(Mma, EveryConfigurationKeepsTheRules) {
  const auto backend = make_mma_backend();
  for (const char* name : {"h200", "a100"}) {
    const DeviceSpec device = preset(name);
    for (const char* text : kProblems) {
      const Problem p = problem(text);
      EXPECT_TRUE(backend->supports(p, device).yes) << text;
      const auto configs = backend->configs(p, device);
      EXPECT_FALSE(configs.empty()) << text;
      std::set<std::string> seen;
      for (const Config& config : configs) {
        EXPECT_TRUE(seen.insert(config.text()).second) << config.text();
        const auto c = mma::MmaConfig::parse(config);
        ASSERT_TRUE(c) << config.text() << ": " << c.error().message;
        EXPECT_EQ(c->config(), config);
        EXPECT_EQ(mma::config_error(*c, p, device), "") << config.text();
        EXPECT_LE(mma::registers(*c, p), 255) << config.text();
        const auto features = backend->features(p, config, device);
        ASSERT_TRUE(features);
        EXPECT_GT(features->tiles, 0);
      }
    }
  }
}

TEST(Mma, SmallProblemsHaveAConfiguration) {
  const auto backend = make_mma_backend();
  const DeviceSpec device = preset("a100");
  for (const int m : {1, 2, 15, 16, 17, 40, 100}) {
    for (const int n : {1, 7, 16, 31, 33, 64, 65, 200}) {
      for (const char* type : {"f16", "e5m2", "s8"}) {
        const std::string text = std::to_string(m) + "x" + std::to_string(n) + "x16:" + type;
        EXPECT_FALSE(backend->configs(problem(text), device).empty()) << text;
      }
    }
  }
}

TEST(Mma, NamesTheRuleItRefusesBy) {
  const auto backend = make_mma_backend();
  const auto reason = [&](const char* text, const char* architecture) {
    DeviceSpec device = preset("a100");
    device.architecture = architecture;
    const Support answer = backend->supports(problem(text), device);
    EXPECT_FALSE(answer.yes) << text;
    return answer.reason;
  };
  EXPECT_NE(reason("1x1x1:bf16", "sm_75").find("sm_80"), std::string::npos);
  EXPECT_NE(reason("1x1x1:f32", "sm_90a").find("f32"), std::string::npos);
  EXPECT_NE(reason("1x1x1:f64", "sm_80").find("f64"), std::string::npos);
}

TEST(Mma, RefusesConfigurationsByName) {
  const DeviceSpec device = preset("h200");
  const Problem p = problem("512x512x128:bf16");
  const auto error = [&](const std::string& text) {
    const auto c = mma::MmaConfig::parse(Config::parse(text).value());
    return c ? mma::config_error(*c, p, device) : c.error().message;
  };
  EXPECT_EQ(error("tile=128x128x32 warps=2x4 raster=m"), "");
  EXPECT_NE(error("tile=128x128x32 warps=2x4").find("raster"), std::string::npos);
  EXPECT_NE(error("tile=128x128 warps=2x4 raster=m").find("tile"), std::string::npos);
  EXPECT_NE(error("tile=128x40x32 warps=2x4 raster=m").find("warps"), std::string::npos);
  EXPECT_NE(error("tile=256x256x32 warps=2x4 raster=m").find("sums"), std::string::npos);
  EXPECT_NE(error("tile=64x64x32 warps=1x1 raster=m").find("warps"), std::string::npos);
  EXPECT_NE(error("tile=64x64x32 warps=2x2 raster=m splits=5").find("splits"), std::string::npos);
  EXPECT_NE(error("tile=64x64x32 warps=2x2 raster=m stages=1").find("stages"), std::string::npos);
  EXPECT_NE(error("tile=64x64x32 warps=2x2 raster=m pack=c").find("pack"), std::string::npos);
  EXPECT_NE(error("tile=64x64x128 warps=2x2 raster=m").find("256 bytes"), std::string::npos);
  EXPECT_NE(error("tile=128x256x64 warps=2x4 raster=m stages=8").find("shared memory"),
            std::string::npos);
}

TEST(Mma, ReadsEachOperandAsItsOwnAlignmentAllows) {
  const auto a = [](const char* text) { return mma::access_a(problem(text)); };
  const auto b = [](const char* text) { return mma::access_b(problem(text)); };
  EXPECT_EQ(a("64x64x64:bf16").bytes, 16);
  EXPECT_EQ(a("64x64x68:bf16").bytes, 8);
  EXPECT_EQ(a("64x64x70:bf16").bytes, 4);
  EXPECT_EQ(a("64x64x63:bf16").bytes, 2);
  EXPECT_TRUE(a("64x64x63:bf16").through_registers());
  // A is [64, k] and B, row-major, [k, 64]: an odd k matters to A alone.
  EXPECT_FALSE(b("64x64x63:bf16:layout=tt").through_registers());
  EXPECT_TRUE(a("64x64x63:bf16:layout=tt").through_registers());
  EXPECT_EQ(b("64x64x64:bf16:alignb=4").bytes, 4);
  EXPECT_EQ(a("64x64x64x2:bf16:stridea=4100").bytes, 8);
  EXPECT_EQ(a("64x64x62:s8").bytes, 2);
  EXPECT_TRUE(a("64x64x62:s8").through_registers());
  EXPECT_FALSE(a("64x64x60:s8").through_registers());
  EXPECT_TRUE(a("64x64x64:s8:layout=nn").transposes);
  EXPECT_TRUE(b("64x64x64:s8:layout=tt").transposes);
  EXPECT_FALSE(b("64x64x64:bf16:layout=tt").transposes);
}

TEST(Mma, LaunchCoversEveryTileAndPart) {
  const auto backend = make_mma_backend();
  const auto& family = dynamic_cast<const KernelFamily&>(*backend);
  const Step step{"mma", Config::parse("tile=64x64x32 warps=2x2 raster=m splits=2").value(),
                  Part::all};
  const auto spec = family.launch(problem("100x100x100x3:bf16:m=0..100"), step, preset("a100"));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->grid[0].at(100), 2 * 2 * 3 * 2);
  EXPECT_EQ(spec->grid[0].at(1), 1 * 2 * 3 * 2);
  EXPECT_EQ(spec->grid[0].at(0), 0);
  EXPECT_EQ(spec->block[0], 128U);
  EXPECT_EQ(spec->shared_bytes, 4U * (64 + 64) * 64);
  // A counter for each tile, and 64 x 64 sums of 4 bytes for each part.
  EXPECT_GE(spec->zeroed_prefix, 2 * 2 * 3 * 4);
  EXPECT_EQ(spec->workspace_bytes.at(100) - spec->zeroed_prefix, 2 * 2 * 3 * 2 * 64 * 64 * 4);
}

TEST(Mma, PacksOnlyWhatNeedsItAndIsReadOften) {
  const DeviceSpec device = preset("h200");
  const auto packs = [&](const char* text) {
    std::set<std::string> all;
    for (const auto& c : mma::space(problem(text), device)) {
      all.insert(std::string(c.pack_a ? "a" : "") + (c.pack_b ? "b" : ""));
    }
    return all;
  };
  using Set = std::set<std::string>;
  EXPECT_EQ(packs("1024x1024x1024:bf16"), (Set{""}));
  EXPECT_EQ(packs("1023x1025x1027:bf16"), (Set{"", "ab"}));
  EXPECT_EQ(packs("8x4096x4095:bf16"), (Set{"", "a"}));
  EXPECT_EQ(packs("512x512x510:bf16:ldb=511"), (Set{"", "b", "ab"}));
  EXPECT_EQ(packs("512x512x512:s8:layout=nt"), (Set{"", "ab"}));
  EXPECT_EQ(packs("512x512x512:bf16:layout=nt"), (Set{""}));
}

TEST(Mma, RowsTooLongToCountInBytesAreNotPacked) {
  const DeviceSpec device = preset("h200");
  const auto error = [&](const char* text, const char* config) {
    const auto c = mma::MmaConfig::parse(Config::parse(config).value());
    return mma::config_error(*c, problem(text), device);
  };
  const char* packed = "tile=64x64x64 warps=2x2 raster=m pack=b";
  EXPECT_EQ(error("1x1x1000000001:bf16", packed), "");
  EXPECT_NE(error("1x1x1073741825:bf16", packed).find("a row of 2147483650 bytes"),
            std::string::npos);
  EXPECT_EQ(error("1x1x1073741825:bf16", "tile=64x64x64 warps=2x2 raster=m"), "");
}

TEST(Mma, PacksBeyondSixtyFourBitsAreRefused) {
  // 2^66 bytes of each operand: what is left of them in 64 bits is 0.
  const Problem p = problem("64x64x536870912x1073741824:bf16:stridea=1:strideb=1");
  const auto error = [&](const char* text) {
    const auto c = mma::MmaConfig::parse(Config::parse(text).value());
    return mma::config_error(*c, p, preset("h200"));
  };
  EXPECT_EQ(error("tile=64x64x64 warps=2x2 raster=m"), "");
  for (const char* packed :
       {"tile=64x64x64 warps=2x2 raster=m pack=a", "tile=64x64x64 warps=2x2 raster=m pack=b"}) {
    EXPECT_EQ(error(packed).find("pack: "), 0U) << packed << ": " << error(packed);
  }
}

TEST(Mma, PackedOperandsHaveTheirPlaceInTheWorkspace) {
  const auto backend = make_mma_backend();
  const auto& family = dynamic_cast<const KernelFamily&>(*backend);
  const auto launch = [&](const char* text, const char* config) {
    const Step step{"mma", Config::parse(config).value(), Part::all};
    const auto spec = family.launch(problem(text), step, preset("h200"));
    EXPECT_TRUE(spec) << spec.error().message;
    return spec.value();
  };
  // k is padded to 128 in both; A has room for two tiles of 64 rows, B as many rows as columns.
  const auto both =
      launch("100x101x103x3:bf16:m=0..100", "tile=64x64x64 warps=2x2 pack=ab raster=m");
  EXPECT_EQ(both.zeroed_prefix, 256);
  EXPECT_EQ(both.workspace_bytes.at(100), 256 + 3 * (128 + 101) * 128 * 2);
  EXPECT_EQ(both.workspace_bytes.at(1), 256 + 3 * (64 + 101) * 128 * 2);
  // Lines side by side: rows of k, a multiple of 8 lines long. One B for all batch entries.
  const auto lines =
      launch("100x101x103x3:bf16:layout=nt:strideb=0", "tile=64x64x64 warps=2x2 pack=ab raster=m");
  EXPECT_EQ(lines.workspace_bytes.at(100), 256 + 103 * 3 * 128 * 2 + 21504);
  // Bytes become contiguous in k. A pack and parts of sums: both counters, then all of them.
  const auto bytes =
      launch("100x64x256:s8:layout=nt", "tile=64x64x64 warps=2x2 pack=a raster=m splits=2");
  EXPECT_EQ(bytes.zeroed_prefix, 512);
  EXPECT_EQ(bytes.workspace_bytes.at(100), 512 + 128 * 256 + 2 * 2 * 64 * 64 * 4);
}

TEST(Mma, ManySplitsOfKFillTheDeviceWhereTilesAreFew) {
  const auto backend = make_mma_backend();
  const DeviceSpec device = preset("h200");
  int most = 0;
  for (const auto& c : mma::space(problem("127x333x8191:bf16"), device)) {
    most = std::max(most, c.splits);
  }
  EXPECT_EQ(most, 64);
}

}  // namespace
}  // namespace culet
