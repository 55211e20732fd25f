// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What finding a kernel costs a process that has loaded it before. The look-up of matmul() is
// BM_Matmul less BM_SamePlan: both run the same tiny product on the CPU.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <string>
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

/// The choice for a problem in a store on disk with 100,000 selections: what the first matmul() of
/// a process asks.
void BM_StoredSelection(benchmark::State& state) {
  constexpr int kCount = 100'000;
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("culet-lookup-" + std::to_string(getpid())))
          .string();
  const auto text = [](int i) { return std::to_string(1 + i) + "x4096x4096:bf16"; };
  {
    const auto cache = bench::must(culet::open_cache(folder));
    culet::StoreContents contents;
    for (int i = 0; i < kCount; ++i) {
      culet::Step step{"family", {}, culet::Part::all};
      step.config.set("tile", "128x64x64").set("stages", std::int64_t{i % 7});
      contents.selections.push_back(
          {text(i), "device", {"family 1", "5", 0}, {{step}}, "because", 1 + i, false});
    }
    bench::must(cache->take(contents));
    int i = 0;
    for (auto _ : state) {
      i = (i * 5 + 7) % kCount;
      state.PauseTiming();
      const culet::Problem problem = bench::must(culet::Problem::parse(text(i)));
      state.ResumeTiming();
      benchmark::DoNotOptimize(cache->find_any_selection(problem, "device"));
    }
  }
  std::filesystem::remove_all(folder);
}
BENCHMARK(BM_StoredSelection);

}  // namespace
