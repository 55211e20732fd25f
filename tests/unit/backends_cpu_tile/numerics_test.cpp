// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Results of cpu_tile kernels, compiled for the problem and from the menu: exact on data whose sums
// are exact, whatever the sizes, strides and alignment.
#include <set>

#include "harness.h"

namespace culet::cpu_tile {

namespace {

bool has_compiler() { return Compiler::toolchain(SourceLanguage::cpp, this_cpu()).has_value(); }

TileConfig tile(Math math, int mr, int nr, Columnwise columns, bool swap, bool copy,
                Blocking blocking, int prefetch = 0) {
  TileConfig c;
  c.math = math;
  c.mr = mr;
  c.nr = nr;
  c.columns = columns;
  c.swap = swap;
  c.copy_rows = copy;
  c.blocking = blocking;
  c.prefetch = prefetch;
  return c;
}

TileConfig dots(Math math, int mr, int nr) {
  TileConfig c = tile(math, mr, nr, Columnwise::direct, false, false, {});
  c.dot_products = true;
  c.prefetch = 16;
  return c;
}

}  // namespace

std::vector<Config> sample_configs(const Problem& problem, const DeviceSpec& device) {
  const Level level = level_of(device);
  const int lanes = lanes_of(level);
  std::vector<Config> out;
  const auto add = [&](const TileConfig& c) { out.push_back(c.config()); };
  const bool bf16 = problem.b == DType::bf16;
  std::vector<Math> maths = {Math::f32};
  if (bf16 && level >= Level::v4_bf16) maths.push_back(Math::dot);
  for (const Math math : maths) {
    const bool copy = bf16 && math == Math::f32;
    if (is_tn(problem)) {
      add(dots(math, 3, 4));
      add(tile(math, 4, 2 * lanes, Columnwise::pack, false, copy, {32, 8, 4 * lanes}));
      add(tile(math, 5, lanes, Columnwise::pack, true, true, {64, 0, 0}));
    } else {
      add(tile(math, 4, 2 * lanes, Columnwise::direct, false, copy, {64, 0, 0}, 4));
      add(tile(math, 3, 2 * lanes, Columnwise::through, false, true, {32, 6, 4 * lanes}));
      add(tile(math, 4, 2 * lanes, Columnwise::pack, false, copy, {32, 8, 4 * lanes}, 2));
    }
    if (problem.pack_b) add(tile(math, 4, 2 * lanes, Columnwise::prepack, false, copy, {64, 0, 0}));
  }
  if (bf16 && level >= Level::v4_amx) {
    add(tile(Math::amx, 32, 32, Columnwise::pack, false, false, {64, 0, 0}, 2));
    add(tile(Math::amx, 16, 64, Columnwise::pack, false, true, {0, 16, 64}));
    if (is_tn(problem)) add(tile(Math::amx, 32, 32, Columnwise::pack, true, false, {32, 0, 0}, 8));
    if (is_tn(problem)) add(tile(Math::amx, 48, 16, Columnwise::pack, true, true, {}));
    if (problem.pack_b) add(tile(Math::amx, 32, 32, Columnwise::prepack, false, false, {64, 0, 0}));
  }
  return out;
}

namespace {

constexpr const char* kDtypes[] = {"f32", "bf16>f32", "bf16"};
constexpr const char* kLayouts[] = {":layout=tt", "", ":layout=tt:pack=b", ":pack=b"};

/// Compiles what is not yet compiled, all cores at work.
void compile_all(const Problem& problem, const std::vector<Config>& configs) {
  const DeviceSpec device = this_cpu();
  const auto backend = make_cpu_tile_backend();
  parallel_for(static_cast<int>(configs.size()), 0, [&](int i) {
    const Config& config = configs[static_cast<std::size_t>(i)];
    (void)backend->build(problem, {"cpu_tile", config, Part::all}, device, shared_compiler());
  });
}

/// Compiled configurations, where there is a compiler, and menu ones.
std::vector<Config> all_kinds(const Problem& problem, const DeviceSpec& device, bool jit = true) {
  std::vector<Config> out;
  if (jit && has_compiler()) out = sample_configs(problem, device);
  if (!problem.epilogue.is_identity()) {
    compile_all(problem, out);
    return out;
  }
  for (const TileConfig& c : menu_configs(problem, level_of(device))) out.push_back(c.config());
  // Where B may be packed, the others have had their turn without.
  if (problem.pack_b)
    std::erase_if(out, [](const Config& config) { return config.get("b") != "prepack"; });
  if (jit) compile_all(problem, out);
  return out;
}

void expect_right(const std::string& text, Values a, Values b, bool bias = false, bool jit = true) {
  const DeviceSpec device = this_cpu();
  const Problem problem = problem_of_text(text);
  const auto configs = all_kinds(problem, device, jit);
  for (const Config& config : configs) {
    const std::string wrong = run_case({problem, config, a, b, bias}, device);
    EXPECT_EQ(wrong, "") << text << " " << config.text();
  }
}

/// One kernel for every k: k is a run-time value, and loading each anew would take minutes.
void all_ones(const std::string& kind, const Config& config, const std::vector<int>& ks) {
  const DeviceSpec device = this_cpu();
  const auto backend = make_cpu_tile_backend();
  const auto problem = [&](int k) { return problem_of_text("5x35x" + std::to_string(k) + kind); };
  auto built = backend->build(problem(ks.back()), {"cpu_tile", config, Part::all}, device,
                              shared_compiler());
  ASSERT_TRUE(built.has_value()) << built.error().detail;
  const Entries entries = entries_of(*built);
  ASSERT_NE(entries.kernel, nullptr);
  DirectKernel direct(entries.kernel, entries.pack, built->launch.host.scratch_bytes_per_thread);
  for (const int k : ks) {
    const Case c{problem(k), config, one, one};
    direct.use(c.problem);
    // Sums up to 256 are exact in bf16; larger ones round as the reference does.
    ASSERT_EQ(check(c, direct, built->launch.packed_b_bytes), "") << kind << k << config.text();
  }
}

TEST(CpuTileNumerics, AllOnesForEveryK) {
  std::vector<int> ks;
  for (int k = 1; k <= 130; ++k) ks.push_back(k);
  ks.insert(ks.end(), {1000, 4104});
  for (const char* dtypes : kDtypes) {
    for (const char* layout : kLayouts) {
      const std::string kind = ":" + std::string(dtypes) + layout;
      for (const Config& config : all_kinds(problem_of_text("5x35x4104" + kind), this_cpu()))
        all_ones(kind, config, ks);
    }
  }
}

TEST(CpuTileNumerics, SmallIntegersOddSizes) {
  // Remainders are constants of a compiled kernel, so each size compiles anew: few of those.
  const char* menu_only[] = {"1x1x1", "3x5x7", "33x70x97", "64x96x130", "1x130x77"};
  for (const char* dtypes : kDtypes) {
    for (const char* layout : kLayouts) {
      expect_right("17x103x257:" + std::string(dtypes) + layout, integer, integer);
      for (const char* size : menu_only) {
        expect_right(std::string(size) + ":" + dtypes + layout, integer, integer, false, false);
      }
    }
  }
}

TEST(CpuTileNumerics, LeadingDimensionsLargerThanRowsAndAnyAlignment) {
  for (const char* dtypes : kDtypes) {
    for (const char* layout : kLayouts) {
      const std::string element = std::string(dtypes) == "f32" ? "4" : "2";
      const std::string d = std::string(dtypes) == "bf16" ? "2" : "4";
      expect_right("17x103x67:" + std::string(dtypes) + layout + ":lda=71:ldb=109:ldd=105:aligna=" +
                       element + ":alignb=" + element + ":alignd=" + d,
                   integer, integer);
    }
  }
}

TEST(CpuTileNumerics, OneHotRowsPickRowsOfB) {
  const auto hot = [](std::int64_t m, std::int64_t k) {
    return k == (m * 5 + 3) % 67 ? 1.0F : 0.0F;
  };
  const auto count = [](std::int64_t k, std::int64_t n) {
    return static_cast<float>((k * 31 + n) % 251);
  };
  for (const char* dtypes : kDtypes)
    for (const char* layout : kLayouts)
      expect_right(std::string("5x35x67:") + dtypes + layout, hot, count);
}

TEST(CpuTileNumerics, NoKGivesTheEpilogueOfZero) {
  for (const char* dtypes : kDtypes)
    for (const char* layout : {":layout=tt", ""})
      expect_right(std::string("5x35x0:") + dtypes + layout, one, one);
}

TEST(CpuTileNumerics, EpilogueBiasRelu) {
  if (!has_compiler()) GTEST_SKIP() << "no C++ compiler: the menu ends in D = acc";
  for (const char* dtypes : kDtypes) {
    for (const char* layout : {":layout=tt", ""}) {
      for (const char* size : {"17x103x105", "17x103x0"})
        expect_right(std::string(size) + ":" + dtypes + layout + ":epi=\"relu(acc + bias[n])\"",
                     integer, integer, true);
    }
  }
}

TEST(CpuTileNumerics, PartsOfTwoThreads) {
  const DeviceSpec device = this_cpu(2);
  for (const char* dtypes : {"f32", "bf16"}) {
    for (const char* layout : kLayouts) {
      const Problem problem = problem_of_text("65x131x97:" + std::string(dtypes) + layout);
      // The menu has every kind of kernel; compiled ones differ in constants only.
      for (const Config& one_thread : all_kinds(problem, device, false)) {
        for (const char* split : {"n", "m"}) {
          Config config = one_thread;
          config.set("threads", 2).set("split", split);
          EXPECT_EQ(run_case({problem, config, integer, integer}, device), "")
              << problem.text() << " " << config.text();
        }
      }
    }
  }
}

TEST(CpuTileNumerics, RangeOfM) {
  const DeviceSpec device = this_cpu();
  for (const char* dtypes : {"f32", "bf16"}) {
    for (const char* layout : {":layout=tt", ""}) {
      const Problem range =
          problem_of_text("64x50x70:" + std::string(dtypes) + layout + ":m=1..64");
      for (const Config& config : all_kinds(range, device)) {
        for (const std::int64_t m : {1, 2, 3, 7, 16, 17, 33, 64}) {
          Problem problem = range;
          problem.m = m;
          EXPECT_EQ(run_case({problem, config, integer, integer}, device), "")
              << m << " " << range.text() << " " << config.text();
        }
      }
    }
  }
}

/// The rendered source of a problem with a range of m is the same at every m of it; so is the
/// precompiled kernel. Levels below this CPU's best must be right as well.
TEST(CpuTileNumerics, EveryMenuLevelThisCpuRuns) {
  const DeviceSpec best = this_cpu();
  int levels = 0;
  for (const char* level : {"x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx"}) {
    DeviceSpec device = best;
    device.architecture = level;
    if (level_of(device) > level_of(best)) continue;
    ++levels;
    for (const char* dtypes : kDtypes) {
      for (const char* layout : kLayouts) {
        for (const char* size : {"1x70x33", "19x103x105", "33x70x1040"}) {
          const Problem problem = problem_of_text(std::string(size) + ":" + dtypes + layout);
          for (const TileConfig& c : menu_configs(problem, level_of(device))) {
            EXPECT_EQ(run_case({problem, c.config(), integer, integer}, device), "")
                << level << " " << problem.text() << " " << c.config().text();
          }
        }
      }
    }
  }
  EXPECT_GE(levels, 1) << best.architecture;
}

}  // namespace

}  // namespace culet::cpu_tile
