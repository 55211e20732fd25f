// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What Plan::run costs the host, with kernels that do nothing. On a GPU the driver's own launch of
// the same kernel is measured beside it; the difference is what culet adds.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <chrono>
#include <vector>

#include "null_kernel.h"

namespace {

using Clock = std::chrono::steady_clock;

void BM_PlanRunCpu(benchmark::State& state) {
  const culet::DeviceSpec device = bench::must(culet::find_device("cpu"));
  const culet::Problem problem = bench::must(culet::Problem::parse("16x64x64:f32"));
  const auto family = std::make_shared<bench::NullFamily>(culet::DeviceKind::cpu, 0);
  const culet::Plan plan = bench::null_plan(device, problem, family);
  std::vector<float> memory(4096);
  culet::Arguments arguments;
  arguments.a = arguments.b = arguments.d = memory.data();
  for (auto _ : state) benchmark::DoNotOptimize(plan.run(arguments));
}
BENCHMARK(BM_PlanRunCpu);

/// The driver functions used here, opened at run time: there may be no driver, and no toolkit.
struct Driver {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  template <typename Function>
  Function* get(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library, name));
  }
};

/// A GPU and a null kernel, or why there is none.
struct Gpu {
  std::string missing;
  Driver driver;
  culet::DeviceSpec device;
  std::uint64_t memory = 0;

  Gpu() {
    const culet::Result<culet::DeviceSpec> found = culet::find_device("cuda");
    if (!found || driver.library == nullptr) {
      missing = found ? "no CUDA driver" : found.error().message;
      return;
    }
    device = *found;
    void* context = nullptr;
    driver.get<int(unsigned)>("cuInit")(0);
    driver.get<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device.ordinal);
    driver.get<int(void*)>("cuCtxSetCurrent")(context);
    driver.get<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2")(&memory, 64 << 20);
  }
  void synchronize() const { driver.get<int()>("cuCtxSynchronize")(); }
};

/// Times `launch` in bursts short enough that the queue never fills; waiting is not counted.
template <typename Launch>
void time_bursts(benchmark::State& state, const Gpu& gpu, const Launch& launch) {
  constexpr int kBurst = 200;
  for (int i = 0; i < kBurst; ++i) launch();
  gpu.synchronize();
  for (auto _ : state) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kBurst; ++i) launch();
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count() / kBurst);
    gpu.synchronize();
  }
}

const culet::Problem& gpu_problem() {
  static const culet::Problem problem = bench::must(culet::Problem::parse("128x1024x1024:bf16"));
  return problem;
}

void BM_PlanRunCuda(benchmark::State& state) {
  const Gpu gpu;
  if (!gpu.missing.empty()) return state.SkipWithError(gpu.missing.c_str());
  const auto family = std::make_shared<bench::NullFamily>(culet::DeviceKind::cuda,
                                                          static_cast<int>(state.range(0)));
  const culet::Plan plan = bench::null_plan(gpu.device, gpu_problem(), family);
  culet::Arguments arguments;
  arguments.a = reinterpret_cast<void*>(gpu.memory);
  arguments.b = reinterpret_cast<void*>(gpu.memory + (8 << 20));
  arguments.d = reinterpret_cast<void*>(gpu.memory + (16 << 20));
  bool failed = false;
  time_bursts(state, gpu, [&] { failed |= !plan.run(arguments); });
  if (failed) state.SkipWithError("a run failed");
}
BENCHMARK(BM_PlanRunCuda)->ArgName("maps")->Arg(0)->Arg(3)->UseManualTime();

void BM_DriverLaunchCuda(benchmark::State& state) {
  const Gpu gpu;
  if (!gpu.missing.empty()) return state.SkipWithError(gpu.missing.c_str());
  const auto family = std::make_shared<bench::NullFamily>(culet::DeviceKind::cuda,
                                                          static_cast<int>(state.range(0)));
  bench::null_plan(gpu.device, gpu_problem(), family);
  void *module = nullptr, *function = nullptr;
  if (gpu.driver.get<int(void**, const void*)>("cuModuleLoadData")(&module,
                                                                   family->code().data()) != 0 ||
      gpu.driver.get<int(void**, void*, const char*)>("cuModuleGetFunction")(&function, module,
                                                                             "null_kernel") != 0) {
    return state.SkipWithError("the kernel does not load");
  }
  std::uint64_t pointers[3] = {gpu.memory, gpu.memory, gpu.memory};
  long long sizes[3] = {128, 1024, 1024};
  struct alignas(64) Map {
    char bytes[128] = {};
  } maps[3];
  void* parameters[] = {&pointers[0], &pointers[1], &pointers[2], &sizes[0], &sizes[1],
                        &sizes[2],    &maps[0],     &maps[1],     &maps[2]};
  using Launch = int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     void*, void**, void**);
  Launch* const launch = gpu.driver.get<Launch>("cuLaunchKernel");
  bool failed = false;
  time_bursts(state, gpu, [&] {
    failed |= launch(function, 1, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr) != 0;
  });
  if (failed) state.SkipWithError("a launch failed");
}
BENCHMARK(BM_DriverLaunchCuda)->ArgName("maps")->Arg(0)->Arg(3)->UseManualTime();

}  // namespace
