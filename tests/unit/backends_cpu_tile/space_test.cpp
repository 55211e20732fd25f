// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What cpu_tile answers and lists, without running anything.
#include <cstddef>
#include <set>

#include "codegen/codegen.h"
#include "culet/ranking.h"
#include "harness.h"
#include "launch/host_builtin.h"

namespace culet::cpu_tile {

namespace {

DeviceSpec described(const char* architecture, int threads = 1) {
  DeviceSpec device;
  device.architecture = architecture;
  device.threads = device.units = threads;
  device.l2_bytes = 2 << 20;
  device.l1_bytes = 48 << 10;
  device.vector_ops[DType::f32] = 1.5e11;
  device.tensor_ops[DType::bf16] = 1.5e11;
  return device;
}

TEST(CpuTileSpace, RefusalsNameTheirRule) {
  const auto backend = make_cpu_tile_backend();
  const auto reason = [&](const char* text, const char* architecture = "x86-64-v4") {
    const Support support = backend->supports(problem_of_text(text), described(architecture));
    EXPECT_FALSE(support.yes) << text;
    return support.reason;
  };
  EXPECT_NE(reason("8x8x8:f32:layout=nt").find("column-major"), std::string::npos);
  EXPECT_NE(reason("8x8x8:f16").find("f16"), std::string::npos);
  EXPECT_NE(reason("8x8x8:f32", "x86-64").find("x86-64-v3"), std::string::npos);
  EXPECT_TRUE(backend->supports(problem_of_text("8x8x8:bf16"), described("x86-64-v3")).yes);
}

TEST(CpuTileSpace, ConfigsAreManyDistinctDeterministicAndParseBack) {
  const auto backend = make_cpu_tile_backend();
  for (const char* text : {"1x4096x4096:f32", "16x4096x4096:f32:layout=tt", "64x4096x4096:bf16",
                           "1024x1024x1024:bf16:layout=tt:pack=b", "256x1024x1024:f32:pack=b"}) {
    for (const char* level : {"x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx"}) {
      const Problem problem = problem_of_text(text);
      const DeviceSpec device = described(level, 2);
      const auto configs = backend->configs(problem, device);
      EXPECT_GT(configs.size(), 20U) << text << " " << level;
      EXPECT_EQ(configs, backend->configs(problem, device));
      std::set<std::string> distinct;
      for (const Config& config : configs) {
        distinct.insert(config.text());
        auto parsed = TileConfig::parse(config);
        ASSERT_TRUE(parsed.has_value()) << config.text();
        EXPECT_EQ(parsed->config(), config);
        const auto features = backend->features(problem, config, device);
        ASSERT_TRUE(features.has_value());
        EXPECT_GT(estimate(*features, device).seconds, 0) << config.text();
      }
      EXPECT_EQ(distinct.size(), configs.size());
    }
  }
}

TEST(CpuTileSpace, EveryMenuConfigHasItsKernel) {
  const DeviceSpec device = this_cpu();
  register_menu();
  for (const char* dtypes : {"f32", "bf16>f32", "bf16"}) {
    for (const char* layout : {":layout=tt:pack=b", ":pack=b"}) {
      const Problem problem = problem_of_text("17x100x100:" + std::string(dtypes) + layout);
      const auto configs = menu_configs(problem, level_of(device));
      EXPECT_GE(configs.size(), 4U);
      for (const TileConfig& config : configs) {
        const std::string name = menu_name(problem, config, level_of(device));
        EXPECT_NE(find_host_builtin(name), nullptr) << name;
        if (config.columns == Columnwise::prepack) {
          EXPECT_NE(find_host_builtin_pack(name), nullptr) << name;
        }
      }
    }
  }
}

TEST(CpuTileSpace, BadConfigsAreErrors) {
  for (const char* text :
       {"code=jit", "code=new kernel=tile math=f32 tile=6x64 b=direct swap=0 copy=0 split=none",
        "code=jit kernel=tile math=f32 tile=6x64 b=direct swap=0 copy=0 block=7x0x0 split=none",
        "code=jit kernel=tile math=f32 tile=600x64 b=direct swap=0 copy=0 block=0x0x0 split=none",
        "code=jit kernel=tile math=f64 tile=6x64 b=direct swap=0 copy=0 block=0x0x0 split=none"}) {
    auto config = Config::parse(text);
    ASSERT_TRUE(config.has_value());
    EXPECT_FALSE(TileConfig::parse(*config).has_value()) << text;
  }
}

/// The arguments as kernels compiled at run time see them are those of the public header.
TEST(CpuTileSpace, SourceRepeatsTheArguments) {
  const std::string text(embedded_kernel("cpu/abi.h"));
  const char* lines[] = {"const void* a;",
                         "const void* b;",
                         "void* d;",
                         "const void* temporary;",
                         "const void* const* extra;",
                         "void* scratch;",
                         "long long m, n, k;",
                         "long long lda, ldb, ldd;",
                         "long long m_begin, m_end;",
                         "long long n_begin, n_end;",
                         "long long k_begin, k_end;"};
  std::size_t at = 0;
  for (const char* line : lines) {
    at = text.find(line, at);
    ASSERT_NE(at, std::string::npos) << line;
  }
  EXPECT_EQ(sizeof(CuletHostKernelArgs), 18 * 8U);
  EXPECT_EQ(offsetof(CuletHostKernelArgs, scratch), 5 * 8U);
  EXPECT_EQ(offsetof(CuletHostKernelArgs, lda), 9 * 8U);
  EXPECT_EQ(offsetof(CuletHostKernelArgs, k_end), 17 * 8U);
}

/// The model's order on the shapes it was made for: the kind of kernel that wins comes first.
TEST(CpuTileSpace, RanksTheRightKindFirst) {
  const auto backend = make_cpu_tile_backend();
  DeviceSpec device = described("x86-64-v4-amx");
  device.dram_bytes_per_s = 2e10;
  const auto best = [&](const char* text) {
    const Problem problem = problem_of_text(text);
    double seconds = 1e9;
    Config first;
    for (const Config& config : backend->configs(problem, device)) {
      const double t = estimate(*backend->features(problem, config, device), device).seconds;
      if (t < seconds) seconds = t, first = config;
    }
    return first;
  };
  EXPECT_EQ(best("1x4096x4096:f32:layout=tt").get("b"), "direct");
  EXPECT_EQ(best("1x4096x4096:f32").get("kernel"), "dot");
  EXPECT_EQ(best("64x4096x4096:f32").get("swap"), "1");
  EXPECT_EQ(best("8x4096x4096:f32:layout=tt").get("b"), "direct");
  EXPECT_EQ(best("64x4096x4096:bf16").get("math"), "amx");
  EXPECT_EQ(best("64x4096x4096:bf16").get("swap"), "1");
  EXPECT_EQ(best("16x4096x4096:bf16:pack=b").get("b"), "prepack");
}

}  // namespace

}  // namespace culet::cpu_tile
