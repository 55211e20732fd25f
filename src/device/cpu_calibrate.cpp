// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The best of several short bursts: on a shared machine a single burst may lose half of its time to
// a neighbour, and it is the undisturbed rate that ranks kernels.
#include "device/cpu_calibrate.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "device/cpu_info.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace culet {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Fastest of `bursts` calls of `body`, in seconds.
template <typename Body>
double fastest(int bursts, const Body& body) {
  double best = 1e9;
  for (int i = 0; i < bursts; ++i) {
    const double start = now();
    body();
    best = std::min(best, now() - start);
  }
  return std::max(best, 1e-9);
}

/// Keeps a value from being optimised away.
template <typename T>
void keep(T& value) {
  __asm__ volatile("" : "+m"(value));
}

#if defined(__x86_64__)

// Twelve independent chains hide a latency of 4 to 6 cycles at two operations a cycle.
constexpr int kChains = 12;

__attribute__((target("avx2,fma"))) void burst_fma_256(int steps) {
  __m256 sum[kChains];
  for (int c = 0; c < kChains; ++c) sum[c] = _mm256_set1_ps(static_cast<float>(c));
  __m256 x = _mm256_set1_ps(0.999F);
  __asm__ volatile("" : "+x"(x));
  for (int s = 0; s < steps; ++s) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sum[c] = _mm256_fmadd_ps(sum[c], x, x);
  }
  for (int c = 0; c < kChains; ++c) keep(sum[c]);
}

__attribute__((target("avx512f"))) void burst_fma_512(int steps) {
  __m512 sum[kChains];
  for (int c = 0; c < kChains; ++c) sum[c] = _mm512_set1_ps(static_cast<float>(c));
  __m512 x = _mm512_set1_ps(0.999F);
  __asm__ volatile("" : "+v"(x));
  for (int s = 0; s < steps; ++s) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_fmadd_ps(sum[c], x, x);
  }
  for (int c = 0; c < kChains; ++c) keep(sum[c]);
}

__attribute__((target("avx512f,avx512bf16"))) void burst_bf16(int steps) {
  __m512 sum[kChains];
  for (int c = 0; c < kChains; ++c) sum[c] = _mm512_set1_ps(static_cast<float>(c));
  __m512i bits = _mm512_set1_epi16(0x3c00);  // 2^-7 in bf16
  __asm__ volatile("" : "+v"(bits));
  const __m512bh x = reinterpret_cast<__m512bh>(bits);
  for (int s = 0; s < steps; ++s) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_dpbf16_ps(sum[c], x, x);
  }
  for (int c = 0; c < kChains; ++c) keep(sum[c]);
}

/// A chain of dependent multiplications, three cycles each on every x86-64 CPU of the last ten
/// years (additions of constants are free on some): their length over their time is the clock.
void burst_clock(int steps) {
  std::uint64_t x = 3;
  for (int s = 0; s < steps; ++s) {
    __asm__ volatile(
        "imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0\n\t"
        "imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0"
        : "+r"(x));
  }
  keep(x);
}

__attribute__((target("avx2"))) void read_256(const float* data, std::size_t count) {
  __m256 sum[8] = {};
  for (std::size_t i = 0; i + 64 <= count; i += 64) {
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) sum[c] = _mm256_add_ps(sum[c], _mm256_load_ps(data + i + 8 * c));
  }
  for (int c = 0; c < 8; ++c) keep(sum[c]);
}

__attribute__((target("avx512f"))) void read_512(const float* data, std::size_t count) {
  __m512 sum[8] = {};
  for (std::size_t i = 0; i + 128 <= count; i += 128) {
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) sum[c] = _mm512_add_ps(sum[c], _mm512_load_ps(data + i + 16 * c));
  }
  for (int c = 0; c < 8; ++c) keep(sum[c]);
}

#endif

void read_plain(const float* data, std::size_t count) {
  float sum[8] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    for (int c = 0; c < 8; ++c) sum[c] += data[i + static_cast<std::size_t>(c)];
  }
  for (float& value : sum) keep(value);
}

void read(const float* data, std::size_t count, int level) {
#if defined(__x86_64__)
  if (level >= 2) return read_512(data, count);
  if (level >= 1) return read_256(data, count);
#endif
  (void)level;
  read_plain(data, count);
}

void measure_math(CpuRates& rates, int level) {
#if defined(__x86_64__)
  constexpr int kSteps = 4000;  // about 10 us: shorter than a typical time slice stolen
  const double operations = 2.0 * kChains * kSteps;
  rates.clock_ghz = 24.0 * kSteps / 4 / fastest(40, [] { burst_clock(kSteps / 4); }) * 1e-9;
  if (level >= 2) {
    rates.f32_ops = 16 * operations / fastest(100, [] { burst_fma_512(kSteps); });
  } else if (level == 1) {
    rates.f32_ops = 8 * operations / fastest(100, [] { burst_fma_256(kSteps); });
  }
  if (level >= 3) {
    rates.bf16_dot_ops = 32 * operations / fastest(100, [] { burst_bf16(kSteps); });
  }
#endif
  (void)level;
  // Nothing measured: two 128-bit multiply-adds a cycle at 2 GHz, which every 64-bit CPU of the
  // last ten years reaches.
  if (rates.clock_ghz <= 0) rates.clock_ghz = 2;
  if (rates.f32_ops <= 0) rates.f32_ops = rates.clock_ghz * 1e9 * 16;
}

void measure_memory(CpuRates& rates, int level) {
  rates.l1_bytes_per_s = 64 * rates.clock_ghz * 1e9;
  rates.l2_bytes_per_s = rates.l1_bytes_per_s / 2;
  rates.dram_bytes_per_s = 1e10;
  // Beyond any second-level cache; a third level is partly included, as it is for the operands of
  // the problems tuned.
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  madvise(memory, kBytes, MADV_HUGEPAGE);
  auto* bytes = static_cast<unsigned char*>(memory);
  // Every page must exist: untouched ones all are the same page of zeros.
  for (std::size_t i = 0; i < kBytes; i += 4096) bytes[i] = 1;
  const auto* data = static_cast<const float*>(memory);
  const auto rate = [&](std::size_t count_bytes, int repeats, int bursts) {
    const double seconds = fastest(bursts, [&] {
      for (int i = 0; i < repeats; ++i) read(data, count_bytes / sizeof(float), level);
    });
    return static_cast<double>(count_bytes) * repeats / seconds;
  };
  rates.l1_bytes_per_s = rate(16 << 10, 20, 20);
  rates.l2_bytes_per_s = rate(static_cast<std::size_t>(cpu_info().l2_bytes) / 2, 2, 10);
  rates.dram_bytes_per_s = rate(kBytes, 1, 3);
  munmap(memory, kBytes);
}

CpuRates measure() {
  const int level = cpu_level_rank(cpu_info().level);
  CpuRates rates;
  measure_math(rates, level);
  measure_memory(rates, level);
  return rates;
}

}  // namespace

const CpuRates& cpu_rates() {
  static const CpuRates rates = measure();
  return rates;
}

}  // namespace culet
