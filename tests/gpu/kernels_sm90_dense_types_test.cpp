// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The Hopper kernel's operand types and layouts on a GPU, through Plan: 8-bit floats with fast and
// promoted sums, 8-bit integers, 16-bit floats in every layout, batches; every result exact.
#include "kernels_dense_case.h"

namespace culet {
namespace {

using namespace test;  // NOLINT: the helpers of kernels_case.h

// The tile's k, 64 elements of 16 bits or 128 of 8, goes between the two parts.
struct Kernel {
  const char* tile;
  const char* rest;
  std::string config(int tile_k, int splits = 1) const {
    return std::string("tile=") + tile + "x" + std::to_string(tile_k) + " " + rest +
           " splits=" + std::to_string(splits);
  }
};

// All can be had in all layouts: widths are multiples of 32.
constexpr Kernel kKernels[] = {
    {"128x128", "cluster=1x1 stages=4 schedule=cooperative raster=m group=8"},
    {"128x160", "cluster=2x1 stages=4 schedule=cooperative raster=n group=3"},
    {"64x64", "cluster=1x2 stages=6 schedule=cooperative occupancy=2 raster=m group=2"},
    {"128x96", "cluster=1x2 stages=5 schedule=pingpong raster=n group=4"},
    {"64x128", "cluster=4x1 stages=5 schedule=pingpong raster=m group=2"},
    {"256x128", "cluster=2x1 stages=3 schedule=cooperative raster=m group=4"},
    {"192x96", "cluster=1x1 stages=4 schedule=cooperative raster=m group=4"},
    {"128x64", "cluster=2x2 stages=5 schedule=cooperative raster=m group=4"},
};

// Clusters that split k, as they stand.
constexpr Kernel kSplitters[] = {
    {"128x128", "cluster=1x1x2 stages=4 schedule=cooperative raster=m group=8"},
    {"64x96", "cluster=1x1x3 stages=4 schedule=cooperative raster=m group=8"},
    {"128x128", "cluster=2x1x2 stages=4 schedule=cooperative raster=n group=2"},
    {"256x64", "cluster=1x2x2 stages=4 schedule=cooperative raster=m group=8"},
    {"192x96", "cluster=1x1x4 stages=3 schedule=cooperative raster=m group=8"},
};

int tile_k(const std::string& problem) { return 128 * 8 / bits(take(Problem::parse(problem)).a); }

/// Every `step`-th of kKernels.
void add_kernels(const std::string& problem, std::vector<DenseCase>* runs, std::size_t step = 1,
                 int splits = 1) {
  for (std::size_t i = 0; i < std::size(kKernels); i += step) {
    runs->push_back({problem, take(Config::parse(kKernels[i].config(tile_k(problem), splits)))});
  }
}

/// Every `step`-th kernel of the space.
void add_space(const std::string& problem, std::size_t step, std::vector<DenseCase>* runs) {
  const auto all =
      distinct_kernels(family("sm90_dense").configs(take(Problem::parse(problem)), *gpu()));
  EXPECT_FALSE(all.empty()) << problem;
  for (std::size_t i = 0; i < all.size(); i += step) runs->push_back({problem, all[i]});
}

TEST(Sm90DenseKernelTypes, SpacesOfAllTypesAndLayoutsAreExact) {
  CULET_NEEDS_HOPPER();
  std::vector<DenseCase> runs;
  for (const char* problem : {
           "650x520x200:e4m3:lda=208:ldb=224:ldd=528:acc=fast",
           "650x520x200:e4m3:lda=208:ldb=224:ldd=528",
           "650x520x200:s8:lda=208:ldb=224:ldd=524",
           "650x520x200:bf16:layout=nn:lda=656:ldb=208:ldd=528",
           "650x520x200:bf16:layout=tt:lda=208:ldb=528:ldd=528",
           "650x520x200:f16:layout=nt:lda=656:ldb=528",
       }) {
    add_space(problem, 11, &runs);
  }
  check_all(runs);
}

TEST(Sm90DenseKernelTypes, EveryPairOfTypesAndEveryD) {
  CULET_NEEDS_HOPPER();
  std::vector<DenseCase> runs;
  for (const std::string types :
       {"e4m3", "e5m2", "e4m3*e5m2", "e5m2*e4m3", "e4m3>f32", "e5m2*e4m3>f16"}) {
    for (const std::string accumulate : {"", ":acc=fast"}) {
      add_kernels("200x136x272:" + types + accumulate, &runs, 2);
      add_kernels("70x33x144:" + types + accumulate, &runs, 2);
    }
  }
  for (const std::string types : {"s8", "u8", "s8*u8", "u8*s8", "s8>f32", "u8*s8>bf16", "s8>f16"}) {
    add_kernels("200x136x272:" + types, &runs, 2);
    add_kernels("70x33x144:" + types, &runs, 2);
  }
  for (const std::string types : {"f16", "f16>bf16", "bf16>f16", "bf16>f32"}) {
    add_kernels("330x264x200:" + types, &runs, 2);
  }
  check_all(runs);
}

TEST(Sm90DenseKernelTypes, EveryLayoutWithOddSizes) {
  CULET_NEEDS_HOPPER();
  std::vector<DenseCase> runs;
  for (const std::string layout : {"tn", "tt", "nn", "nt"}) {
    for (const std::string sizes :
         {"1x8x8", "65x72x136", "330x264x200", "129x257x100", "63x65x63", "257x40x320"}) {
      // Rows and columns of any length, with at least one element of NaN behind each.
      add_kernels(sizes + ":bf16>f32:lda=344:ldb=328:layout=" + layout, &runs);
    }
    add_kernels("330x264x200:f16:lda=336:ldb=272:layout=" + layout, &runs, 1, 3);
  }
  check_all(runs);
}

TEST(Sm90DenseKernelTypes, BatchesOfAllStrides) {
  CULET_NEEDS_HOPPER();
  std::vector<DenseCase> runs;
  for (const char* problem : {
           "70x72x64x5:bf16:layout=nt:lda=72",
           "130x136x72x3:f16:layout=tt:strideb=0",
           "130x136x72x3:bf16:layout=nn:lda=136:stridea=0",
           // Entries side by side in the rows of one larger matrix, and overlapping ones.
           "130x72x64x4:bf16:lda=256:stridea=64:ldb=256:strideb=64:ldd=288:strided=72",
           "130x72x64x4:bf16:stridea=8:strideb=4608:strided=20000",
           "70x72x128x5:e4m3:strideb=0",
           "70x72x128x5:s8:stridea=0",
           "200x72x320x2:e5m2:acc=fast:m=1..300",
           "200x72x320x3:bf16:layout=nt:m=1..304",
       }) {
    add_kernels(problem, &runs, 2);
  }
  add_kernels("70x136x640x3:s8", &runs, 2, 4);
  add_kernels("70x136x640x3:e4m3", &runs, 2, 2);
  check_all(runs);
}

TEST(Sm90DenseKernelTypes, SplitsOfKAreExact) {
  CULET_NEEDS_HOPPER();
  std::vector<DenseCase> runs;
  for (const char* problem : {"130x264x1008:e4m3:acc=fast", "130x264x1008:e4m3", "130x257x1008:s8",
                              "130x264x1008:u8>f32:epi=\"acc * s\""}) {
    for (const int splits : {2, 5, 8}) {
      add_kernels(problem, &runs, 1, splits);
    }
  }
  check_all(runs);
}

TEST(Sm90DenseKernelTypes, ClustersThatSplitK) {
  CULET_NEEDS_HOPPER();
  std::vector<DenseCase> runs;
  for (const char* problem : {
           "330x264x520:bf16",
           "330x257x520:bf16>f32",
           "130x136x1000x3:f16:strideb=0",
           "17x264x264:bf16:epi=\"relu(acc + bias[n]) + c[m,n]\"",
           "200x136x1000:bf16:m=1..300",
           "330x264x520:bf16:layout=nt:lda=336",
           "330x264x528:e4m3",
           "330x264x528:e4m3:acc=fast",
           "330x264x528:s8",
           "330x264x528:u8>bf16:epi=\"acc * sa[m]:f32 * sb[n]:f32\"",
       }) {
    for (const Kernel& kernel : kSplitters) {
      runs.push_back({problem, take(Config::parse(kernel.config(tile_k(problem))))});
    }
  }
  check_all(runs);
}

TEST(Sm90DenseKernelTypes, EpiloguesOf8BitOperands) {
  CULET_NEEDS_HOPPER();
  std::vector<DenseCase> runs;
  for (const char* problem : {
           "200x264x144:e4m3:epi=\"acc * sa:f32 * sb:f32\"",                 // tensorwise
           "200x264x144:e4m3:acc=fast:epi=\"acc * sa[m]:f32 * sb[n]:f32\"",  // rowwise
           "200x264x144:e4m3*e5m2:epi=\"relu(acc * s:f32 + bias[n])\"",
           "200x264x144:s8>bf16:epi=\"acc * sa:f32 * sb:f32 + bias[n]\"",
           "200x263x144:u8*s8>f32:epi=\"acc * sa[m]:f32 * sb[n]:f32 - c[m,n]:bf16\"",
           "200x264x144:s8:epi=\"max(acc + 2 * c[m,n], 0)\"",
           "200x264x144:bf16:layout=tt:epi=\"relu(acc * s + bias[n]:f32) + c[m,n]\"",
       }) {
    add_kernels(problem, &runs, 2);
  }
  check_all(runs);
}

/// D of ones times ones is k, element by element.
void expect_k(const std::string& problem, std::uint32_t one, int k) {
  const bool integers = is_integer(take(Problem::parse(problem)).d);
  const auto ones = [&](std::int64_t, std::int64_t) { return one; };
  for (const Kernel& kernel : kKernels) {
    for (const int splits : {1, 3}) {
      if (splits > (k + tile_k(problem) - 1) / tile_k(problem)) continue;
      const std::string config = kernel.config(tile_k(problem), splits);
      const std::string d = run_elements(problem, "sm90_dense", config, ones, ones);
      for (std::size_t i = 0; i < d.size(); i += 4) {
        std::int32_t integer = 0;
        float real = 0;
        std::memcpy(&integer, &d[i], 4);
        std::memcpy(&real, &d[i], 4);
        const float value = integers ? static_cast<float>(integer) : real;
        ASSERT_EQ(value, static_cast<float>(k)) << problem << " " << config << " at " << i / 4;
      }
    }
  }
}

TEST(Sm90DenseKernelTypes, OnesTimesOnesIsK) {
  CULET_NEEDS_HOPPER();
  std::vector<DenseCase> all;
  for (const char* problem : {"70x88x128:e4m3>f32", "70x88x128:e5m2>f32:acc=fast", "70x88x128:s8",
                              "70x88x128:u8*s8", "70x88x128:bf16>f32:layout=nt:lda=72:ldb=88"}) {
    add_kernels(problem, &all);
  }
  build_all(all);
  for (const int k : {1, 15, 16, 17, 33, 127, 129, 257, 1000, 8191}) {
    const std::string size = "70x88x" + std::to_string(k);
    const std::string ld = std::to_string((k + 15) / 16 * 16);
    const std::string lds = ":lda=" + ld + ":ldb=" + ld;
    expect_k(size + ":e4m3>f32" + lds, 0x38, k);
    expect_k(size + ":e5m2>f32:acc=fast" + lds, 0x3C, k);
    expect_k(size + ":s8" + lds, 1, k);
    expect_k(size + ":bf16>f32:layout=nt:lda=72:ldb=88", 0x3F80, k);
    if (HasFatalFailure()) return;
  }
  // Beyond what the fast sum's 14 bits hold exactly.
  expect_k("70x88x20000:e4m3>f32", 0x38, 20000);
  expect_k("70x88x20000:u8*s8", 1, 20000);
}

// A sum that needs more bits than the tensor core keeps: one large product and many small ones in
// later stages. Promotion must not lose the small ones.
TEST(Sm90DenseKernelTypes, PromotionKeepsSmallTerms) {
  CULET_NEEDS_HOPPER();
  const int k = 16384;
  const auto a_at = [](std::int64_t, std::int64_t at) -> std::uint32_t {
    return at == 0 ? 0x7E : 0x38;  // 448, then ones
  };
  const auto b_at = [](std::int64_t, std::int64_t at) -> std::uint32_t {
    return at == 0 ? 0x7E : 0x10;  // 448, then 2^-5
  };
  const double exact = 448.0 * 448.0 + (k - 1) / 32.0;
  for (const Kernel& kernel : kKernels) {
    const std::string d =
        run_elements("70x88x16384:e4m3>f32", "sm90_dense", kernel.config(128), a_at, b_at);
    for (std::size_t i = 0; i < d.size(); i += 4) {
      float value = 0;
      std::memcpy(&value, &d[i], 4);
      // The first stage loses its 127 small products, 4; the others' are 508.
      ASSERT_NEAR(value, exact, 8) << kernel.tile << " element " << i / 4;
    }
  }
}

/// A row of A that picks one k gives that row of B.
void expect_copies(const std::string& text, std::uint32_t one,
                   const std::function<std::uint32_t(std::int64_t, std::int64_t)>& b_at,
                   const std::function<float(std::uint32_t)>& value_of) {
  const Problem p = take(Problem::parse(text));
  const auto hot = [&](std::int64_t row, std::int64_t k) -> std::uint32_t {
    return k == (row * 37) % p.k ? one : 0;
  };
  for (const Kernel& kernel : kKernels) {
    const std::string config = kernel.config(tile_k(text));
    const std::string d = run_elements(text, "sm90_dense", config, hot, b_at);
    for (std::int64_t row = 0; row < p.m; ++row) {
      for (std::int64_t n = 0; n < p.n; ++n) {
        const char* at = &d[static_cast<std::size_t>(row * p.ldd + n) * 4];
        float value = 0;
        std::int32_t integer = 0;
        std::memcpy(&value, at, 4);
        std::memcpy(&integer, at, 4);
        if (is_integer(p.d)) value = static_cast<float>(integer);
        ASSERT_EQ(value, value_of(b_at(n, (row * 37) % p.k)))
            << text << " " << config << " row " << row << " column " << n;
      }
    }
  }
}

TEST(Sm90DenseKernelTypes, OneHotRowsCopyB) {
  CULET_NEEDS_HOPPER();
  const auto mixed = [](std::int64_t n, std::int64_t k) {
    return static_cast<std::uint32_t>(n * 40503 + k * 30011);
  };
  const auto any_e4m3 = [&](std::int64_t n, std::int64_t k) -> std::uint32_t {
    const std::uint32_t code = mixed(n, k) % 256;
    return (code & 0x7F) == 0x7F ? 0 : code;  // no NaN
  };
  const auto e4m3 = [](std::uint32_t code) {
    return static_cast<float>(from_e4m3_bits(static_cast<std::uint8_t>(code)));
  };
  std::vector<DenseCase> all;
  for (const char* kind : {"e4m3>f32:acc=fast", "bf16>f32:layout=tt", "bf16>f32:layout=nn"}) {
    add_kernels(std::string("200x136x208:") + kind, &all);
  }
  build_all(all);
  expect_copies("200x136x208:e4m3>f32", 0x38, any_e4m3, e4m3);
  expect_copies("200x136x208:e4m3>f32:acc=fast", 0x38, any_e4m3, e4m3);
  expect_copies(
      "200x136x208:s8", 1,
      [&](std::int64_t n, std::int64_t k) -> std::uint32_t { return mixed(n, k) % 256; },
      [](std::uint32_t code) { return static_cast<float>(static_cast<std::int8_t>(code)); });
  const auto any_bf16 = [&](std::int64_t n, std::int64_t k) -> std::uint32_t {
    return (mixed(n, k) >> 3 & 0x807F) | (1 + mixed(n, k) % 254) << 7;
  };
  const auto bf16 = [](std::uint32_t code) {
    float value = 0;
    code <<= 16;
    std::memcpy(&value, &code, 4);
    return value;
  };
  for (const std::string layout : {"tt", "nn", "nt"}) {
    expect_copies("200x136x208:bf16>f32:layout=" + layout, 0x3F80, any_bf16, bf16);
    if (HasFatalFailure()) return;
  }
}

TEST(Sm90DenseKernelTypes, TwentyRunsAreBitwiseEqual) {
  CULET_NEEDS_HOPPER();
  for (const Kernel& kernel : kKernels) {
    for (const int splits : {1, 4}) {
      check_repeatable("300x1032x2048:bf16:layout=nt:lda=304", "sm90_dense",
                       kernel.config(64, splits));
    }
  }
  for (const Kernel& kernel : kSplitters) {
    check_repeatable("300x1032x2048:bf16", "sm90_dense", kernel.config(64));
  }
}

}  // namespace
}  // namespace culet
