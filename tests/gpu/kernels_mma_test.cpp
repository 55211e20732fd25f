// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Numerics of the general tensor-core kernel on a GPU, through Plan: every dtype, layout, stride
// and alignment, splits of k, epilogues; every result exact.
#include "kernels_case.h"

namespace culet {
namespace {

using namespace test;  // NOLINT: the helpers of kernels_case.h

/// The first configuration of each tile.
std::vector<Config> distinct_mma(const std::string& problem) {
  std::vector<Config> kept;
  std::string last;
  for (const Config& config : family("mma").configs(take(Problem::parse(problem)), *gpu())) {
    const std::string key =
        std::string(config.get("tile")) + " " + std::string(config.get("warps"));
    if (key != last) kept.push_back(config);
    last = key;
  }
  return kept;
}

/// Compiles every configuration for every problem in parallel beforehand.
template <class Kernels>
void warm_up_all(const std::vector<std::string>& problems, const Kernels& kernels) {
  std::vector<std::pair<Problem, Config>> all;
  for (const std::string& problem : problems) {
    for (const char* kernel : kernels) {
      all.emplace_back(take(Problem::parse(problem)),
                       take(Config::parse(std::string(kernel) + "1")));
    }
  }
  parallel_for(static_cast<int>(all.size()), 0, [&](int i) {
    const auto& [problem, config] = all[static_cast<std::size_t>(i)];
    (void)family("mma").build(problem, {"mma", config, Part::all}, *gpu(), compiler());
  });
}

void check_every_tile(const std::string& problem) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  const auto configs = distinct_mma(problem);
  EXPECT_GT(configs.size(), 4u) << problem;
  warm_up(problem, "mma", configs);
  for (const Config& config : configs) check(problem, "mma", config);
}

// Whole and partial tiles in both directions, a k with a tail.
TEST(MmaKernel, EveryTileIsExact) { check_every_tile("330x328x200:bf16"); }
TEST(MmaKernel, EveryFlatTileIsExact) { check_every_tile("21x520x200:bf16"); }
TEST(MmaKernel, EveryNarrowTileIsExact) { check_every_tile("300x20x136:bf16"); }
TEST(MmaKernel, EveryTileThroughRegistersIsExact) { check_every_tile("330x329x203:f16"); }
TEST(MmaKernel, EveryTileOfRowsAcrossKIsExact) { check_every_tile("330x328x200:bf16:layout=nt"); }
TEST(MmaKernel, EveryTileOfBytesIsExact) { check_every_tile("330x328x400:s8"); }

constexpr const char* kSquare =
    "tile=64x64x32 warps=2x2 stages=3 occupancy=2 raster=m group=2 splits=";
constexpr const char* kLarge =
    "tile=128x96x32 warps=4x2 stages=4 occupancy=1 raster=n group=3 splits=";
constexpr const char* kFlat =
    "tile=16x64x64 warps=1x4 stages=4 occupancy=2 raster=m group=8 splits=";
/// Copies both operands first.
constexpr const char* kPacked =
    "tile=64x96x64 warps=2x2 stages=3 occupancy=2 pack=ab raster=m group=2 splits=";
const char* const kKernels[] = {kSquare, kLarge, kFlat, kPacked};
/// The same for elements of one byte.
constexpr const char* kSquareBytes =
    "tile=64x64x64 warps=2x2 stages=3 occupancy=2 raster=m group=2 splits=";
constexpr const char* kFlatBytes =
    "tile=16x64x128 warps=1x4 stages=4 occupancy=1 raster=n group=8 splits=";
constexpr const char* kPackedBytes =
    "tile=64x64x64 warps=2x2 stages=4 occupancy=2 pack=ab raster=m group=2 splits=";
const char* const kByteKernels[] = {kSquareBytes, kFlatBytes, kPackedBytes};

TEST(MmaKernel, EveryKIsExact) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (int k = 0; k <= 130; ++k) {
    const std::string size = std::to_string(k);
    // A pitch of its own keeps the source, and so the code, the same for every k.
    for (const char* layout : {"tn", "nn", "tt", "nt"}) {
      const bool a_rows = layout[0] == 't', b_columns = layout[1] == 'n';
      for (const int odd : {0, 2, 3}) {  // 16 bytes, 4 bytes and 2 bytes
        const std::string lda = std::to_string((a_rows ? 136 : 24) + odd);
        const std::string ldb = std::to_string((b_columns ? 136 : 32) + odd);
        const std::string text =
            "17x24x" + size + ":bf16>f32:layout=" + layout + ":lda=" + lda + ":ldb=" + ldb;
        check(text, "mma", std::string(kSquare) + "1");
        if (odd == 3) check(text, "mma", std::string(kPacked) + "1");
      }
    }
    check("17x24x" + size + ":s8:lda=144:ldb=144", "mma", std::string(kSquareBytes) + "1");
    for (const char* kernel : {kSquareBytes, kPackedBytes}) {
      check("17x24x" + size + ":s8:lda=145:ldb=146", "mma", std::string(kernel) + "1");
      check("17x24x" + size + ":u8*s8:layout=nt:lda=32:ldb=33", "mma", std::string(kernel) + "1");
    }
    check("17x24x" + size + ":e4m3>f32:lda=144:ldb=144", "mma", std::string(kSquareBytes) + "1");
    if (HasFatalFailure()) return;
  }
}

TEST(MmaKernel, DtypesLayoutsStridesAndEpilogues) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  const std::vector<std::string> problems = {
      "130x257x72:bf16",
      "63x65x64:f16:ldd=80",
      "127x33x136:bf16>f32:ldd=34",
      "127x33x136:bf16>f16:ldd=33",
      "64x64x64:bf16:alignd=2",
      "33x64x32:f16:acc=f16",
      "33x65x31:bf16:layout=tt",
      "33x65x31:bf16:layout=nn",
      "33x65x31:f16:layout=nt",
      "40x48x40x3:f16:stridea=0",
      "40x48x40x3:bf16:layout=nt:strideb=0:strided=2000",
      "40x48x41x3:bf16:stridea=1700:strideb=2001",
      "3x65x31:bf16:lda=33:ldb=34:ldd=70",
      "5x7x0:bf16:epi=\"acc + bias[n]\"",
      "33x65x0:f16>f32",
      "64x64x40:bf16:m=0..70",
      "2x64x41:bf16:m=1..7",
      "300x70x33x2:bf16:epi=\"relu(acc + c[m,n]) * s[m]\"",
      "200x263x72:bf16>f32:ldd=264:epi=\"acc * s[m]:f32 + bias[n]:f16 - c[m,n]:bf16\"",
      "100x136x72x3:f16:epi=\"max(acc, c[m,n]) + s[m]:bf16\"",
      "200x264x72:bf16:epi=\"0.5 * acc + 2 * c[m,n]\"",
      "1x1x1:bf16",
      "2x1x4097:f16>f32",
  };
  warm_up_all(problems, kKernels);
  for (const std::string& problem : problems) {
    for (const char* kernel : kKernels) check(problem, "mma", std::string(kernel) + "1");
    if (HasFatalFailure()) return;
  }
}

TEST(MmaKernel, BytesInEveryLayout) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  const std::vector<std::string> problems = {
      "130x257x160:s8",
      "33x65x32:e4m3",
      "33x65x31:e5m2*e4m3>f32",
      "33x65x32:e4m3>e4m3:epi=\"acc * s:f32\"",
      "33x65x32:e5m2>e5m2:acc=fast",
      "33x65x130:e4m3*e5m2>bf16:layout=nn",
      "33x65x130:e5m2>bf16:layout=tt",
      "33x65x31:u8*s8>s32:layout=nn",
      "34x66x70:s8*u8>s32:layout=tt",
      "36x68x132:u8>s32:layout=nt",
      "33x65x32:s8>s8:epi=\"0.25 * acc\"",
      "33x65x32:s8*u8>f32:epi=\"acc * s[m]\"",
      "33x65x31x3:s8:epi=\"acc + c[m,n]\"",
      "40x48x64x3:s8:stridea=0:strideb=3100",
      "40x48x64x3:u8:layout=nt:stridea=2561",
      "5x7x0:s8",
  };
  warm_up_all(problems, kByteKernels);
  for (const std::string& problem : problems) {
    for (const char* kernel : kByteKernels) check(problem, "mma", std::string(kernel) + "1");
    if (HasFatalFailure()) return;
  }
}

/// One operand copied, the other as it is; more blocks than fit at once; many batch entries.
TEST(MmaKernel, OneOperandMayBePacked) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const char* pack : {"a", "b"}) {
    const std::string config = std::string("tile=64x64x64 warps=2x2 stages=3 occupancy=3 pack=") +
                               pack + " raster=m group=4 splits=";
    for (const char* problem :
         {"130x257x201:bf16", "130x257x201:f16:layout=nt", "130x257x201:bf16:layout=nn",
          "1100x1301x137x2:bf16", "40x48x141x9:bf16:stridea=5700:strideb=0",
          "40x48x141x9:s8:layout=nt:stridea=5701", "70x64x257:e4m3:layout=tt"}) {
      check(problem, "mma", config + "1");
      check(problem, "mma", config + "2");
      if (HasFatalFailure()) return;
    }
  }
}

// Sums of parts in one step and in two, the last group of splits a single one and a full one.
TEST(MmaKernel, EveryNumberOfSplitsIsExact) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const int splits : {2, 3, 7, 8, 9, 10, 13, 16, 17, 32, 44, 64}) {
    check("100x136x4160:bf16", "mma", std::string(kSquare) + std::to_string(splits));
    check("100x133x4159:bf16", "mma", std::string(kPacked) + std::to_string(splits));
    if (HasFatalFailure()) return;
  }
}

TEST(MmaKernel, SplitsOfKAreExact) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const char* problem :
       {"130x264x1000:bf16", "130x257x1001:bf16>f32", "70x136x640x3:f16:layout=nn",
        "16x264x1024:bf16:epi=\"relu(acc + bias[n])\"", "200x72x1016:bf16:m=1..300"}) {
    for (const char* kernel : kKernels) {
      for (const char* splits : {"2", "3", "7", "10"}) {
        check(problem, "mma", std::string(kernel) + splits);
        if (HasFatalFailure()) return;
      }
    }
  }
  for (const char* problem : {"130x264x1001:s8", "70x72x1280:e4m3"}) {
    for (const char* kernel : kByteKernels) check(problem, "mma", std::string(kernel) + "5");
  }
}

TEST(MmaKernel, OperandsMayStartAtAnyElement) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const char* kernel : kKernels) {
    const std::string config = std::string(kernel) + "1";
    check_shifted("70x72x72:bf16:aligna=2:alignb=2:alignd=2", "mma", config, 2, 6, 2);
    check_shifted("70x72x72:bf16:aligna=4:alignb=8:alignd=4", "mma", config, 4, 8, 12);
    check_shifted("70x71x73:f16:layout=nt:aligna=2:alignb=2:alignd=2", "mma", config, 2, 14, 2);
    check_shifted("70x72x72:bf16:layout=nt:aligna=16:alignb=2:alignd=16", "mma", config, 16, 2, 16);
  }
  for (const char* kernel : kByteKernels) {
    const std::string config = std::string(kernel) + "1";
    check_shifted("70x72x72:s8:aligna=1:alignb=2:alignd=4", "mma", config, 1, 6, 4);
    check_shifted("70x71x73:s8:layout=nt:aligna=1:alignb=1:alignd=4", "mma", config, 3, 5, 4);
  }
}

TEST(MmaKernel, TwentyRunsAreBitwiseEqual) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const char* kernel : kKernels) {
    for (const char* splits : {"1", "4", "15"}) {
      check_repeatable("300x1032x4096:bf16", "mma", std::string(kernel) + splits);
      check_repeatable("100x333x4095:bf16", "mma", std::string(kernel) + splits);
    }
  }
}

TEST(MmaKernel, OnesTimesOnesIsK) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  const auto one = [](std::int64_t, std::int64_t) { return std::uint16_t{0x3F80}; };
  for (const int k : {1, 31, 32, 33, 63, 64, 65, 130, 1000, 4104, 5375, 7168, 16447}) {
    const std::string text = "70x88x" + std::to_string(k) + ":bf16>f32";
    for (const char* kernel : kKernels) {
      for (const int splits : {1, 2, 5, 16}) {
        if (splits > 1 && splits > k / 64) continue;
        const std::string config = std::string(kernel) + std::to_string(splits);
        const std::string d = run_raw(text, "mma", config, one, one);
        for (std::size_t i = 0; i < d.size(); i += 4) {
          float value = 0;
          std::memcpy(&value, &d[i], 4);
          ASSERT_EQ(value, static_cast<float>(k)) << text << " " << config << " element " << i / 4;
        }
      }
    }
  }
}

// A row of A that picks one k gives that row of B, bit by bit, whatever is in it.
TEST(MmaKernel, OneHotRowsCopyB) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  const auto hot = [](std::int64_t row, std::int64_t k) {
    return static_cast<std::uint16_t>(k == (row * 37) % 199 ? 0x3F80 : 0);
  };
  const auto any = [](std::int64_t n, std::int64_t k) {
    // All exponents but those of infinities and NaN, and not subnormal.
    const auto mixed = static_cast<std::uint32_t>(n * 40503 + k * 30011);
    const std::uint32_t exponent = 1 + mixed % 254;
    return static_cast<std::uint16_t>((mixed >> 3 & 0x807F) | exponent << 7);
  };
  for (const char* k : {"199", "200"}) {
    for (const char* kernel : kKernels) {
      for (const char* splits : {"1", "3"}) {
        const std::string config = std::string(kernel) + splits;
        const std::string d =
            run_raw("200x136x" + std::string(k) + ":bf16", "mma", config, hot, any);
        for (std::int64_t row = 0; row < 200; ++row) {
          for (std::int64_t n = 0; n < 136; ++n) {
            std::uint16_t value = 0;
            std::memcpy(&value, &d[static_cast<std::size_t>(row * 136 + n) * 2], 2);
            ASSERT_EQ(value, any(n, (row * 37) % 199))
                << config << " row " << row << " column " << n;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace culet
