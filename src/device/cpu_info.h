// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What this machine's CPU is: instruction-set level, cores this process may use, caches, memory,
// and rates for the ranking model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "culet/device.h"

namespace culet {

/// Facts that do not change while a process runs.
struct CpuInfo {
  std::string model;                 ///< the model name, without repeated blanks
  std::string level;                 ///< one of the levels below
  int cores = 1;                     ///< CPUs the process may be scheduled on
  std::int64_t l1_bytes = 32 << 10;  ///< data cache of a core
  std::int64_t l2_bytes = 1 << 20;   ///< of a core
  std::int64_t l3_bytes = 0;         ///< the whole last level; 0 where there is none
  std::int64_t memory_bytes = 0;
  std::string kernel;  ///< the operating system's release
};

/// Detected once per process. An instruction set counts only if the operating system saves its
/// registers (and, for AMX, grants them to this process).
const CpuInfo& cpu_info();

/// Order of the levels "x86-64", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16" (AVX512_BF16 and VNNI),
/// "x86-64-v4-amx" (AMX tiles and bf16): each includes those before it. -1 for any other text.
int cpu_level_rank(std::string_view level);

/// Whether code for level `need` runs on a CPU of level `have`.
inline bool cpu_level_covers(std::string_view have, std::string_view need) {
  return cpu_level_rank(need) >= 0 && cpu_level_rank(have) >= cpu_level_rank(need);
}

/// The CPU as a device that uses `threads` threads (0: all cores). Rates come from a burst of about
/// 20 ms, measured once per process: good enough to rank by, and not part of identity().
DeviceSpec probe_cpu(int threads);

/// Puts the measured rates into a description by identify_cpu().
void rate_cpu(DeviceSpec* spec);
/// The same without rates, in no time: to find and run what was chosen before.
DeviceSpec identify_cpu(int threads);

}  // namespace culet
