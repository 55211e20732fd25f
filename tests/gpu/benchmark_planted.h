// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// CUDA kernels with planted faults: what the runner must tell apart on a GPU.
#pragma once

#include <string>

#include "benchmark/trial_runner.h"
#include "compile/compiler.h"
#include "gpu_case.h"

namespace culet::test {

/// f32 row-major A, column-major B, one thread per element of D; `scratch` is 256 bytes, the first
/// four of them zero.
inline const char* const kPlantedCuda = R"source(
struct Sizes { long long m, n, k, lda, ldb, ldd; };
__device__ float dot(const float* a, const float* b, long long k) {
  float sum = 0;
  for (long long l = 0; l < k; ++l) sum += a[l] * b[l];
  return sum;
}
#define PLANTED(name, fault)                                                                      \
  extern "C" __global__ void name(const float* a, const float* b, float* d, unsigned* scratch,    \
                                  long long m, long long n, long long k, long long lda,           \
                                  long long ldb, long long ldd) {                                 \
    const long long i = blockIdx.y * blockDim.y + threadIdx.y;                                    \
    const long long j = blockIdx.x * blockDim.x + threadIdx.x;                                    \
    if (i >= m || j >= n) return;                                                                 \
    float value = dot(a + i * lda, b + j * ldb, k);                                               \
    const bool corner = i == m - 1 && j == n - 1, middle = i == m / 2 && j == n / 3;              \
    (void)corner; (void)middle;                                                                   \
    fault;                                                                                        \
    d[i * ldd + j] = value;                                                                       \
  }
PLANTED(correct, )
PLANTED(twice, value = (value + dot(a + i * lda, b + j * ldb + (value > 1e30f), k)) / 2)
PLANTED(one_element, if (middle) value *= 1.001f)
PLANTED(short_k_in_corner, if (corner) value = dot(a + i * lda, b + j * ldb, k - 1))
PLANTED(nan_element, if (middle) value = __int_as_float(0x7fffffff))
PLANTED(unwritten, if (middle) return)
PLANTED(writes_padding, if (corner) d[i * ldd + n] = 0)
PLANTED(writes_before, if (corner) d[-3] = 0)
PLANTED(reads_padding, if (corner) value = dot(a + i * lda, b + j * ldb, k + 1))
__device__ unsigned runs_of_one;
PLANTED(flaky, if (middle) value *= 1.0f + atomicAdd(&runs_of_one, 1) * 1.2e-7f)
PLANTED(reads_scratch, if (middle) value += 0 * __uint_as_float(scratch[8]))
PLANTED(soils_prefix, if (middle) scratch[0] = 1)
PLANTED(beyond_scratch, if (middle) scratch[64] = 1)
PLANTED(assumes_alignment, if (middle && (unsigned long long)a % 64 != 0) value += 1)
PLANTED(illegal_address, if (middle) value = *(volatile float*)16)
PLANTED(spins, while (middle && *(volatile unsigned*)scratch == 0) {})
#define LATE (middle && atomicAdd(&runs_of_one, 1) > 100)
PLANTED(illegal_address_later, if (LATE) value = *(volatile float*)16)
PLANTED(spins_later, if (LATE) while (*(volatile unsigned*)scratch == 0) {})
)source";

/// A candidate of one planted kernel, compiled for the GPU here.
inline BuiltCandidate planted(const std::string& entry, const Problem& p) {
  static Compiler compiler(nullptr);
  BuiltStep step;
  step.step.backend = "planted";
  step.step.config.set("entry", entry);
  step.artifact =
      take(compiler.compile({SourceLanguage::cuda, kPlantedCuda, "correct", {}}, *gpu()));
  step.artifact.entry = entry;
  LaunchSpec& launch = step.launch;
  launch.grid[0] = (p.n + 31) / 32;
  launch.grid[1] = MValue::tiles_of_m(8, 1);
  launch.block[0] = 32;
  launch.block[1] = 8;
  launch.workspace_bytes = 256;
  launch.zeroed_prefix = 4;
  launch.args = {LaunchArg::pointer(Operand::a),
                 LaunchArg::pointer(Operand::b),
                 LaunchArg::pointer(Operand::d),
                 LaunchArg::pointer(Operand::scratch),
                 LaunchArg::i64(MValue::times_m(1)),
                 LaunchArg::i64(p.n),
                 LaunchArg::i64(p.k),
                 LaunchArg::i64(p.lda),
                 LaunchArg::i64(p.ldb),
                 LaunchArg::i64(p.ldd)};
  BuiltCandidate candidate;
  candidate.candidate.steps.push_back(step.step);
  candidate.steps.push_back(std::move(step));
  return candidate;
}

}  // namespace culet::test
