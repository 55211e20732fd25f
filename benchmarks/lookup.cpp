// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What finding a kernel costs a process that has loaded it before. The look-up of matmul() is
// BM_Matmul less BM_SamePlan: both run the same tiny product on the CPU.
#include <benchmark/benchmark.h>

#include <vector>

#include "null_kernel.h"

namespace {

constexpr std::int64_t kSize = 4;

struct Tiny {
  float a[kSize * kSize] = {}, b[kSize * kSize] = {}, d[kSize * kSize] = {};
  static culet::MatrixView view(float* data) {
    return {data, culet::DType::f32, kSize, kSize, kSize};
  }
};

culet::MatmulOptions on_cpu() {
  culet::MatmulOptions options;
  options.device = "cpu";
  return options;
}

void BM_Matmul(benchmark::State& state) {
  Tiny t;
  const culet::MatmulOptions options = on_cpu();
  bench::must(culet::matmul(Tiny::view(t.a), Tiny::view(t.b), Tiny::view(t.d), options));
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        culet::matmul(Tiny::view(t.a), Tiny::view(t.b), Tiny::view(t.d), options));
  }
}
BENCHMARK(BM_Matmul);

/// The plan matmul() uses for an untuned problem: the vendor's default, else the best ranked.
void BM_SamePlan(benchmark::State& state) {
  Tiny t;
  const culet::Problem problem =
      bench::must(culet::problem_of(Tiny::view(t.a), Tiny::view(t.b), Tiny::view(t.d)));
  const culet::DeviceSpec device = bench::must(culet::find_device("cpu"));
  const culet::Registry registry = culet::Registry::standard();
  culet::Tuner tuner(registry, device, {}, bench::must(culet::open_cache("none")));
  const culet::Plan plan =
      bench::must(tuner.plan(problem, registry.discover(problem, device).front().candidate));
  std::vector<char> workspace(static_cast<std::size_t>(plan.workspace().bytes) + 64);
  culet::Arguments arguments;
  arguments.a = t.a;
  arguments.b = t.b;
  arguments.d = t.d;
  arguments.workspace = workspace.data();
  for (auto _ : state) benchmark::DoNotOptimize(plan.run(arguments));
}
BENCHMARK(BM_SamePlan);

void BM_PlanTableFind(benchmark::State& state) {
  const culet::DeviceSpec device = bench::must(culet::find_device("cpu"));
  const auto family = std::make_shared<bench::NullFamily>(culet::DeviceKind::cpu, 0);
  std::vector<culet::PlanTable::Interval> intervals;
  for (std::int64_t low = 1; low <= 4096; low *= 2) {
    culet::Problem problem = bench::must(
        culet::Problem::parse(std::to_string(2 * low - 1) + "x64x64:f32:m=" + std::to_string(low) +
                              ".." + std::to_string(2 * low - 1)));
    intervals.push_back({{low, 2 * low - 1}, bench::null_plan(device, problem, family)});
  }
  const culet::PlanTable table = bench::must(culet::PlanTable::make(std::move(intervals)));
  std::int64_t m = 0;
  for (auto _ : state) {
    m = (m * 5 + 1) & 4095;
    benchmark::DoNotOptimize(table.find(m + 1));
  }
}
BENCHMARK(BM_PlanTableFind);

void BM_Discover(benchmark::State& state) {
  const culet::Problem problem = bench::must(culet::Problem::parse("16x4096x4096:bf16"));
  const culet::DeviceSpec device = bench::must(culet::DeviceSpec::preset("h200"));
  const culet::Registry registry = culet::Registry::standard();
  for (auto _ : state) benchmark::DoNotOptimize(registry.discover(problem, device));
}
BENCHMARK(BM_Discover)->Unit(benchmark::kMillisecond);

void BM_ParseProblem(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(culet::Problem::parse("16x4096x4096:bf16:epi=\"relu(acc + b[n])\""));
  }
}
BENCHMARK(BM_ParseProblem);

}  // namespace
