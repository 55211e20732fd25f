// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// CUDA kernels started through LaunchSpec: every kind of argument, tensor maps, clusters, graphs,
// threads, errors, and what a run costs the host.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <numeric>
#include <thread>

#include "compile/compiler.h"
#include "gpu_case.h"
#include "launch/loaded_step.h"

namespace culet {
namespace {

using test::gpu;
using test::take;
using test::upload;

BuiltStep compile(const std::string& entry, const std::string& text) {
  Compiler compiler(nullptr);
  BuiltStep step;
  step.artifact = take(compiler.compile({SourceLanguage::cuda, text, entry, {}}, *gpu()));
  return step;
}

std::unique_ptr<LoadedStep> load(const BuiltStep& step) {
  return take(load_step(Problem(), step, *gpu()));
}

#define CULET_NEEDS_COMPILER()                                                        \
  CULET_NEEDS_GPU();                                                                  \
  const auto context = take(cuda::Context::enter(gpu()->ordinal));                    \
  if (const auto found = Compiler::toolchain(SourceLanguage::cuda, *gpu()); !found) { \
    GTEST_SKIP() << found.error().message;                                            \
  }

/// Copies boxes of 32 x 8 floats with the tensor memory accelerator.
const char* const kCopySource = R"(
struct alignas(64) TensorMap { unsigned long long words[16]; };
extern "C" __global__ void copy_tile(const __grid_constant__ TensorMap map, float* out, int m,
                                     long long n, float scale) {
  __shared__ alignas(128) float tile[8 * 32];
  __shared__ alignas(8) unsigned long long barrier;
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  const int x = blockIdx.x * 32, y = blockIdx.y * 8;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(bar) : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(bar) : "memory");
  }
  __syncthreads();
  unsigned done = 0;
  while (!done) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;"
                 " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar) : "memory");
  }
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    if (y + i / 32 < m) out[(y + i / 32) * n + x + i % 32] = tile[i] * scale;
  }
}
)";

constexpr std::int64_t kColumns = 128;

BuiltStep copy_step() {
  BuiltStep step = compile("copy_tile", kCopySource);
  step.launch.grid[0] = kColumns / 32;
  step.launch.grid[1] = MValue::tiles_of_m(8, 1);
  step.launch.block[0] = 64;
  TensorMapSpec map;
  map.operand = Operand::a;
  map.dtype = DType::f32;
  map.rank = 2;
  map.dims[0] = kColumns;
  map.dims[1] = MValue::times_m(1);
  map.strides_bytes[1] = kColumns * 4;
  map.box[0] = 32;
  map.box[1] = 8;
  map.swizzle_bytes = 0;
  step.launch.args = {LaunchArg::tensor_map(map), LaunchArg::pointer(Operand::d),
                      LaunchArg::i32(MValue::times_m(1)), LaunchArg::i64(kColumns),
                      LaunchArg::real(2)};
  return step;
}

/// m x kColumns counting numbers, on the device.
cuda::DeviceBuffer counting(std::int64_t m, float first) {
  std::vector<float> values(static_cast<std::size_t>(m * kColumns));
  std::iota(values.begin(), values.end(), first);
  return upload(values.data(), m * kColumns * 4);
}

void expect_doubled(const cuda::DeviceBuffer& out, std::int64_t m, float first) {
  std::vector<float> values(static_cast<std::size_t>(m * kColumns));
  ASSERT_TRUE(out.download(values.data(), m * kColumns * 4));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], 2 * (first + static_cast<float>(i))) << "element " << i;
  }
}

TEST(CudaStep, EveryKindOfArgument) {
  CULET_NEEDS_COMPILER();
  BuiltStep step = compile("arguments", R"(
extern "C" __global__ void arguments(const void* a, const void* b, unsigned long long* d,
    const void* x0, const void* x1, const void* t, const void* s, const void* p, const void* b16,
    int i, long long l, float f, int cap) {
  extern __shared__ unsigned long long shared[];
  shared[8191] = 5;
  const void* all[] = {a, b, d, x0, x1, t, s, p, b16};
  for (int j = 0; j < 9; ++j) d[j] = reinterpret_cast<unsigned long long>(all[j]);
  d[9] = i; d[10] = l; d[11] = static_cast<unsigned long long>(f * 4); d[12] = cap;
  d[13] = gridDim.y * 1000 + blockDim.x; d[14] = shared[8191];
})");
  step.launch.grid[1] = MValue::tiles_of_m(16, 2);
  step.launch.block[0] = 32;
  step.launch.shared_bytes = 65536;
  step.launch.args = {LaunchArg::pointer(Operand::a),
                      LaunchArg::pointer(Operand::b),
                      LaunchArg::pointer(Operand::d),
                      LaunchArg::pointer(Operand::extra, 0),
                      LaunchArg::pointer(Operand::extra, 1),
                      LaunchArg::pointer(Operand::temporary),
                      LaunchArg::pointer(Operand::scratch),
                      LaunchArg::pointer(Operand::packed_b),
                      LaunchArg::pointer(Operand::b, 0, 16),
                      LaunchArg::i32(MValue::times_m(3)),
                      LaunchArg::i64(std::int64_t{1} << 40),
                      LaunchArg::real(1.25F),
                      LaunchArg::i32(MValue::tiles_of_m(1, 10, 77))};
  const auto loaded = load(step);
  const cuda::DeviceBuffer d = take(cuda::DeviceBuffer::allocate(256));
  const auto fake = [](std::uintptr_t value) { return reinterpret_cast<void*>(value); };
  const void* extra[] = {fake(0x1000), fake(0x2000)};
  StepPointers pointers;
  pointers.a = fake(0x100);
  pointers.b = fake(0x200);
  pointers.d = d.data();
  pointers.extra = extra;
  pointers.temporary = fake(0x300);
  pointers.scratch = fake(0x400);
  pointers.packed_b = fake(0x500);
  pointers.m = 20;
  const auto ran = loaded->run(pointers);
  ASSERT_TRUE(ran) << ran.error().message;
  std::uint64_t seen[15];
  ASSERT_TRUE(d.download(seen, sizeof seen));
  const std::uint64_t expected[15] = {0x100,
                                      0x200,
                                      d.address(),
                                      0x1000,
                                      0x2000,
                                      0x300,
                                      0x400,
                                      0x500,
                                      0x210,
                                      60,
                                      std::uint64_t{1} << 40,
                                      5,
                                      77,
                                      4032,
                                      5};
  for (int i = 0; i < 15; ++i) EXPECT_EQ(seen[i], expected[i]) << "argument " << i;
}

TEST(CudaStep, TensorMapsFollowPointersAndM) {
  CULET_NEEDS_COMPILER();
  if (gpu()->architecture != "sm_90a") GTEST_SKIP() << "tensor maps need Hopper";
  const auto loaded = load(copy_step());
  const cuda::DeviceBuffer first = counting(20, 0), second = counting(20, 5000);
  for (const std::int64_t m : {20, 20, 3, 20}) {
    for (const auto* in : {&first, &second, &first}) {
      cuda::DeviceBuffer out = take(cuda::DeviceBuffer::allocate(20 * kColumns * 4));
      StepPointers pointers;
      pointers.a = in->data();
      pointers.d = out.data();
      pointers.m = m;
      const auto ran = loaded->run(pointers);
      ASSERT_TRUE(ran) << ran.error().message;
      expect_doubled(out, m, in == &first ? 0.F : 5000.F);
    }
  }
}

TEST(CudaStep, ThreadsShareAStep) {
  CULET_NEEDS_COMPILER();
  if (gpu()->architecture != "sm_90a") GTEST_SKIP() << "tensor maps need Hopper";
  const auto loaded = load(copy_step());
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      // No context is current in a new thread: run() uses the one the step was loaded in.
      const auto own = take(cuda::Context::enter(gpu()->ordinal));
      const cuda::Stream stream = take(cuda::Stream::create());
      const float first = static_cast<float>(t) * 1000;
      const cuda::DeviceBuffer in = counting(64, first);
      const cuda::DeviceBuffer out = take(cuda::DeviceBuffer::allocate(64 * kColumns * 4));
      StepPointers pointers;
      pointers.a = in.data();
      pointers.d = out.data();
      pointers.m = 64;
      pointers.stream = stream.get();
      bool all = true;
      for (int i = 0; i < 200; ++i) all = loaded->run(pointers).has_value() && all;
      all = stream.synchronize().has_value() && all;
      expect_doubled(out, 64, first);
      good += all;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good.load(), 4);
}

TEST(CudaStep, ANewThreadNeedsNoContext) {
  CULET_NEEDS_COMPILER();
  BuiltStep step = compile("one", "extern \"C\" __global__ void one(int* d) { *d = 1; }");
  step.launch.args = {LaunchArg::pointer(Operand::d)};
  const auto loaded = load(step);
  const cuda::DeviceBuffer d = take(cuda::DeviceBuffer::allocate(4));
  StepPointers pointers;
  pointers.d = d.data();
  pointers.m = 1;
  bool good = false;
  std::thread([&] { good = loaded->run(pointers).has_value(); }).join();
  EXPECT_TRUE(good);
  int seen = 0;
  ASSERT_TRUE(d.download(&seen, 4));
  EXPECT_EQ(seen, 1);
}

TEST(CudaStep, ClustersAndProgrammaticLaunch) {
  CULET_NEEDS_COMPILER();
  if (gpu()->architecture != "sm_90a") GTEST_SKIP() << "clusters need Hopper";
  BuiltStep step = compile("cluster", R"(
extern "C" __global__ void cluster(int* d) {
  unsigned x, y;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(x));
  asm("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(y));
  if (threadIdx.x == 0) atomicAdd(d, x * 10 + y);
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
})");
  step.launch.grid[0] = 4;
  step.launch.grid[1] = 2;
  step.launch.cluster[0] = 4;
  step.launch.cluster[1] = 2;
  step.launch.pdl = true;
  step.launch.args = {LaunchArg::pointer(Operand::d)};
  const auto loaded = load(step);
  const cuda::Stream stream = take(cuda::Stream::create());
  cuda::DeviceBuffer d = take(cuda::DeviceBuffer::allocate(4));
  ASSERT_TRUE(d.fill(0, stream.get()));
  StepPointers pointers;
  pointers.d = d.data();
  pointers.m = 1;
  pointers.stream = stream.get();
  for (const bool pdl : {false, true, true}) {
    pointers.pdl = pdl;
    const auto ran = loaded->run(pointers);
    ASSERT_TRUE(ran) << ran.error().message;
  }
  ASSERT_TRUE(stream.synchronize());
  int seen = 0;
  ASSERT_TRUE(d.download(&seen, 4));
  EXPECT_EQ(seen, 3 * 8 * 42);
}

TEST(CudaStep, CapturedInAGraph) {
  CULET_NEEDS_COMPILER();
  BuiltStep step = compile("add", "extern \"C\" __global__ void add(int* d) { *d += 1; }");
  step.launch.args = {LaunchArg::pointer(Operand::d)};
  const auto loaded = load(step);
  const cuda::Stream stream = take(cuda::Stream::create());
  cuda::DeviceBuffer d = take(cuda::DeviceBuffer::allocate(4));
  ASSERT_TRUE(d.fill(0));
  ASSERT_TRUE(cuda::synchronize());
  StepPointers pointers;
  pointers.d = d.data();
  pointers.m = 1;
  pointers.stream = stream.get();
  const cuda::Graph graph = take(cuda::Graph::capture(stream.get(), [&]() -> Result<void> {
    for (int i = 0; i < 5; ++i) {
      if (auto ok = loaded->run(pointers); !ok) return ok;
    }
    return {};
  }));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(graph.launch(stream.get()));
  ASSERT_TRUE(stream.synchronize());
  int seen = 0;
  ASSERT_TRUE(d.download(&seen, 4));
  EXPECT_EQ(seen, 15);
  // An error while capturing comes back, and the stream is usable again.
  const auto failed = cuda::Graph::capture(
      stream.get(), []() -> Result<void> { return fail(ErrorCode::device, "planted"); });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "planted");
  EXPECT_TRUE(loaded->run(pointers));
  EXPECT_TRUE(stream.synchronize());
}

TEST(CudaStep, ErrorsSayWhatIsWrong) {
  CULET_NEEDS_COMPILER();
  BuiltStep step = compile("one", "extern \"C\" __global__ void one(int* d) { *d = 1; }");
  step.launch.args = {LaunchArg::pointer(Operand::d)};
  const auto message = [](const BuiltStep& broken) {
    const auto loaded = load_step(Problem(), broken, *gpu());
    EXPECT_FALSE(loaded);
    return loaded ? std::string() : loaded.error().message;
  };
  BuiltStep broken = step;
  broken.artifact.toolchain = "nvrtc 13.0 sm_75";
  EXPECT_NE(message(broken).find("was compiled for sm_75"), std::string::npos);
  broken = step;
  broken.artifact.entry = "two";
  EXPECT_NE(message(broken).find("finding kernel two"), std::string::npos) << message(broken);
  broken = step;
  broken.artifact.bytes = std::string(4096, 'x');
  EXPECT_NE(message(broken).find("loading one"), std::string::npos) << message(broken);
  broken = step;
  broken.launch.shared_bytes = 1 << 20;
  EXPECT_NE(message(broken).find("1048576 bytes of shared memory"), std::string::npos);

  StepPointers pointers;
  pointers.m = 1;
  broken = step;
  broken.launch.block[0] = 5000;
  auto ran = load(broken)->run(pointers);
  ASSERT_FALSE(ran);
  EXPECT_NE(ran.error().message.find("launching one"), std::string::npos) << ran.error().message;
  broken = step;
  broken.launch.grid[1] = 65536;
  ran = load(broken)->run(pointers);
  ASSERT_FALSE(ran);
  EXPECT_NE(ran.error().message.find("65536 blocks"), std::string::npos);
  broken.launch.grid[1] = MValue::times_m(1);
  pointers.m = 0;
  EXPECT_TRUE(load(broken)->run(pointers)) << "no blocks: nothing to launch";

  if (gpu()->architecture == "sm_90a") {
    const cuda::DeviceBuffer buffer = counting(8, 0);
    pointers.a = static_cast<const char*>(buffer.data()) + 4;
    pointers.d = buffer.data();
    pointers.m = 4;
    ran = load(copy_step())->run(pointers);
    ASSERT_FALSE(ran);
    EXPECT_NE(ran.error().message.find("16-byte alignment"), std::string::npos);
  }
  EXPECT_TRUE(cuda::synchronize()) << "none of these may have hurt the context";
}

/// Nanoseconds of one call, the smallest of several bursts short enough for the launch queue.
template <typename Call>
double nanoseconds(const Call& call) {
  double best = 1e9;
  for (int burst = 0; burst < 20; ++burst) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 200; ++i) call();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / 200 * 1e9);
    EXPECT_TRUE(cuda::synchronize());
  }
  return best;
}

TEST(CudaStep, HostTimeOfARun) {
  CULET_NEEDS_COMPILER();
  BuiltStep step = compile("empty", "extern \"C\" __global__ void empty(int* d, int m) {}");
  step.launch.args = {LaunchArg::pointer(Operand::d), LaunchArg::i32(MValue::times_m(1))};
  const auto loaded = load(step);
  const cuda::Stream stream = take(cuda::Stream::create());
  StepPointers pointers;
  pointers.m = 1;
  pointers.stream = stream.get();

  const CudaDriver& driver = *take(cuda_driver());
  cuda::CUmodule module = nullptr;
  cuda::CUfunction function = nullptr;
  ASSERT_EQ(driver.module_load_data(&module, step.artifact.bytes.data()), cuda::kSuccess);
  ASSERT_EQ(driver.module_get_function(&function, module, "empty"), cuda::kSuccess);
  cuda::LaunchConfig config;
  config.stream = stream.get();
  void* d = nullptr;
  int m = 1;
  void* parameters[] = {&d, &m};
  const double raw =
      nanoseconds([&] { driver.launch_kernel_ex(&config, function, parameters, nullptr); });
  const double run = nanoseconds([&] { (void)loaded->run(pointers); });
  const Problem problem = take(Problem::parse("1x64x64:bf16"));
  const Plan plan = take(Plan::load(problem, {{{step.step}}, {step}}, *gpu()));
  const cuda::DeviceBuffer operand = take(cuda::DeviceBuffer::allocate(64 * 64 * 2));
  Arguments arguments;
  arguments.a = arguments.b = arguments.d = operand.data();
  const double whole = nanoseconds([&] { (void)plan.run(arguments, {stream.get(), false}); });
  std::printf("  cuLaunchKernelEx %.0f ns, CudaStep::run %.0f ns, Plan::run %.0f ns\n", raw, run,
              whole);
  EXPECT_TRUE(plan.run(arguments, {stream.get(), false}));
  EXPECT_LT(whole - raw, 2000) << "a run may add 2 us to the driver's launch";

  if (gpu()->architecture == "sm_90a") {
    const auto copy = load(copy_step());
    const cuda::DeviceBuffer in[2] = {counting(8, 0), counting(8, 1)};
    const cuda::DeviceBuffer out = take(cuda::DeviceBuffer::allocate(8 * kColumns * 4));
    pointers.d = out.data();
    pointers.m = 8;
    pointers.a = in[0].data();
    const double same = nanoseconds([&] { (void)copy->run(pointers); });
    int turn = 0;
    const double other = nanoseconds([&] {
      pointers.a = in[++turn % 2].data();
      (void)copy->run(pointers);
    });
    std::printf("  with a tensor map: %.0f ns, encoded anew: %.0f ns\n", same, other);
    EXPECT_LT(other - raw, 2000);
  }
  driver.module_unload(module);
}

}  // namespace
}  // namespace culet
