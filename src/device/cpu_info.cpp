// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// CPU detection. Virtual machines leave out much of what a bare machine shows (no cache folder in
// sysfs, a last-level cache of the whole host), so every fact has a second source and a limit.
#include "device/cpu_info.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "device/cpu_calibrate.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace culet {

namespace {

constexpr std::array<std::string_view, 5> kLevels = {"x86-64", "x86-64-v3", "x86-64-v4",
                                                     "x86-64-v4-bf16", "x86-64-v4-amx"};

struct Caches {
  std::int64_t l1 = 0, l2 = 0, l3 = 0;
};

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

#if defined(__x86_64__)

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

/// All zero where the CPU does not have the leaf.
Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

bool bit(unsigned value, int index) { return ((value >> index) & 1) != 0; }

/// XCR0: which register sets the operating system saves.
std::uint64_t saved_state() {
  if (!bit(cpuid(1).c, 27)) return 0;  // OSXSAVE
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

/// Linux grants AMX's tile data (state component 18) only to processes that ask for it.
bool request_amx() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

std::string detect_level() {
  const Registers one = cpuid(1);
  const Registers seven = cpuid(7);
  const Registers seven_one = cpuid(7, 1);
  const Registers extended = cpuid(0x80000001);
  const std::uint64_t saved = saved_state();
  const bool ymm = (saved & 0x6) == 0x6;
  const bool zmm = ymm && (saved & 0xe0) == 0xe0;
  const bool tiles = (saved & 0x60000) == 0x60000;
  // FMA, MOVBE, F16C; BMI1, AVX2, BMI2; LZCNT
  const bool v3 = ymm && bit(one.c, 12) && bit(one.c, 22) && bit(one.c, 28) && bit(one.c, 29) &&
                  bit(seven.b, 3) && bit(seven.b, 5) && bit(seven.b, 8) && bit(extended.c, 5);
  // AVX512 F, DQ, CD, BW, VL
  const bool v4 = v3 && zmm && bit(seven.b, 16) && bit(seven.b, 17) && bit(seven.b, 28) &&
                  bit(seven.b, 30) && bit(seven.b, 31);
  // AVX512_BF16, AVX512_VNNI
  const bool bf16 = v4 && bit(seven_one.a, 5) && bit(seven.c, 11);
  // AMX_BF16, AMX_TILE
  const bool amx = bf16 && tiles && bit(seven.d, 22) && bit(seven.d, 24) && request_amx();
  return std::string(kLevels[amx ? 4 : bf16 ? 3 : v4 ? 2 : v3 ? 1 : 0]);
}

std::string detect_model() {
  if (cpuid(0x80000000).a < 0x80000004) return {};
  std::string text;
  for (unsigned leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    const Registers r = cpuid(leaf);
    for (const unsigned part : {r.a, r.b, r.c, r.d}) {
      for (int byte = 0; byte < 4; ++byte) {
        const char c = static_cast<char>((part >> (8 * byte)) & 0xff);
        if (c != 0) text.push_back(c);
      }
    }
  }
  return text;
}

/// Cache sizes by CPUID: leaf 4 on Intel, the same form in leaf 0x8000001d on AMD.
Caches caches_of_cpuid() {
  Caches caches;
  const unsigned leaf = cpuid(4).a != 0 ? 4 : 0x8000001d;
  for (unsigned index = 0; index < 8; ++index) {
    const Registers r = cpuid(leaf, index);
    const unsigned type = r.a & 0x1f;
    if (type == 0) break;
    if (type == 2) continue;  // instructions
    const std::int64_t ways = (r.b >> 22) + 1;
    const std::int64_t partitions = ((r.b >> 12) & 0x3ff) + 1;
    const std::int64_t line = (r.b & 0xfff) + 1;
    const std::int64_t size = ways * partitions * line * (static_cast<std::int64_t>(r.c) + 1);
    const unsigned level = (r.a >> 5) & 7;
    if (level == 1) caches.l1 = size;
    if (level == 2) caches.l2 = size;
    if (level == 3) caches.l3 = size;
  }
  return caches;
}

#else

std::string detect_level() { return "generic"; }
std::string detect_model() { return {}; }
Caches caches_of_cpuid() { return {}; }

#endif

/// Cache sizes as Linux shows them; zero where it does not.
Caches caches_of_sysfs() {
  Caches caches;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    const std::string type = first_line(folder + "type");
    if (type.empty()) break;
    if (type == "Instruction") continue;
    const std::string text = first_line(folder + "size");
    std::int64_t size = 0;
    for (const char c : text) {
      if (c >= '0' && c <= '9') size = size * 10 + (c - '0');
    }
    if (text.find('K') != std::string::npos) size <<= 10;
    if (text.find('M') != std::string::npos) size <<= 20;
    const std::string level = first_line(folder + "level");
    if (level == "1") caches.l1 = size;
    if (level == "2") caches.l2 = size;
    if (level == "3") caches.l3 = size;
  }
  return caches;
}

/// The first source that gives a plausible size; guests have been seen to report 508 MiB of L3.
std::int64_t plausible(std::int64_t first, std::int64_t second, std::int64_t low, std::int64_t high,
                       std::int64_t fallback) {
  const std::int64_t size = first > 0 ? first : second;
  if (size <= 0) return fallback;
  return std::clamp(size, low, high);
}

int usable_cores() {
  // A set larger than the kernel's is needed, or the call fails on machines of many CPUs.
  for (int cpus = 1024; cpus <= (1 << 18); cpus *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(cpus));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    const int status = sched_getaffinity(0, bytes, set);
    const int count = status == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

std::string one_blank(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ' && (out.empty() || out.back() == ' ')) continue;
    out.push_back(c);
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

CpuInfo detect() {
  CpuInfo info;
  info.model = one_blank(detect_model());
  if (info.model.empty()) info.model = "unknown CPU";
  info.level = detect_level();
  info.cores = usable_cores();
  const Caches linux_says = caches_of_sysfs();
  const Caches cpu_says = caches_of_cpuid();
  info.l1_bytes = plausible(linux_says.l1, cpu_says.l1, 16 << 10, 256 << 10, 32 << 10);
  info.l2_bytes = plausible(linux_says.l2, cpu_says.l2, 128 << 10, 16 << 20, 1 << 20);
  // A guest sees the host's whole L3 and shares it with others. Reads were seen to slow down from
  // 32-64 MiB on where 508 MiB were reported.
  info.l3_bytes = plausible(linux_says.l3, cpu_says.l3, 1 << 20, 64 << 20, 0);
  info.memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  utsname name{};
  if (uname(&name) == 0) info.kernel = fmt::format("{} {}", name.sysname, name.release);
  return info;
}

}  // namespace

const CpuInfo& cpu_info() {
  static const CpuInfo info = detect();
  return info;
}

int cpu_level_rank(std::string_view level) {
  const auto found = std::find(kLevels.begin(), kLevels.end(), level);
  return found == kLevels.end() ? -1 : static_cast<int>(found - kLevels.begin());
}

DeviceSpec identify_cpu(int threads) {
  const CpuInfo& info = cpu_info();
  DeviceSpec spec;
  spec.kind = DeviceKind::cpu;
  spec.present = true;
  spec.name = info.model;
  spec.architecture = info.level;
  spec.threads = threads > 0 ? threads : info.cores;
  // Threads beyond the cores add nothing, nor do cores beyond the threads.
  spec.units = std::min(spec.threads, info.cores);
  spec.l1_bytes = info.l1_bytes;
  spec.l2_bytes = info.l2_bytes;
  spec.l3_bytes = info.l3_bytes;
  spec.memory_bytes = info.memory_bytes;
  // Waking the pool's threads; a single thread calls the kernel directly.
  spec.launch_seconds = spec.units > 1 ? 1e-6 : 5e-8;
  spec.driver = info.kernel;
  return spec;
}

void rate_cpu(DeviceSpec* rated) {
  const CpuRates& rates = cpu_rates();
  DeviceSpec& spec = *rated;
  const double cores = spec.units;
  spec.clock_ghz = rates.clock_ghz;
  spec.vector_ops[DType::f64] = rates.f32_ops / 2 * cores;
  spec.vector_ops[DType::f32] = rates.f32_ops * cores;
  // bf16 widened to f32, whose cost the kernel's own efficiency covers. Not always the slower way:
  // a Sapphire Rapids Xeon was measured at 150 GF/s with f32 multiply-adds and 75 with the bf16
  // dot.
  spec.vector_ops[DType::bf16] = rates.f32_ops * cores;
  if (rates.bf16_dot_ops > 0) {
    // The rate of the 512-bit dot product, which culet's kernels use; AMX tiles, where present, are
    // used by vendor libraries only, and vendors are not ranked.
    spec.tensor_ops[DType::bf16] = rates.bf16_dot_ops * cores;
  }
  spec.dram_bytes_per_s = rates.dram_bytes_per_s;
  // One core rarely saturates a server's memory; measured on two cores the sum grew by 1.4-1.9x.
  spec.dram_bytes_per_s *= cores > 1 ? std::min(1.5, 0.75 * cores) : 1;
  spec.l2_bytes_per_s = rates.l2_bytes_per_s * cores;
  spec.shared_bytes_per_s = rates.l1_bytes_per_s * cores;
}

DeviceSpec probe_cpu(int threads) {
  DeviceSpec spec = identify_cpu(threads);
  rate_cpu(&spec);
  return spec;
}

}  // namespace culet
