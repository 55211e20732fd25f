// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Numerics of culet's own CUDA kernels on a GPU, through Plan: every family against an independent
// sum whose result is exact, with NaN in all padding of the inputs and canaries around D.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "backends/backends.h"
#include "base/parallel.h"
#include "compile/compiler.h"
#include "culet/cache.h"
#include "gpu_case.h"

namespace culet {
namespace {

using test::gpu;
using test::GpuCase;
using test::take;

/// One compiler for the whole program: cases share code by content.
Compiler& compiler() {
  static const auto cache = take(open_cache("none"));
  static Compiler made(cache);
  return made;
}

const Backend& family(const std::string& name) {
  static const std::shared_ptr<const Backend> all[] = {
      make_sm90_dense_backend(), make_simt_backend(), make_pointwise_backend()};
  for (const auto& backend : all) {
    if (backend->name() == name) return *backend;
  }
  ADD_FAILURE() << name;
  return *all[0];
}

Result<Plan> plan_of(const Problem& problem, const std::string& backend, const Config& config) {
  const Step step{backend, config, Part::all};
  auto built = family(backend).build(problem, step, *gpu(), compiler());
  if (!built) return tl::unexpected(built.error());
  return Plan::load(problem, {{{step}}, {*built}}, *gpu());
}

#define CULET_NEEDS_HOPPER()                                                   \
  CULET_NEEDS_GPU();                                                           \
  const auto context = take(cuda::Context::enter(gpu()->ordinal));             \
  if (gpu()->architecture != "sm_90a") {                                       \
    GTEST_SKIP() << "needs a Hopper GPU, this one is " << gpu()->architecture; \
  }

/// A case whose answer, all of D's memory with its padding, is worked out once for all
/// configurations.
class Exact {
 public:
  explicit Exact(const std::string& text) : gemm_(text) {}
  const Problem& problem() const { return gemm_.host.problem; }

  void run_and_compare(const Plan& plan, std::int64_t m) {
    const std::int64_t size = bytes(problem().d, gemm_.host.span_d) + 64;
    test::Memory poison = gemm_.host.poisoned();
    const cuda::DeviceBuffer d = test::upload(poison.data(), size);
    gemm_.prepare(plan);
    Arguments arguments = gemm_.arguments(m);
    arguments.d = d.data();
    const auto ran = plan.run(arguments);
    ASSERT_TRUE(ran) << ran.error().message;
    const auto done = cuda::synchronize();
    ASSERT_TRUE(done) << done.error().message;
    test::Memory got(size);
    ASSERT_TRUE(d.download(got.data(), size));
    if (std::memcmp(got.data(), wanted(m, size).data(), static_cast<std::size_t>(size)) == 0)
      return;
    // Says where; zeros of the other sign are equal.
    gemm_.host.compare(got, m);
    gemm_.host.compare_untouched(got, m);
  }

 private:
  test::Memory& wanted(std::int64_t m, std::int64_t size) {
    const auto known = wanted_.find(m);
    if (known != wanted_.end()) return known->second;
    const Problem& p = problem();
    test::Memory all = gemm_.host.poisoned();
    for (std::int64_t entry = 0; entry < p.batch; ++entry) {
      for (std::int64_t row = 0; row < m; ++row) {
        for (std::int64_t column = 0; column < p.n; ++column) {
          test::put(p.d, all.data(), entry * p.stride_d + row * p.ldd + column,
                    gemm_.host.expected(entry, row, column));
        }
      }
    }
    EXPECT_GT(size, 0);
    return wanted_.emplace(m, std::move(all)).first->second;
  }

  GpuCase gemm_;
  std::map<std::int64_t, test::Memory> wanted_;
};

/// Runs a problem with one configuration and compares everything.
void check(const std::string& problem_text, const std::string& backend, const Config& config) {
  SCOPED_TRACE(problem_text + "  " + backend + "{" + config.text() + "}");
  // Kept between calls, and on purpose not destroyed at exit: its memory is the device's, which may
  // be gone by then.
  static std::string last_text;
  static Exact* last = nullptr;
  if (last_text != problem_text) {
    delete last;
    last = new Exact(problem_text);
    last_text = problem_text;
  }
  const Problem& problem = last->problem();
  const auto plan = plan_of(problem, backend, config);
  ASSERT_TRUE(plan) << plan.error().message << "\n" << plan.error().detail;
  last->run_and_compare(*plan, problem.m);
  for (const std::int64_t m : {problem.m_range.low, problem.m_range.high}) {
    if (m != problem.m) last->run_and_compare(*plan, m);
  }
}

void check(const std::string& problem, const std::string& backend, const std::string& config) {
  check(problem, backend, take(Config::parse(config)));
}

/// Compiles configurations in parallel beforehand; errors show up when they are used.
void warm_up(const std::string& problem_text, const std::string& backend,
             const std::vector<Config>& configs) {
  const Problem problem = take(Problem::parse(problem_text));
  parallel_for(static_cast<int>(configs.size()), 0, [&](int i) {
    (void)family(backend).build(problem, {backend, configs[static_cast<std::size_t>(i)], Part::all},
                                *gpu(), compiler());
  });
}

/// The first configuration of each tile, cluster and schedule.
std::vector<Config> distinct_kernels(const std::vector<Config>& all) {
  std::vector<Config> kept;
  std::string last;
  for (const Config& config : all) {
    const std::string key = std::string(config.get("tile")) + std::string(config.get("cluster")) +
                            std::string(config.get("schedule")) +
                            std::string(config.get("occupancy"));
    if (key != last) kept.push_back(config);
    last = key;
  }
  return kept;
}

// --- sm90_dense ----------------------------------------------------------------------------------

TEST(Sm90DenseKernel, EveryTileClusterAndScheduleIsExact) {
  CULET_NEEDS_HOPPER();
  // Odd tile counts in both directions, k with a tail, rows with padding.
  const std::string problem = "650x520x200:bf16:lda=208:ldb=216:ldd=528";
  const auto configs =
      distinct_kernels(family("sm90_dense").configs(take(Problem::parse(problem)), *gpu()));
  EXPECT_GT(configs.size(), 40u);
  warm_up(problem, "sm90_dense", configs);
  for (const Config& config : configs) check(problem, "sm90_dense", config);
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
const char* const kKernels[] = {kCooperative, kClusterM, kClusterN, kPingpong, kPingpongCluster};

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
    for (const char* kernel : kKernels) check(problem, "sm90_dense", std::string(kernel) + "1");
    if (HasFatalFailure()) return;
  }
}

TEST(Sm90DenseKernel, SplitsOfKAreExact) {
  CULET_NEEDS_HOPPER();
  for (const char* problem :
       {"130x264x1000:bf16", "130x257x1000:bf16>f32", "70x136x640x3:f16",
        "16x264x1024:bf16:epi=\"relu(acc + bias[n])\"", "200x72x1016:bf16:m=1..300"}) {
    for (const char* kernel : kKernels) {
      for (const char* splits : {"2", "3", "7", "10"}) {
        check(problem, "sm90_dense", std::string(kernel) + splits);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Sm90DenseKernel, Epilogues) {
  CULET_NEEDS_HOPPER();
  for (const char* problem : {
           "200x264x72:bf16:epi=\"acc + bias[n]\"",
           "200x264x72:bf16:epi=\"relu(acc * s + bias[n]:f32) + c[m,n]\"",
           "200x263x72:bf16>f32:ldd=264:epi=\"acc * s[m]:f32 + bias[n]:f16 - c[m,n]:bf16\"",
           "100x136x72x3:f16:epi=\"max(acc, c[m,n]) + s[m]:bf16\"",
           "200x264x72:bf16:epi=\"0.5 * acc + 2 * c[m,n]\"",
       }) {
    for (const char* kernel : kKernels) check(problem, "sm90_dense", std::string(kernel) + "1");
    if (HasFatalFailure()) return;
  }
}

/// Operands at addresses that are only as aligned as the problem says.
void check_shifted(const std::string& text, const std::string& backend, const std::string& config,
                   std::int64_t shift_a, std::int64_t shift_b, std::int64_t shift_d) {
  SCOPED_TRACE(text + " " + backend + "{" + config + "}");
  GpuCase gemm(text);
  const Problem& p = gemm.host.problem;
  const auto plan = plan_of(p, backend, take(Config::parse(config)));
  ASSERT_TRUE(plan) << plan.error().message << plan.error().detail;
  const auto shifted = [](test::Memory& memory, std::int64_t size, std::int64_t shift) {
    test::Memory moved(size + shift);
    std::memcpy(moved.data() + shift, memory.data(), static_cast<std::size_t>(size));
    return test::upload(moved.data(), size + shift);
  };
  const std::int64_t d_size = bytes(p.d, p.span_d()) + 64;
  test::Memory poison = gemm.host.poisoned();
  const auto a = shifted(gemm.host.a, bytes(p.a, p.span_a()), shift_a);
  const auto b = shifted(gemm.host.b, bytes(p.b, p.span_b()), shift_b);
  const auto d = shifted(poison, d_size, shift_d);
  gemm.prepare(*plan);
  Arguments arguments = gemm.arguments();
  arguments.a = static_cast<const char*>(a.data()) + shift_a;
  arguments.b = static_cast<const char*>(b.data()) + shift_b;
  arguments.d = static_cast<char*>(d.data()) + shift_d;
  ASSERT_TRUE(plan->run(arguments));
  ASSERT_TRUE(cuda::synchronize());
  test::Memory all(d_size + shift_d), result(d_size);
  ASSERT_TRUE(d.download(all.data(), d_size + shift_d));
  std::memcpy(result.data(), all.data() + shift_d, static_cast<std::size_t>(d_size));
  gemm.host.compare(result);
  gemm.host.compare_untouched(result);
}

TEST(Sm90DenseKernel, OperandsMayStartAnywhereTheirAlignmentAllows) {
  CULET_NEEDS_HOPPER();
  for (const char* kernel : kKernels) {
    const std::string config = std::string(kernel) + "1";
    check_shifted("70x72x72:bf16", "sm90_dense", config, 16, 48, 32);
    check_shifted("70x72x72:bf16:alignd=2", "sm90_dense", config, 16, 16, 2);
    check_shifted("70x72x72:bf16>f32:alignd=4", "sm90_dense", config, 16, 16, 4);
  }
}

/// Random 16-bit operands whose sums do round, so that any change of order would show.
void check_repeatable(const std::string& text, const std::string& backend,
                      const std::string& config) {
  SCOPED_TRACE(text + " " + config);
  const Problem p = take(Problem::parse(text));
  const auto plan = plan_of(p, backend, take(Config::parse(config)));
  ASSERT_TRUE(plan) << plan.error().message << plan.error().detail;
  std::mt19937 random(3);
  const auto operand = [&](std::int64_t count) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
    // Of magnitudes 2^-8 .. 2^7, both signs.
    for (auto& x : values) x = static_cast<std::uint16_t>((random() & 0x87FF) | 0x3800);
    return test::upload(values.data(), count * 2);
  };
  const auto a = operand(p.span_a()), b = operand(p.span_b());
  const std::int64_t size = bytes(p.d, p.span_d());
  auto d = take(cuda::DeviceBuffer::allocate(size));
  const Workspace workspace = plan->workspace();
  auto scratch = take(cuda::DeviceBuffer::allocate(std::max<std::int64_t>(workspace.bytes, 256)));
  ASSERT_TRUE(scratch.fill(0));
  Arguments arguments;
  arguments.a = a.data();
  arguments.b = b.data();
  arguments.d = d.data();
  arguments.workspace = scratch.data();
  std::string first;
  for (int run = 0; run < 20; ++run) {
    ASSERT_TRUE(d.fill(0xff));
    ASSERT_TRUE(plan->run(arguments));
    ASSERT_TRUE(cuda::synchronize());
    std::string bits(static_cast<std::size_t>(size), '\0');
    ASSERT_TRUE(d.download(bits.data(), size));
    if (run == 0) {
      first = bits;
    } else {
      ASSERT_TRUE(bits == first) << "run " << run << " differs";
    }
  }
  // Counters are back at zero.
  if (workspace.zeroed_prefix > 0) {
    std::string prefix(static_cast<std::size_t>(workspace.zeroed_prefix), 'x');
    ASSERT_TRUE(scratch.download(prefix.data(), workspace.zeroed_prefix));
    EXPECT_EQ(prefix, std::string(prefix.size(), '\0'));
  }
}

TEST(Sm90DenseKernel, TwentyRunsAreBitwiseEqual) {
  CULET_NEEDS_HOPPER();
  for (const char* kernel : kKernels) {
    for (const char* splits : {"1", "4"}) {
      check_repeatable("300x1032x4096:bf16", "sm90_dense", std::string(kernel) + splits);
    }
  }
  check_repeatable("1000x1032x2048:bf16>f32", "sm90_dense",
                   "tile=256x128x64 cluster=1x2 stages=4 schedule=cooperative raster=m splits=3");
}

/// D of a problem without epilogue operands, from 16-bit operands given element by element.
std::string run_raw(const std::string& text, const std::string& backend, const std::string& config,
                    const std::function<std::uint16_t(std::int64_t row, std::int64_t k)>& a_at,
                    const std::function<std::uint16_t(std::int64_t n, std::int64_t k)>& b_at) {
  const Problem p = take(Problem::parse(text));
  const Plan plan = take(plan_of(p, backend, take(Config::parse(config))));
  std::vector<std::uint16_t> a(static_cast<std::size_t>(p.span_a()));
  std::vector<std::uint16_t> b(static_cast<std::size_t>(p.span_b()));
  for (std::int64_t row = 0; row < p.m; ++row) {
    for (std::int64_t k = 0; k < p.k; ++k)
      a[static_cast<std::size_t>(row * p.lda + k)] = a_at(row, k);
  }
  for (std::int64_t n = 0; n < p.n; ++n) {
    for (std::int64_t k = 0; k < p.k; ++k) b[static_cast<std::size_t>(n * p.ldb + k)] = b_at(n, k);
  }
  const auto on_a = test::upload(a.data(), p.span_a() * 2);
  const auto on_b = test::upload(b.data(), p.span_b() * 2);
  const std::int64_t size = bytes(p.d, p.span_d());
  auto d = take(cuda::DeviceBuffer::allocate(size));
  auto scratch =
      take(cuda::DeviceBuffer::allocate(std::max<std::int64_t>(plan.workspace().bytes, 256)));
  EXPECT_TRUE(d.fill(0xff));
  EXPECT_TRUE(scratch.fill(0));
  Arguments arguments;
  arguments.a = on_a.data();
  arguments.b = on_b.data();
  arguments.d = d.data();
  arguments.workspace = scratch.data();
  EXPECT_TRUE(plan.run(arguments));
  EXPECT_TRUE(cuda::synchronize());
  std::string bits(static_cast<std::size_t>(size), '\0');
  EXPECT_TRUE(d.download(bits.data(), size));
  return bits;
}

constexpr const char* kSimtTile = "kernel=tile tile=64x64x16 thread=4x4";

TEST(Kernels, OnesTimesOnesIsK) {
  CULET_NEEDS_HOPPER();
  const auto one = [](std::int64_t, std::int64_t) { return std::uint16_t{0x3F80}; };
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

// --- simt ----------------------------------------------------------------------------------------

TEST(SimtKernel, EveryConfigurationIsExact) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const char* problem : {"200x136x100:bf16", "7x200x515:bf16", "1x200x512:f32:layout=tt",
                              "5x201x300:f16:layout=nt", "70x65x40:f64:layout=nn"}) {
    const auto configs = family("simt").configs(take(Problem::parse(problem)), *gpu());
    warm_up(problem, "simt", configs);
    for (const Config& config : configs) check(problem, "simt", config);
    if (HasFatalFailure()) return;
  }
}

TEST(SimtKernel, DtypesLayoutsStridesAndEpilogues) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const char* problem : {
           "33x65x31:f64",
           "33x65x32:f32:layout=tt",
           "33x65x31:f32:layout=nn",
           "33x65x31:tf32:layout=nt",
           "33x64x32:f16:acc=f16",
           "33x65x31:bf16:layout=tt",
           "33x65x32:e4m3",
           "33x65x31:e5m2*e4m3>f32",
           "33x65x32:e4m3>e4m3:epi=\"acc * s:f32\"",
           "33x65x32:e5m2>e5m2",
           "33x65x32:s8",
           "33x65x31:u8*s8>s32:layout=nn",
           "33x65x32:s8>s8:epi=\"0.25 * acc\"",
           "33x65x32:s8*u8>f32:epi=\"acc * s[m]:f32\"",
           "40x48x40x3:f32:stridea=0",
           "40x48x40x3:bf16:layout=nt:strideb=0:strided=2000",
           "33x65x31:f32:lda=40:ldb=50:ldd=70",
           "3x65x31:bf16:lda=33:ldb=34:ldd=70",
           "5x7x0:bf16:epi=\"acc + bias[n]\"",
           "33x65x0:f32",
           "64x64x40:bf16:m=1..70",
           "2x64x40:bf16:m=1..7",
           "33x65x31:f64:epi=\"max(acc, c[m,n]) + bias[n]\"",
           "300x70x33x2:f32:epi=\"relu(acc + c[m,n]) * s[m]\"",
           "1x1x1:f32",
           "2x1x4097:f16>f32",
       }) {
    const auto configs = family("simt").configs(take(Problem::parse(problem)), *gpu());
    ASSERT_FALSE(configs.empty()) << problem;
    // The first of each kernel: rows where m allows, tile.
    check(problem, "simt", configs.front());
    if (configs.back().get("kernel") != configs.front().get("kernel")) {
      check(problem, "simt", configs.back());
    }
    if (HasFatalFailure()) return;
  }
}

TEST(SimtKernel, EveryKIsExact) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (int k = 0; k <= 130; ++k) {
    const std::string size = std::to_string(k);
    // A pitch of its own keeps the source, and so the code, the same for every k.
    check("17x24x" + size + ":bf16>f32:lda=136:ldb=136", "simt",
          "kernel=tile tile=32x32x16 thread=2x4");
    check("3x24x" + size + ":bf16>f32:lda=136:ldb=136", "simt",
          "kernel=rows rows=4 columns=2 warps=4x1");
    check("3x24x" + size + ":f32:layout=tt:lda=136", "simt",
          "kernel=rows rows=4 columns=4 warps=4x1");
    if (HasFatalFailure()) return;
  }
}

TEST(SimtKernel, OperandsMayStartAtAnyElement) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  const std::string tile = "kernel=tile tile=64x64x16 thread=4x4";
  check_shifted("70x72x72:bf16:aligna=2:alignb=2:alignd=2", "simt", tile, 2, 6, 2);
  check_shifted("70x72x72:f32:layout=nt:aligna=4:alignb=8:alignd=4", "simt", tile, 4, 8, 12);
  check_shifted("3x72x72:bf16:aligna=2:alignb=4:alignd=2", "simt",
                "kernel=rows rows=4 columns=1 warps=4x1", 2, 4, 2);
}

TEST(SimtKernel, TwentyRunsAreBitwiseEqual) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  check_repeatable("300x264x4096:bf16", "simt", "kernel=tile tile=64x64x16 thread=4x4");
  check_repeatable("4x1032x4096:bf16", "simt", "kernel=rows rows=4 columns=2 warps=8x1");
  check_repeatable("4x1032x4096:bf16:layout=tt", "simt", "kernel=rows rows=4 columns=8 warps=8x1");
}

// --- two steps -----------------------------------------------------------------------------------

TEST(PointwiseKernel, FinishesAnotherStepsAccumulators) {
  CULET_NEEDS_GPU();
  const auto context = take(cuda::Context::enter(gpu()->ordinal));
  for (const char* text : {
           "33x64x40:bf16:epi=\"relu(acc + bias[n]) + c[m,n]\"",
           "33x65x31x3:f32:epi=\"acc * s[m]\"",
           "33x65x32:s8>s8:epi=\"0.25 * acc\"",
           "33x65x31:f64:epi=\"acc + bias[n]\"",
           "40x64x40:bf16:m=1..70:epi=\"acc + c[m,n]\"",
           "5x7x0:bf16:epi=\"acc + bias[n]\"",
           "33x65x31x3:s8:epi=\"acc + c[m,n]\"",
       }) {
    SCOPED_TRACE(text);
    GpuCase gemm(text);
    const Problem& p = gemm.host.problem;
    const Step first{"simt", family("simt").configs(problem_of(p, Part::gemm), *gpu()).back(),
                     Part::gemm};
    const Step second{"pointwise", family("pointwise").configs(p, *gpu()).front(), Part::epilogue};
    const auto gemm_step =
        family("simt").build(problem_of(p, Part::gemm), first, *gpu(), compiler());
    ASSERT_TRUE(gemm_step) << gemm_step.error().message << gemm_step.error().detail;
    const auto epilogue_step = family("pointwise").build(p, second, *gpu(), compiler());
    ASSERT_TRUE(epilogue_step) << epilogue_step.error().message << epilogue_step.error().detail;
    const auto plan = Plan::load(p, {{{first, second}}, {*gemm_step, *epilogue_step}}, *gpu());
    ASSERT_TRUE(plan) << plan.error().message;
    gemm.run_and_compare(*plan);
    for (const std::int64_t m : {p.m_range.low, p.m_range.high}) {
      if (m != p.m) gemm.run_and_compare(*plan, m);
    }
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace culet
