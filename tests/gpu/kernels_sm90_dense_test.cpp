// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Numerics of the Hopper kernel on a GPU, through Plan: tiles, clusters, schedules, splits of k,
// epilogues, stores, alignments; every result exact.
#include "kernels_dense_case.h"

namespace culet {
namespace {

using namespace test;  // NOLINT: the helpers of kernels_case.h

// --- sm90_dense ----------------------------------------------------------------------------------

TEST(Sm90DenseKernel, EveryTileClusterAndScheduleIsExact) {
  CULET_NEEDS_HOPPER();
  // Odd tile counts in both directions, k with a tail, rows with padding.
  const std::string problem = "650x520x200:bf16:lda=208:ldb=216:ldd=528";
  const auto configs =
      distinct_kernels(family("sm90_dense").configs(take(Problem::parse(problem)), *gpu()));
  EXPECT_GT(configs.size(), 40u);
  std::vector<DenseCase> cases;
  for (const Config& config : configs) cases.push_back({problem, config});
  check_all(cases);
}

constexpr const char* kCooperative =
    "tile=128x128x64 cluster=1x1 stages=4 schedule=cooperative occupancy=1 raster=m group=8 "
    "splits=";
constexpr const char* kClusterM =
    "tile=128x128x64 cluster=2x1 stages=4 schedule=cooperative occupancy=1 raster=n group=3 "
    "splits=";
constexpr const char* kClusterN =
    "tile=64x64x64 cluster=1x2 stages=6 schedule=cooperative occupancy=2 raster=m group=2 splits=";
constexpr const char* kPingpong =
    "tile=64x128x64 cluster=1x1 stages=5 schedule=pingpong occupancy=1 raster=n group=4 splits=";
constexpr const char* kPingpongCluster =
    "tile=128x96x64 cluster=2x1 stages=4 schedule=pingpong occupancy=1 raster=m group=4 splits=";
constexpr const char* kClusterOfFour =
    "tile=64x64x64 cluster=4x1 stages=5 schedule=pingpong occupancy=1 raster=m group=2 splits=";
constexpr const char* kSquareCluster =
    "tile=64x128x64 cluster=2x2 stages=6 schedule=cooperative occupancy=1 raster=m group=2 splits=";
// Shares of 88 of 168 columns, which overlap by 8.
constexpr const char* kOverlap =
    "tile=64x168x64 cluster=2x1 stages=4 schedule=pingpong occupancy=1 raster=m group=4 splits=";
const char* const kKernels[] = {kCooperative,     kClusterM,      kClusterN,      kPingpong,
                                kPingpongCluster, kClusterOfFour, kSquareCluster, kOverlap};

/// All kernels with a number of splits of k.
std::vector<std::string> kernels(const std::string& splits = "1") {
  std::vector<std::string> configs;
  for (const char* kernel : kKernels) configs.push_back(kernel + splits);
  return configs;
}

TEST(Sm90DenseKernel, EveryKIsExact) {
  CULET_NEEDS_HOPPER();
  std::vector<int> ks;
  for (int k = 1; k <= 130; ++k) ks.push_back(k);
  for (const int k : {1000, 1001, 4104, 5376, 7168, 7169}) ks.push_back(k);
  for (const int k : ks) {
    const int ld = (k + 15) / 8 * 8;  // at least one element of NaN behind a row
    const std::string problem = "17x24x" + std::to_string(k) +
                                ":bf16>f32:lda=" + std::to_string(ld) +
                                ":ldb=" + std::to_string(ld);
    check(problem, "sm90_dense", std::string(kCooperative) + "1");
    if (k > 128) check(problem, "sm90_dense", std::string(kPingpong) + "3");
    if (HasFatalFailure()) return;
  }
}

TEST(Sm90DenseKernel, ShapesAndStores) {
  CULET_NEEDS_HOPPER();
  std::vector<DenseCase> cases;
  for (const char* problem : {
           "1x8x64:bf16",
           "1x1x8:bf16",
           "129x257x72:bf16",
           "63x65x64:f16:ldd=80",
           "128x128x64:f16>f32",
           "127x33x136:bf16>f32:ldd=34",
           "127x33x136:bf16>f16:ldd=33",
           "257x264x64:bf16>f16",
           "64x64x64:bf16:alignd=2",
           "300x200x72x3:bf16",
           "70x72x64x5:f16:strideb=0",
           "70x72x64x5:bf16:stridea=0:strided=5200",
           "200x72x320:bf16:m=1..300",
       }) {
    add_cases(problem, kernels(), &cases);
  }
  check_all(cases);
}

TEST(Sm90DenseKernel, SplitsOfKAreExact) {
  CULET_NEEDS_HOPPER();
  std::vector<DenseCase> cases;
  for (const char* problem :
       {"130x264x1000:bf16", "130x257x1000:bf16>f32", "70x136x640x3:f16",
        "16x264x1024:bf16:epi=\"relu(acc + bias[n])\"", "200x72x1016:bf16:m=1..300"}) {
    for (const char* splits : {"2", "3", "7", "10"}) add_cases(problem, kernels(splits), &cases);
  }
  check_all(cases);
}

TEST(Sm90DenseKernel, Epilogues) {
  CULET_NEEDS_HOPPER();
  std::vector<DenseCase> cases;
  for (const char* problem : {
           "200x264x72:bf16:epi=\"acc + bias[n]\"",
           "200x264x72:bf16:epi=\"relu(acc * s + bias[n]:f32) + c[m,n]\"",
           "200x263x72:bf16>f32:ldd=264:epi=\"acc * s[m]:f32 + bias[n]:f16 - c[m,n]:bf16\"",
           "100x136x72x3:f16:epi=\"max(acc, c[m,n]) + s[m]:bf16\"",
           "200x264x72:bf16:epi=\"0.5 * acc + 2 * c[m,n]\"",
       }) {
    add_cases(problem, kernels(), &cases);
  }
  check_all(cases);
}

/// B on WGMMA's side of multiples of 64: tiles whose rows are multiples of eight.
const char* const kTurned[] = {
    "tile=136x128x64 wide=b cluster=1x1 stages=4 schedule=cooperative raster=m group=8 splits=",
    "tile=96x64x64 wide=b cluster=2x1 stages=6 schedule=cooperative raster=n group=2 splits=",
    "tile=72x64x64 wide=b cluster=2x2 stages=6 schedule=pingpong raster=m group=4 splits=",
    "tile=40x128x64 wide=b cluster=2x4 stages=4 schedule=cooperative raster=n group=3 splits=",
    "tile=64x192x64 wide=b cluster=4x2 stages=4 schedule=cooperative raster=m group=2 splits=",
};

TEST(Sm90DenseKernel, TurnedRound) {
  CULET_NEEDS_HOPPER();
  std::vector<DenseCase> cases;
  for (const char* problem : {
           "129x264x72:bf16",
           "63x72x64:f16:ldd=80",
           "300x200x72x3:bf16",
           "70x72x64x5:f16:strideb=0",
           "70x72x64x5:bf16:stridea=0:strided=5200",
           "200x72x320:bf16:m=1..300",
           "200x264x72:bf16:epi=\"acc + bias[n]\"",
           "200x264x72:bf16:epi=\"relu(acc * s + bias[n]:f32) + c[m,n]\"",
           "100x136x72x3:f16:epi=\"max(acc, c[m,n]) + s[m]:bf16\"",
       }) {
    for (const char* kernel : kTurned)
      cases.push_back({problem, take(Config::parse(kernel + std::string("1")))});
  }
  for (const char* problem : {"130x264x1000:bf16", "70x136x640x3:f16"}) {
    for (const char* splits : {"2", "3"}) {
      for (const char* kernel : kTurned) {
        cases.push_back({problem, take(Config::parse(kernel + std::string(splits)))});
      }
    }
    for (const char* parts :
         {"tile=64x128x64 wide=b cluster=1x1x2 stages=4 schedule=cooperative raster=m",
          "tile=96x64x64 wide=b cluster=2x1x3 stages=4 schedule=cooperative raster=m"}) {
      cases.push_back({problem, take(Config::parse(parts))});
    }
  }
  for (const char* layout : {"nn", "tt", "nt"}) {
    cases.push_back({"136x264x200:bf16:layout=" + std::string(layout),
                     take(Config::parse("tile=96x128x64 wide=b cluster=2x2 stages=4 "
                                        "schedule=cooperative raster=m"))});
  }
  for (const char* problem : {"130x264x400:e4m3*e5m2>bf16", "130x264x400:e5m2*e4m3>f16:acc=fast",
                              "130x264x400:u8*s8>bf16:epi=\"acc * sa[m]:f32 * sb[n]:f32\""}) {
    cases.push_back({problem, take(Config::parse("tile=96x128x128 wide=b cluster=2x1 stages=4 "
                                                 "schedule=cooperative raster=m"))});
  }
  check_all(cases);
}

TEST(Sm90DenseKernel, OperandsMayStartAnywhereTheirAlignmentAllows) {
  CULET_NEEDS_HOPPER();
  std::vector<DenseCase> cases;
  for (const char* problem :
       {"70x72x72:bf16", "70x72x72:bf16:alignd=2", "70x72x72:bf16>f32:alignd=4"}) {
    add_cases(problem, kernels(), &cases);
  }
  build_all(cases);
  for (const char* kernel : kKernels) {
    const std::string config = std::string(kernel) + "1";
    check_shifted("70x72x72:bf16", "sm90_dense", config, 16, 48, 32);
    check_shifted("70x72x72:bf16:alignd=2", "sm90_dense", config, 16, 16, 2);
    check_shifted("70x72x72:bf16>f32:alignd=4", "sm90_dense", config, 16, 16, 4);
  }
}

TEST(Sm90DenseKernel, TwentyRunsAreBitwiseEqual) {
  CULET_NEEDS_HOPPER();
  std::vector<DenseCase> cases;
  add_cases("300x1032x4096:bf16", kernels(), &cases);
  build_all(cases);
  for (const char* kernel : kKernels) {
    for (const char* splits : {"1", "4"}) {
      check_repeatable("300x1032x4096:bf16", "sm90_dense", std::string(kernel) + splits);
    }
  }
  check_repeatable("1000x1032x2048:bf16>f32", "sm90_dense",
                   "tile=256x128x64 cluster=1x2 stages=4 schedule=cooperative raster=m splits=3");
}

// Tiles that overlap at D's edges store the same element twice, from different places in a tile: it
// has to come out the same. All columns of B are alike, so all columns of D have to be, bit by bit;
// likewise with A's rows.
TEST(Sm90DenseKernel, AnElementDoesNotDependOnItsPlaceInATile) {
  CULET_NEEDS_HOPPER();
  std::mt19937 random(5);
  std::vector<std::uint16_t> line(4096);
  // Of magnitudes 2^-8 .. 2^7, both signs: sums round.
  for (auto& x : line) x = static_cast<std::uint16_t>((random() & 0x87FF) | 0x3800);
  const auto alike = [&](std::int64_t, std::int64_t k) {
    return line[static_cast<std::size_t>(k)];
  };
  for (const char* config :
       {"tile=64x96x64 cluster=1x1 stages=6 schedule=cooperative raster=m",
        "tile=128x128x64 cluster=2x2 stages=5 schedule=pingpong raster=m",
        "tile=192x104x64 cluster=1x2 stages=4 schedule=cooperative raster=m",
        "tile=64x64x64 cluster=1x1x2 stages=8 schedule=cooperative raster=m",
        "tile=64x96x64 cluster=1x1x3 stages=6 schedule=cooperative raster=m",
        "tile=64x64x64 cluster=1x1x4 stages=8 schedule=cooperative raster=m",
        "tile=128x96x64 cluster=2x1 stages=4 schedule=cooperative raster=m splits=3"}) {
    SCOPED_TRACE(config);
    const std::string d = run_raw("300x520x4096:bf16>f32", "sm90_dense", config, alike, alike);
    std::vector<std::uint32_t> bits(d.size() / 4);
    std::memcpy(bits.data(), d.data(), d.size());
    ASSERT_EQ(bits.size(), 300u * 520);
    for (std::size_t i = 0; i < bits.size(); ++i) {
      ASSERT_EQ(bits[i], bits[0]) << "row " << i / 520 << ", column " << i % 520;
    }
  }
}

constexpr const char* kSimtTile = "kernel=tile tile=64x64x16 thread=4x4";

TEST(Kernels, OnesTimesOnesIsK) {
  CULET_NEEDS_HOPPER();
  const auto one = [](std::int64_t, std::int64_t) { return std::uint16_t{0x3F80}; };
  std::vector<DenseCase> cases;
  add_cases("70x88x64:bf16>f32", kernels(), &cases);
  build_all(cases);
  for (const int k : {1, 63, 64, 65, 130, 1000, 4104, 5376, 7168, 16448}) {
    const std::string ld = std::to_string((k + 7) / 8 * 8);
    const std::string text = "70x88x" + std::to_string(k) + ":bf16>f32:lda=" + ld + ":ldb=" + ld;
    std::vector<std::pair<std::string, std::string>> runs = {{"simt", kSimtTile}};
    for (const char* kernel : kKernels) {
      for (const int splits : {1, 2, 5, 16}) {
        if (splits <= (k + 63) / 64) {
          runs.emplace_back("sm90_dense", std::string(kernel) + std::to_string(splits));
        }
      }
    }
    for (const auto& [backend, config] : runs) {
      const std::string d = run_raw(text, backend, config, one, one);
      for (std::size_t i = 0; i < d.size(); i += 4) {
        float value = 0;
        std::memcpy(&value, &d[i], 4);
        ASSERT_EQ(value, static_cast<float>(k)) << text << " " << config << " element " << i / 4;
      }
    }
  }
}

// A row of A that picks one k gives that row of B, bit by bit, whatever is in it.
TEST(Kernels, OneHotRowsCopyB) {
  CULET_NEEDS_HOPPER();
  const auto hot = [](std::int64_t row, std::int64_t k) {
    return static_cast<std::uint16_t>(k == (row * 37) % 200 ? 0x3F80 : 0);
  };
  const auto any = [](std::int64_t n, std::int64_t k) {
    // All exponents but those of infinities and NaN, and not subnormal.
    const auto mixed = static_cast<std::uint32_t>(n * 40503 + k * 30011);
    const std::uint32_t exponent = 1 + mixed % 254;
    return static_cast<std::uint16_t>((mixed >> 3 & 0x807F) | exponent << 7);
  };
  std::vector<DenseCase> cases;
  add_cases("200x136x200:bf16", kernels(), &cases);
  build_all(cases);
  std::vector<std::pair<std::string, std::string>> runs = {{"simt", kSimtTile}};
  for (const char* kernel : kKernels) {
    runs.emplace_back("sm90_dense", std::string(kernel) + "1");
    runs.emplace_back("sm90_dense", std::string(kernel) + "3");
  }
  for (const auto& [backend, config] : runs) {
    const std::string d = run_raw("200x136x200:bf16", backend, config, hot, any);
    for (std::int64_t row = 0; row < 200; ++row) {
      for (std::int64_t n = 0; n < 136; ++n) {
        std::uint16_t value = 0;
        std::memcpy(&value, &d[static_cast<std::size_t>(row * 136 + n) * 2], 2);
        ASSERT_EQ(value, any(n, (row * 37) % 200)) << config << " row " << row << " column " << n;
      }
    }
  }
}

}  // namespace
}  // namespace culet
