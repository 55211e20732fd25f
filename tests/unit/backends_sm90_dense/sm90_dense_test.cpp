// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The Hopper family's answers, space, launches and features, from plain device data.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backends/backends.h"
#include "backends/sm90_dense/dense_config.h"
#include "culet/ranking.h"

namespace culet {
namespace {

DeviceSpec h200() { return DeviceSpec::preset("h200").value(); }

Problem problem(const std::string& text) {
  auto parsed = Problem::parse(text);
  EXPECT_TRUE(parsed) << text << ": " << parsed.error().message;
  return parsed.value();
}

std::string refusal(const std::string& text, const DeviceSpec& device = h200()) {
  const Support answer = make_sm90_dense_backend()->supports(problem(text), device);
  return answer.yes ? "yes" : answer.reason;
}

TEST(Sm90DenseSupports, SaysYes) {
  EXPECT_EQ(refusal("16x4096x4096:bf16"), "yes");
  EXPECT_EQ(refusal("333x1023x520x3:f16>f32"), "yes");
  EXPECT_EQ(refusal("100x101x99:bf16:lda=104:ldb=112"), "yes");  // k itself may be anything
  EXPECT_EQ(refusal("64x64x64:bf16:epi=\"silu(acc * s[m]) + c[m,n]\""), "yes");
  for (const char* layout : {"tn", "tt", "nn", "nt"}) {
    EXPECT_EQ(refusal(std::string("104x112x99:bf16:lda=104:ldb=112:layout=") + layout), "yes");
  }
  for (const char* types : {"e4m3", "e4m3*e5m2:acc=fast", "e5m2*e4m3>f32", "e5m2:acc=f16", "s8",
                            "u8*s8", "s8*u8>bf16", "u8>s32", "f16>f32"}) {
    EXPECT_EQ(refusal(std::string("100x100x112:") + types), "yes") << types;
  }
  EXPECT_EQ(refusal("64x64x64x7:bf16:stridea=0:strideb=8"), "yes");
}

TEST(Sm90DenseSupports, NamesTheRule) {
  EXPECT_EQ(refusal("64x64x100:bf16"), "k=100: TMA needs rows of a multiple of 16 bytes");
  EXPECT_EQ(refusal("64x64x96:bf16:lda=100"), "lda=100: TMA needs rows of a multiple of 16 bytes");
  EXPECT_EQ(refusal("64x64x96:bf16:ldb=100"), "ldb=100: TMA needs rows of a multiple of 16 bytes");
  EXPECT_NE(refusal("64x64x64:bf16:aligna=8").find("aligna=8"), std::string::npos);
  EXPECT_NE(refusal("64x64x64:f32").find("bf16"), std::string::npos);
  EXPECT_EQ(refusal("64x64x64:e4m3:layout=tt"),
            "layout: WGMMA takes e4m3 operands contiguous in k only (tn)");
  EXPECT_EQ(refusal("64x100x64:bf16:layout=tt"), "n=100: TMA needs rows of a multiple of 16 bytes");
  EXPECT_EQ(refusal("100x64x64:bf16:layout=nn"), "m=100: TMA needs rows of a multiple of 16 bytes");
  EXPECT_EQ(refusal("64x64x72:s8"), "k=72: TMA needs rows of a multiple of 16 bytes");
  EXPECT_EQ(refusal("64x64x64x2:bf16:stridea=4100"),
            "stridea=4100: TMA needs batches a multiple of 16 bytes, less than 2^40, apart");
  EXPECT_NE(refusal("64x64x64:s8>s8").find("d=s8"), std::string::npos);
  EXPECT_NE(refusal("64x64x64:bf16", DeviceSpec::preset("a100").value()).find("sm_80"),
            std::string::npos);
  EXPECT_NE(refusal("64x64x0:bf16").find("k=0"), std::string::npos);
}

TEST(Sm90DenseConfig, TextRoundTrips) {
  bool turned = false;
  for (const auto& c : sm90_dense::space(problem("1000x1000x4096:bf16"), h200())) {
    turned |= c.turned;
    const auto again = sm90_dense::DenseConfig::parse(c.config());
    ASSERT_TRUE(again) << c.config().text() << ": " << again.error().message;
    EXPECT_EQ(again->config(), c.config());
  }
  EXPECT_TRUE(turned);
}

TEST(Sm90DenseConfig, RefusesWhatTheKernelCannotDo) {
  const auto parse = [](const char* text) {
    return sm90_dense::DenseConfig::parse(Config::parse(text).value()).has_value();
  };
  EXPECT_TRUE(parse("tile=128x256x64 cluster=1x1 stages=4 schedule=cooperative raster=m"));
  EXPECT_FALSE(parse("tile=128x256x32 cluster=1x1 stages=4 schedule=cooperative raster=m"));
  EXPECT_FALSE(parse("tile=100x256x64 cluster=1x1 stages=4 schedule=cooperative raster=m"));
  EXPECT_FALSE(parse("tile=128x250x64 cluster=1x1 stages=4 schedule=cooperative raster=m"));
  EXPECT_FALSE(parse("tile=256x256x64 cluster=1x1 stages=4 schedule=cooperative raster=m"));
  EXPECT_FALSE(parse("tile=192x256x64 cluster=1x1 stages=4 schedule=cooperative raster=m"));
  EXPECT_TRUE(parse("tile=64x128x64 cluster=4x1 stages=4 schedule=cooperative raster=m"));
  EXPECT_TRUE(parse("tile=64x128x64 cluster=2x2 stages=4 schedule=cooperative raster=m"));
  EXPECT_FALSE(parse("tile=128x256x64 cluster=4x4 stages=4 schedule=cooperative raster=m"));
  EXPECT_FALSE(parse("tile=128x256x64 cluster=3x1 stages=4 schedule=cooperative raster=m"));
  EXPECT_TRUE(parse("tile=128x168x64 cluster=1x2 stages=4 schedule=pingpong raster=m"));
  EXPECT_TRUE(parse("tile=128x192x64 cluster=2x1x3 stages=4 schedule=cooperative raster=m"));
  EXPECT_FALSE(parse("tile=128x128x64 cluster=1x1x3 stages=4 schedule=cooperative raster=m"));
  EXPECT_FALSE(parse("tile=128x128x64 cluster=1x1x2 stages=4 schedule=pingpong raster=m"));
  EXPECT_FALSE(
      parse("tile=128x128x64 cluster=1x1x2 stages=4 schedule=cooperative raster=m splits=2"));
  EXPECT_FALSE(parse("tile=128x256x64 cluster=4x1x4 stages=4 schedule=cooperative raster=m"));
  EXPECT_TRUE(parse("tile=136x128x64 wide=b cluster=4x2 stages=4 schedule=cooperative raster=m"));
  EXPECT_FALSE(parse("tile=128x136x64 wide=b cluster=1x1 stages=4 schedule=cooperative raster=m"));
  EXPECT_FALSE(parse("tile=128x128x64 wide=c cluster=1x1 stages=4 schedule=cooperative raster=m"));
  EXPECT_FALSE(parse("tile=128x172x64 cluster=1x2 stages=4 schedule=pingpong raster=m"));
  EXPECT_FALSE(parse("tile=128x256x64 cluster=1x1 stages=4 schedule=serial raster=m"));
  EXPECT_FALSE(parse("tile=128x256x64 cluster=1x1 stages=0 schedule=cooperative raster=m"));
}

TEST(Sm90DenseConfig, FollowsTheOperands) {
  const auto error = [](const char* problem_text, const char* tile) {
    const auto config =
        Config::parse(std::string(tile) + " stages=3 schedule=cooperative raster=m");
    const auto c = sm90_dense::DenseConfig::parse(config.value());
    EXPECT_TRUE(c) << tile;
    return sm90_dense::config_error(*c, problem(problem_text), h200());
  };
  constexpr const char* kBf16 = "256x256x256:bf16";
  EXPECT_EQ(error(kBf16, "tile=128x168x64 cluster=1x2"), "");
  EXPECT_EQ(error(kBf16, "tile=128x168x64 cluster=2x1"), "");  // shares of 88 columns overlap
  EXPECT_NE(error(kBf16, "tile=128x24x64 cluster=4x1"), "");
  EXPECT_NE(error(kBf16, "tile=128x128x128 cluster=1x1"), "");
  EXPECT_EQ(error("256x256x256:bf16:layout=tt", "tile=128x96x64 cluster=4x1"), "");
  EXPECT_NE(error("256x256x256:bf16:layout=tt", "tile=128x80x64 cluster=1x1"), "");
  EXPECT_EQ(error("256x256x256:s8", "tile=128x80x128 cluster=1x1"), "");
  EXPECT_NE(error("256x256x256:s8", "tile=128x88x128 cluster=1x1"), "");
  // Promotion takes a second set of sums.
  EXPECT_EQ(error("256x256x256:e4m3:acc=fast", "tile=128x256x128 cluster=1x1"), "");
  EXPECT_NE(error("256x256x256:e4m3", "tile=128x256x128 cluster=1x1"), "");
  EXPECT_EQ(error("256x256x256:e4m3", "tile=128x192x128 cluster=1x1"), "");
  // Tiles whose coordinates leave 32 bits.
  EXPECT_EQ(error("2147483500x8x64:bf16", "tile=128x64x64 cluster=1x1"), "");
  EXPECT_NE(error("2147483600x8x64:bf16", "tile=128x64x64 cluster=2x1"), "");
}

TEST(Sm90DenseSpace, FitsTheDeviceAndTheProblem) {
  const DeviceSpec device = h200();
  for (const char* text :
       {"1x64x64:bf16", "16x4096x4096:bf16", "4096x4096x4096:bf16", "333x1023x520x3:f16>f32",
        "4096x2112x7168:bf16", "2048x4096x4096:e4m3", "16x4096x4096:e5m2:acc=fast",
        "1000x1000x1024:s8", "1000x1000x1000:bf16:layout=nt"}) {
    const Problem p = problem(text);
    const auto all = sm90_dense::space(p, device);
    EXPECT_FALSE(all.empty()) << text;
    std::set<std::string> seen;
    for (const auto& c : all) {
      EXPECT_EQ(sm90_dense::config_error(c, p, device), "") << c.config().text();
      EXPECT_TRUE(seen.insert(c.config().text()).second) << "twice: " << c.config().text();
      const auto store = sm90_dense::store_path(p);
      const std::int64_t limit = sm90_dense::shared_limit(device, c.occupancy);
      EXPECT_LE(sm90_dense::shared_bytes(c, store, sm90_dense::slabs_of(c, store, limit)), limit);
      EXPECT_LE(
          (c.occupancy *
           (sm90_dense::shared_bytes(c, store, sm90_dense::slabs_of(c, store, limit)) + 1024)),
          device.shared_per_unit);
    }
  }
}

TEST(Sm90DenseStore, TakesTheCopyEngineOnlyWhereItClipsExactly) {
  EXPECT_TRUE(sm90_dense::store_path(problem("64x64x64:bf16")).tma);
  EXPECT_FALSE(sm90_dense::store_path(problem("64x60x64:bf16:ldd=64")).tma);  // n not whole pieces
  EXPECT_FALSE(sm90_dense::store_path(problem("64x64x64:bf16:ldd=68")).tma);
  EXPECT_TRUE(sm90_dense::store_path(problem("64x60x64:bf16>f32")).tma);
  EXPECT_FALSE(sm90_dense::store_path(problem("64x62x64:s8:lda=64:ldb=64:ldd=64")).tma);
  EXPECT_FALSE(sm90_dense::store_path(problem("64x64x64:bf16:alignd=8")).tma);
  EXPECT_TRUE(sm90_dense::store_path(problem("64x63x64:bf16:ldd=68")).pairs);
  EXPECT_FALSE(sm90_dense::store_path(problem("64x63x64:bf16")).pairs);
}

Step step_of(const Config& config) { return {"sm90_dense", config, Part::all}; }

TEST(Sm90DenseLaunch, FollowsM) {
  const auto backend = make_sm90_dense_backend();
  const auto& family = dynamic_cast<const KernelFamily&>(*backend);
  const Problem p = problem("64x4096x4096:bf16:m=0..1000");
  const Config config =
      Config::parse("tile=128x128x64 cluster=2x1 stages=5 schedule=cooperative raster=m splits=3")
          .value();
  const auto spec = family.launch(p, step_of(config), h200());
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->grid[0].at(0), 0);  // nothing to launch
  EXPECT_EQ(spec->grid[0].at(1), 132);
  for (const std::int64_t m : {1, 256, 257, 1000}) {
    EXPECT_EQ(spec->grid[0].at(m) % 2, 0) << "whole clusters";
    const std::int64_t tiles = (m + 255) / 256 * 2 * 32;
    // A counter for each consumer of each tile, and a part of every split.
    EXPECT_GE(spec->zeroed_prefix, tiles * 2 * 4);
    EXPECT_GE(spec->workspace_bytes.at(m), spec->zeroed_prefix + tiles * 128 * 128 * 4 * 3);
  }
}

// A barrier that expects other bytes than its boxes bring waits for ever.
TEST(Sm90DenseLaunch, ExpectsTheBytesThatItsBoxesBring) {
  const auto backend = make_sm90_dense_backend();
  const auto& family = dynamic_cast<const KernelFamily&>(*backend);
  for (const char* text :
       {"1x64x64:bf16", "7x4104x4104:bf16", "33x50x1032:bf16:ldd=56", "100x520x4096:bf16",
        "513x512x520:bf16", "333x1023x520x3:f16>f32", "40x2112x4096:bf16:m=1..64",
        "512x520x4096:bf16:m=3..512", "200x520x512x3:bf16:m=9..200", "200x4096x4096:e4m3",
        "1000x1000x1000:bf16:layout=nt", "100x1000x1000:bf16:layout=tt",
        "300x520x512:bf16:layout=tt:m=9..300", "300x136x512:bf16:epi=\"acc + c[m,n]\""}) {
    const Problem p = problem(text);
    for (const auto& c : sm90_dense::space(p, h200())) {
      const auto spec = family.launch(p, step_of(c.config()), h200());
      ASSERT_TRUE(spec) << spec.error().message;
      const std::int64_t size = bits(p.a) / 8;
      const auto& args = spec->args;
      const std::size_t end = args.size() - p.epilogue.operands().size();
      for (const std::int64_t m : {p.m_range.low, p.m_range.low + 4, p.m_range.high}) {
        if (m > p.m_range.high) continue;
        // Lines contiguous in k come in one box a sharer, others in boxes of 64 or 32 of them.
        const auto bytes = [&](const TensorMapSpec& map, bool along_k, int tile, int sharers) {
          const std::int64_t box = map.box[0].at(m) * map.box[1].at(m) * size;
          EXPECT_GT(map.box[1].at(m), 0);
          EXPECT_LE(map.box[1].at(m), 256);
          return box * sharers * (along_k ? 1 : tile / map.box[0].at(m));
        };
        EXPECT_EQ(args[end - 1].value.at(m),
                  bytes(args[0].map, sm90_dense::rows_along_k(c, p), c.tile_m, c.cluster_n) +
                      bytes(args[1].map, sm90_dense::columns_along_k(c, p), c.tile_n, c.cluster_m))
            << text << " " << c.config().text() << " at " << m;
      }
      // Tiles lie within these many lines of A and B: in whole eights of n, in any number of m.
      const std::int64_t rows = args[end - 5].value.at(p.m), columns = args[end - 4].value.at(p.m);
      const std::int64_t n = (p.n + 7) / 8 * 8;
      EXPECT_EQ(rows, c.turned ? n : p.m) << c.config().text();
      EXPECT_EQ(columns, c.turned ? p.m : n) << c.config().text();
    }
  }
}

TEST(Sm90DenseSource, DependsOnlyOnWhatIsCompiledIn) {
  const auto backend = make_sm90_dense_backend();
  const auto& family = dynamic_cast<const KernelFamily&>(*backend);
  const auto text = [&](const char* problem_text, const char* config) {
    const auto source =
        family.source(problem(problem_text), step_of(Config::parse(config).value()), h200());
    EXPECT_TRUE(source);
    return source ? source->text : std::string();
  };
  const std::string base =
      text("4096x4096x4096:bf16",
           "tile=128x128x64 cluster=1x1 stages=5 schedule=cooperative raster=m group=8 splits=1");
  // Sizes, raster, grouping and splits are run-time values.
  EXPECT_EQ(base, text("100x512x1024x2:bf16",
                       "tile=128x128x64 cluster=1x1 stages=5 schedule=cooperative raster=n "
                       "group=4 splits=3"));
  EXPECT_NE(base, text("4096x4096x4096:bf16:layout=tt",
                       "tile=128x128x64 cluster=1x1 stages=5 schedule=cooperative raster=m"));
  // The precise sum of 8-bit floats and the fast one are different kernels.
  constexpr const char* kBytes =
      "tile=128x128x128 cluster=1x1 stages=5 schedule=cooperative raster=m";
  EXPECT_NE(text("4096x4096x4096:e4m3:acc=fast", kBytes).find("promote = 0"), std::string::npos);
  EXPECT_NE(text("4096x4096x4096:e4m3", kBytes).find("promote = 2"), std::string::npos);
  EXPECT_NE(base, text("4096x4096x4096:f16",
                       "tile=128x128x64 cluster=1x1 stages=5 schedule=cooperative raster=m"));
  EXPECT_NE(base, text("4096x4096x4096:bf16",
                       "tile=128x128x64 cluster=2x1 stages=5 schedule=cooperative raster=m"));
  EXPECT_NE(base, text("4096x4096x4096:bf16:epi=\"relu(acc)\"",
                       "tile=128x128x64 cluster=1x1 stages=5 schedule=cooperative raster=m"));
}

TEST(Sm90DenseSource, RefusesAnEpilogueStepAndTooManySplits) {
  const auto backend = make_sm90_dense_backend();
  const auto& family = dynamic_cast<const KernelFamily&>(*backend);
  Step step = step_of(
      Config::parse("tile=128x128x64 cluster=1x1 stages=5 schedule=cooperative raster=m splits=9")
          .value());
  EXPECT_TRUE(family.source(problem("64x64x576:bf16"), step, h200()));
  EXPECT_FALSE(family.source(problem("64x64x512:bf16"), step, h200()));
  step.part = Part::epilogue;
  EXPECT_FALSE(family.source(problem("64x64x576:bf16"), step, h200()));
}

// Winners on an H200 (docs/performance-log.md): whatever the model says in detail, one of those
// tiles that were within 2 % of the fastest must be among the few that a tuning run compiles, and
// these must not be five times the same kernel.
TEST(Sm90DenseRanking, KnownWinnersAreNearTheTop) {
  const auto backend = make_sm90_dense_backend();
  const DeviceSpec device = h200();
  struct Known {
    const char* problem;
    std::vector<std::string> winners;
  };
  for (const Known& known :
       {Known{"4096x4096x4096:bf16", {"128x256x64 cluster=1x1", "128x256x64 cluster=2x1"}},
        Known{"4096x28672x4096:bf16", {"128x192x64 cluster=1x1"}},
        Known{"4096x4096x14336:bf16", {"128x256x64 cluster=1x1", "128x256x64 cluster=2x1"}},
        Known{"2048x6144x4096:bf16", {"128x192x64 cluster=1x1", "128x256x64 cluster=1x1"}},
        Known{"2048x10240x5120:bf16", {"256x160x64 cluster=1x1", "128x256x64"}},
        Known{"2048x5120x8192:bf16", {"256x160x64"}},
        Known{"8192x8192x8192:bf16", {"128x192x64 cluster=1x1", "128x192x64 cluster=2x1"}},
        Known{"1024x10240x5120:bf16", {"256x160x64"}}, Known{"512x10240x5120:bf16", {"256x160x64"}},
        Known{"256x28672x4096:bf16", {"128x224x64", "128x152x64 cluster=1x1"}},
        Known{"4096x4096x4096:s8", {"128x112x128 cluster=1x1"}},
        Known{"2048x6144x4096:s8", {"128x128x128 cluster=1x1"}},
        Known{"1024x576x7168:bf16", {"128x96x64 cluster=1x1x2", "128x96x64 cluster=2x1x2"}},
        Known{"128x4096x4096:bf16", {"128x64x64 cluster=1x1x2", "64x64x64 cluster=1x1"}},
        Known{"128x6144x4096:bf16", {"64x96x64 cluster=1x1"}},
        Known{"256x4096x4096:bf16", {"64x128x64 cluster=1x1", "64x128x64 cluster=2x1"}},
        Known{"512x4096x4096:bf16", {"128x128x64 cluster=1x1", "128x128x64 cluster=1x2"}},
        Known{"777x3336x3336:bf16", {"200x128x64 wide=b"}}}) {
    const Problem p = problem(known.problem);
    std::vector<std::pair<double, std::string>> order;
    for (const Config& config : backend->configs(p, device)) {
      order.emplace_back(estimate(*backend->features(p, config, device), device).seconds,
                         config.text());
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& x, const auto& y) { return x.first < y.first; });
    bool found = false;
    std::string top;
    std::set<std::string> kernels;
    for (std::size_t i = 0; i < 5 && i < order.size(); ++i) {
      for (const std::string& winner : known.winners) {
        found = found || order[i].second.find(winner) != std::string::npos;
      }
      top += order[i].second + "\n";
      kernels.insert(order[i].second.substr(0, order[i].second.find(" raster")));
    }
    EXPECT_TRUE(found) << known.problem << "\n" << top;
    EXPECT_GE(kernels.size(), 4U) << known.problem << "\n" << top;
  }
}

}  // namespace
}  // namespace culet
