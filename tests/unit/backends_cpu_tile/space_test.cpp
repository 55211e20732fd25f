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
        auto parsed = TileConfig::parse(config, device);
        ASSERT_TRUE(parsed.has_value()) << config.text();
        EXPECT_EQ(parsed->config(), config);
        EXPECT_EQ(config_error(*parsed, problem, device), "") << config.text();
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
    EXPECT_FALSE(TileConfig::parse(*config, described("x86-64-v4")).has_value()) << text;
  }
}

/// Of column-major B, row by row in panels; what a case changes comes after it.
constexpr const char* kPlain =
    "code=jit kernel=tile math=f32 tile=6x32 b=pack swap=0 copy=0 block=0x0x0 threads=1 split=none";

TEST(CpuTileSpace, NumbersOutOfRangeAreErrors) {
  const auto accepts = [](const char* key, const char* value) {
    Config config = Config::parse(kPlain).value();
    config.set(key, value);
    return TileConfig::parse(config, described("x86-64-v4", 8)).has_value();
  };
  EXPECT_TRUE(accepts("block", "6x32x8"));
  // Loops with such steps would never end.
  for (const char* block : {"-6x32x8", "6x-32x8", "6x32x-8", "9223372036854775806x32x8",
                            "6x9223372036854775776x8", "6x32x9223372036854775800"}) {
    EXPECT_FALSE(accepts("block", block)) << block;
  }
  EXPECT_TRUE(accepts("threads", "8"));
  EXPECT_FALSE(accepts("threads", "9"));
}

/// As an imported choice may have them: it is built without being looked up in the space.
TEST(CpuTileSpace, RefusesWhatItsKernelsCannotRun) {
  const auto backend = make_cpu_tile_backend();
  const auto& family = dynamic_cast<const KernelFamily&>(*backend);
  const auto error = [&](const char* problem, const char* changes,
                         const char* architecture = "x86-64-v4", Part part = Part::all) {
    Config config = Config::parse(kPlain).value();
    const Config changed = Config::parse(changes).value();
    for (const auto& [key, value] : changed.values()) config.set(key, value);
    const auto spec = family.launch(problem_of_text(problem), {"cpu_tile", config, part},
                                    described(architecture, 2));
    return spec ? std::string() : spec.error().message;
  };
  const auto expect = [](const std::string& message, const std::string& says) {
    EXPECT_EQ(message.find("cpu_tile: " + says), 0U) << message << ", not " << says;
  };
  EXPECT_EQ(error("64x64x64:f32", ""), "");
  EXPECT_EQ(error("64x64x64:f32", "threads=2 split=n"), "");
  EXPECT_EQ(error("64x64x64:f32:layout=tt", "b=direct"), "");
  EXPECT_EQ(error("64x64x64:f32:pack=b", "b=prepack"), "");
  EXPECT_EQ(error("64x64x64:f32", "kernel=dot b=direct tile=3x5"), "");
  expect(error("64x64x64:f32", "threads=3 split=n"), "threads=3");
  expect(error("64x64x64:f32", "b=direct"), "b=direct");
  expect(error("64x64x64:f32", "b=through"), "b=through");
  expect(error("64x64x64:f32:layout=tt", "swap=1"), "swap=1");
  expect(error("64x64x64:f32:layout=tt", "kernel=dot b=direct"), "kernel=dot");
  expect(error("64x64x64:f32:pack=b", "kernel=dot b=prepack"), "kernel=dot");
  expect(error("64x64x64:f32", "b=prepack"), "b=prepack");
  expect(error("64x64x64:f32:pack=b", "b=prepack swap=1"), "b=prepack");
  expect(error("64x64x64:f32", "tile=6x8"), "tile=6x8");
  expect(error("64x64x64:f32", "math=dot", "x86-64-v4-amx"), "math=dot");
  expect(error("64x64x64:bf16", "math=dot"), "math=dot");
  expect(error("64x64x64:bf16", "math=amx", "x86-64-v4-bf16"), "math=amx");
  expect(error("64x64x64:bf16", "math=amx", "x86-64-v4-amx"), "tile=6x32");
  expect(error("64x64x64:f32:epi=\"relu(acc)\"", "code=menu"), "code=menu");
  expect(error("64x64x64:f16", ""), "f16");
  expect(error("64x64x64:f32", "", "x86-64-v4", Part::epilogue), "an epilogue alone");
  // 2^68 bytes of panels: B's entries overlap.
  expect(error("1x16x2147483647x2147483647:f32:stridea=1:strideb=1:pack=b", "b=prepack"),
         "b=prepack: more than 2^62 bytes");
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

/// The first of a problem's configurations in the model's order.
Config first_ranked(const char* text, const DeviceSpec& device) {
  const auto backend = make_cpu_tile_backend();
  const Problem problem = problem_of_text(text);
  double seconds = 1e9;
  Config first;
  for (const Config& config : backend->configs(problem, device)) {
    const double t = estimate(*backend->features(problem, config, device), device).seconds;
    if (t < seconds) seconds = t, first = config;
  }
  return first;
}

/// The model's order on the shapes it was made for: the kind of kernel that wins comes first.
TEST(CpuTileSpace, RanksTheRightKindFirst) {
  DeviceSpec device = described("x86-64-v4-amx");
  device.dram_bytes_per_s = 2e10;
  const auto best = [&](const char* text) { return first_ranked(text, device); };
  EXPECT_EQ(best("1x4096x4096:f32:layout=tt").get("b"), "direct");
  EXPECT_EQ(best("1x4096x4096:f32").get("kernel"), "dot");
  EXPECT_EQ(best("64x4096x4096:f32").get("swap"), "1");
  EXPECT_EQ(best("8x4096x4096:f32:layout=tt").get("b"), "direct");
  EXPECT_EQ(best("64x4096x4096:bf16").get("math"), "amx");
  EXPECT_EQ(best("64x4096x4096:bf16").get("swap"), "1");
  EXPECT_EQ(best("16x4096x4096:bf16:pack=b").get("b"), "prepack");
}

/// The same on the AVX2 machine, where what these are not took 20 % to twice the time.
TEST(CpuTileSpace, RanksTheRightKindFirstOnAvx2) {
  DeviceSpec device = described("x86-64-v3");
  device.l1_bytes = 32 << 10;
  device.l2_bytes = 512 << 10;
  device.l3_bytes = 8 << 20;
  device.dram_bytes_per_s = 1.4e10;
  device.l2_bytes_per_s = device.shared_bytes_per_s = 3.7e10;
  device.vector_ops[DType::f32] = 4.06e10;
  const auto best = [&](const char* text) { return first_ranked(text, device); };
  const auto steps = [&](const Config& config) { return config.get_dims("block").at(2); };
  for (const char* few : {"8x4096x4096:f32:layout=tt", "16x4096x4096:f32:layout=tt"}) {
    EXPECT_EQ(best(few).get("b"), "direct") << few;
    EXPECT_EQ(best(few).get_dims("tile").at(1), 16) << few;  // whole lines
    EXPECT_LE(steps(best(few)), 256) << few;
  }
  EXPECT_LE(steps(best("64x4096x4096:f32:layout=tt")), 256);
  for (const char* large : {"1024x1024x1024:f32:layout=tt", "4096x256x4096:f32"}) {
    EXPECT_EQ(best(large).get("copy"), "1") << large;
  }
}

}  // namespace

}  // namespace culet::cpu_tile
