// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Kernels with planted faults, compiled for the CPU in the test: what the runner must tell apart.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "benchmark/trial_runner.h"
#include "compile/compiler.h"

namespace culet {

/// f32 row-major A, column-major B: a plain loop, and what each entry does differently.
inline const char* const kPlantedSource = R"source(
struct Args {
  const void* a; const void* b; void* d; const void* temporary; const void* const* extra;
  void* scratch;
  long long m, n, k, lda, ldb, ldd, m_begin, m_end, n_begin, n_end, k_begin, k_end;
};
static float dot(const Args* x, long long i, long long j, long long k) {
  const float* a = (const float*)x->a + i * x->lda;
  const float* b = (const float*)x->b + j * x->ldb;
  float sum = 0;
  for (long long l = 0; l < k; ++l) sum += a[l] * b[l];
  return sum;
}
static float* row(const Args* x, long long i) { return (float*)x->d + i * x->ldd; }
static void all(const Args* x) {
  for (long long i = x->m_begin; i < x->m_end; ++i)
    for (long long j = 0; j < x->n; ++j) row(x, i)[j] = dot(x, i, j, x->k);
}
extern "C" {
void correct(const Args* x) { all(x); }
void one_element(const Args* x) { all(x); row(x, x->m / 2)[x->n / 3] *= 1.001f; }
void short_k_in_corner(const Args* x) {
  all(x);
  row(x, x->m - 1)[x->n - 1] = dot(x, x->m - 1, x->n - 1, x->k - 1);
}
void nan_element(const Args* x) { all(x); row(x, 1)[2] = __builtin_nanf(""); }
void unwritten(const Args* x) {
  const float before = row(x, 3)[4];
  all(x);
  row(x, 3)[4] = before;
}
void writes_padding(const Args* x) { all(x); row(x, 0)[x->n] = 0; }
void writes_before(const Args* x) { all(x); row(x, 0)[-3] = 0; }
void writes_behind(const Args* x) { all(x); row(x, x->m - 1)[x->n + 100] = 0; }
void reads_padding(const Args* x) {
  all(x);
  row(x, x->m - 1)[0] = dot(x, x->m - 1, 0, x->k + 1);
}
void reads_neighbour(const Args* x) {
  all(x);
  row(x, x->m - 1)[0] += 0 * ((const float*)x->a)[(x->m - 1) * x->lda + x->k];
}
void flaky(const Args* x) {
  static int calls = 0;
  all(x);
  if (++calls % 3 == 0) row(x, 0)[0] *= 1.0000005f;
}
void assumes_alignment(const Args* x) {
  all(x);
  if ((unsigned long long)x->a % 64 != 0) row(x, 0)[0] += 1;
}
void ignores_m(const Args* x) { Args y = *x; y.m_end = FIXED_M; all(&y); }
void slow(const Args* x) {
  all(x);
  for (volatile long i = 0; i < 30000000; i = i + 1) {}
}
}
)source";

inline DeviceSpec test_cpu() {
  auto device = find_device("cpu:1");
  EXPECT_TRUE(device) << (device ? "" : device.error().message);
  return device ? *device : DeviceSpec{};
}

/// A candidate of one planted entry. Skips nothing: where there is no compiler, `ok` is false and
/// the test says so.
struct Planted {
  explicit Planted(const std::string& entry, std::int64_t fixed_m = 1,
                   const std::string& more = {}) {
    const DeviceSpec device = test_cpu();
    static Compiler compiler(nullptr);
    Source source;
    source.language = SourceLanguage::cpp;
    source.text = "#define FIXED_M " + std::to_string(fixed_m) + "\n" + kPlantedSource + more;
    source.entry = "correct";
    auto artifact = compiler.compile(source, device);
    if (!artifact) {
      reason = artifact.error().message + artifact.error().detail;
      return;
    }
    BuiltStep step;
    step.step.backend = "planted";
    step.step.config.set("entry", entry);
    step.artifact = std::move(*artifact);
    step.artifact.entry = entry;
    candidate.candidate.steps.push_back(step.step);
    candidate.steps.push_back(std::move(step));
    ok = true;
  }
  BuiltCandidate candidate;
  std::string reason;
  bool ok = false;
};

inline std::unique_ptr<TrialRunner> runner_for(const std::string& text,
                                               RunnerOptions options = {}) {
  auto problem = Problem::parse(text);
  EXPECT_TRUE(problem) << (problem ? "" : problem.error().message);
  if (options.max_memory_bytes == 0) options.max_memory_bytes = 512e6;
  if (options.policy.rotate_bytes == 0) options.policy.rotate_bytes = 1 << 20;
  auto runner = make_trial_runner(*problem, test_cpu(), options);
  EXPECT_TRUE(runner) << (runner ? "" : runner.error().message);
  return runner ? std::move(*runner) : nullptr;
}

}  // namespace culet
