// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The decode family of Hopper without a GPU: what it refuses, that its whole space fits the device,
// and that samples of it compile without spills.
#include <algorithm>
#include <set>

#include "backends/backends.h"
#include "backends/sm90_stream/stream_config.h"
#include "support/compile_check.h"

namespace culet {
namespace {

using sm90_stream::StreamConfig;
using sm90_stream::StreamShape;

DeviceSpec h200() { return DeviceSpec::preset("h200").value(); }
Problem parse(const std::string& text) { return Problem::parse(text).value(); }

Support ask(const std::string& problem, const char* device = "h200") {
  return make_sm90_stream_backend()->supports(parse(problem), DeviceSpec::preset(device).value());
}

TEST(Sm90Stream, NamesTheRuleItRefusesBy) {
  for (const char* text :
       {"16x4096x4096:bf16", "128x77x200:f16:epi=\"relu(acc)\"", "16x64x64:e4m3*e5m2",
        "16x64x64:e4m3:acc=fast", "16x64x64:s8", "16x64x64:u8*s8>bf16", "16x64x64:bf16>f32"}) {
    EXPECT_TRUE(ask(text).yes) << text << ": " << ask(text).reason;
  }
  const auto expect_no = [](const char* text, const char* rule) {
    EXPECT_NE(ask(text).reason.find(rule), std::string::npos) << text << ": " << ask(text).reason;
  };
  EXPECT_NE(ask("16x64x64:bf16", "a100").reason.find("sm_80"), std::string::npos);
  expect_no("129x64x64:bf16", "m=129");
  expect_no("16x64x100:bf16", "16 bytes");
  expect_no("16x64x64:bf16:ldb=100", "ldb=100");
  expect_no("16x64x72:e4m3", "16 bytes");
  expect_no("16x64x64:bf16:aligna=8", "16");
  expect_no("16x64x64:f32", "f32*f32");
  expect_no("16x64x64:e4m3>e4m3", "e4m3");
  expect_no("16x64x64:bf16:layout=nt", "layout");
  expect_no("16x64x64:f16:acc=f16", "acc=f16");
  expect_no("16x64x0:bf16", "k=0");
}

TEST(Sm90Stream, PromotesEightBitFloatsUnlessFastIsAsked) {
  const StreamConfig c;
  EXPECT_TRUE(StreamShape(c, parse("16x64x64:e4m3")).promote);
  EXPECT_FALSE(StreamShape(c, parse("16x64x64:e4m3:acc=fast")).promote);
  EXPECT_FALSE(StreamShape(c, parse("16x64x64:s8")).promote);
  EXPECT_FALSE(StreamShape(c, parse("16x64x64:bf16")).promote);
}

TEST(Sm90Stream, ConfigurationsPrintAndParse) {
  for (const StreamConfig& c : sm90_stream::space(parse("64x4096x4096:bf16"), h200())) {
    const auto parsed = StreamConfig::parse(c.config());
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, c) << c.config().text();
  }
  const auto refused = [](const char* text) {
    const auto c = StreamConfig::parse(Config::parse(text).value());
    return c ? std::string("accepted") : c.error().message;
  };
  // Without the keys of later versions.
  EXPECT_EQ(refused("rows=64 boxes=2 stages=6 groups=2 cluster=1"), "accepted");
  EXPECT_NE(refused("boxes=2 stages=6 groups=2 cluster=1").find("rows"), std::string::npos);
  EXPECT_NE(refused("rows=60 boxes=2 stages=6 groups=2 cluster=1").find("rows=60"),
            std::string::npos);
  EXPECT_NE(refused("rows=64 boxes=2 stages=2 groups=2 cluster=1").find("stages=2"),
            std::string::npos);
  EXPECT_NE(refused("rows=64 boxes=2 stages=6 a_stages=3 groups=2 cluster=1").find("a_stages=3"),
            std::string::npos);
  EXPECT_NE(refused("rows=64 boxes=2 stages=6 groups=2 cluster=3").find("cluster=3"),
            std::string::npos);
  EXPECT_NE(refused("rows=64 boxes=2 stages=6 groups=2 cluster=4 share=4").find("share=4"),
            std::string::npos);
  EXPECT_NE(refused("rows=64 wide=c boxes=2 stages=6 groups=2 cluster=1").find("wide=c"),
            std::string::npos);
}

TEST(Sm90Stream, EveryConfigurationFitsTheDevice) {
  const DeviceSpec device = h200();
  for (const char* text :
       {"1x256x7168:bf16", "16x4096x4096:bf16", "64x28672x4096:bf16", "128x151936x5120:bf16",
        "8x8x64:bf16", "40x4096x4096:s8", "16x4096x4096:e4m3", "128x2112x7168:e4m3"}) {
    const Problem p = parse(text);
    const auto configs = sm90_stream::space(p, device);
    EXPECT_FALSE(configs.empty()) << text;
    std::set<std::string> seen;
    for (const StreamConfig& c : configs) {
      const std::string name = std::string(text) + " " + c.config().text();
      EXPECT_TRUE(seen.insert(name).second) << name << " twice";
      EXPECT_EQ(sm90_stream::config_error(c, p, device), "") << name;
      const StreamShape shape(c, p);
      EXPECT_LE(shape.shared_bytes(), device.shared_per_block) << name;
      // What the sums are written over, and what is read beyond the wide side.
      EXPECT_GE(shape.shared_bytes(), c.groups * shape.part_bytes()) << name;
      EXPECT_GE(shape.width, p.m_range.high) << name;
      EXPECT_EQ(shape.width % (8 * c.share), 0) << name;
      for (const int stages : {c.stages, c.a_stages}) {
        EXPECT_EQ(stages % c.groups, 0) << name;
        EXPECT_GE(stages, 2 * c.groups) << name << ": a group waits for itself";
      }
      EXPECT_EQ(sm90_stream::tiles_of(c, p) % c.share, 0) << name;
      const auto features = sm90_stream::features_of(c, p, device);
      ASSERT_TRUE(features) << name;
      EXPECT_GT(features->bytes_in_flight, 0) << name;
    }
  }
}

TEST(Sm90Stream, MoreRowsThanAnyGridHasHaveNoConfiguration) {
  // 2^58 rows of B: clusters of eight times eight eighths of a wave are 2^64 (UBSan would tell).
  const Problem p = parse("1x2147483640x64x134217727:bf16:stridea=0:strideb=0");
  EXPECT_TRUE(sm90_stream::space(p, h200()).empty());
}

// A barrier that expects other bytes than its boxes bring waits for ever.
TEST(Sm90Stream, ExpectsTheBytesThatItsBoxesBring) {
  const auto backend = make_sm90_stream_backend();
  const auto& family = dynamic_cast<const KernelFamily&>(*backend);
  for (const char* text :
       {"1x4096x4096:bf16", "17x2112x7168:bf16", "100x520x1040:e4m3", "5x64x4096x3:bf16",
        "9x1000x1008:s8:m=1..33", "40x1000x1008:bf16:m=5..128"}) {
    const Problem p = parse(text);
    for (const StreamConfig& c : sm90_stream::space(p, h200())) {
      const auto spec = family.launch(p, {"sm90_stream", c.config(), Part::all}, h200());
      ASSERT_TRUE(spec) << spec.error().message;
      const TensorMapSpec& a = spec->args[0].map;
      for (const std::int64_t m : {p.m_range.low, p.m_range.low + 4, p.m_range.high}) {
        if (m > p.m_range.high) continue;
        const std::int64_t rows = a.box[1].at(m);
        EXPECT_EQ(spec->args.back().value.at(m), 128 * rows * c.boxes * c.share)
            << text << " " << c.config().text() << " at " << m;
        EXPECT_GE(rows * c.share, m);
        if (c.share == 1) {
          EXPECT_EQ(rows, m);
        }
      }
    }
  }
}

TEST(Sm90Stream, CoordinatesStayWithin32Bits) {
  const auto backend = make_sm90_stream_backend();
  EXPECT_TRUE(backend->configs(parse("7x2147483640x64:bf16"), h200()).empty());
  EXPECT_FALSE(backend->configs(parse("7x2000000000x64:bf16"), h200()).empty());
}

TEST(Sm90Stream, IntegersHaveOnlyTheWidthsOfTheirInstruction) {
  const DeviceSpec device = h200();
  for (const char* text : {"40x4096x4096:s8", "72x6144x4096:u8", "24x4096x4096:s8"}) {
    const Problem p = parse(text);
    for (const StreamConfig& c : sm90_stream::space(p, device)) {
      const std::int64_t n = StreamShape(c, p).narrow();
      EXPECT_TRUE(n <= 24 || n % 16 == 0) << text << " " << c.config().text();
    }
  }
}

TEST(Sm90Stream, CompilesCleanly) {
  const auto backend = make_sm90_stream_backend();
  for (const char* problem :
       {"1x4096x4096:bf16", "64x28672x4096:bf16", "128x4096x14336:f16>f32:const=b",
        "16x2112x7168:bf16:epi=\"silu(acc * s[m] + bias[n]) + c[m,n]\"", "64x4096x4096:e4m3",
        "33x4096x4096:s8:epi=\"acc * s:f32\""}) {
    testing::expect_clean_compiles(*backend, problem, "h200", 5);
  }
}

}  // namespace
}  // namespace culet
