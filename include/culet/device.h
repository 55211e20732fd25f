// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What the ranking model and the backends know of a device: plain data, from a preset, a JSON file
// or a probe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "culet/dtype.h"
#include "culet/error.h"

namespace culet {

enum class DeviceKind : std::uint8_t { cpu, cuda };

std::string_view to_string(DeviceKind kind);

struct DeviceSpec {
  DeviceKind kind = DeviceKind::cpu;
  int ordinal = 0;           ///< CUDA device number
  bool present = false;      ///< a real device here (probed), not just a description of one
  std::string name;          ///< "NVIDIA H200", or the CPU's model name
  std::string architecture;  ///< "sm_90a", "sm_80", ...; for a CPU its best level: "x86-64-v3",
                             ///< "x86-64-v4", "x86-64-v4-bf16"

  int units = 1;         ///< streaming multiprocessors, or cores usable
  int threads = 1;       ///< CPU: threads a kernel may use
  double clock_ghz = 1;  ///< the sustained clock the rates below refer to

  /// Peak rate in operations per second of a multiply-accumulate pipe for operands of a dtype (2
  /// per multiply-add), the whole device. A dtype that is missing has no fast path.
  std::map<DType, double> tensor_ops;
  std::map<DType, double> vector_ops;  ///< the same on the ordinary pipes (CUDA cores, FMA units)

  double dram_bytes_per_s = 1e10;
  double l2_bytes_per_s = 1e11;      ///< GPU L2, CPU last-level cache
  double shared_bytes_per_s = 1e12;  ///< GPU shared memory / CPU L1, the whole device
  std::int64_t l1_bytes = 32 << 10;  ///< CPU only
  std::int64_t l2_bytes = 1 << 20;   ///< GPU L2; CPU L2 per core
  std::int64_t l3_bytes = 0;         ///< CPU only
  std::int64_t memory_bytes = 0;
  std::int64_t shared_per_block = 0;  ///< opt-in limit, bytes
  std::int64_t shared_per_unit = 0;
  int registers_per_unit = 0;
  int max_threads_per_unit = 0;
  double launch_seconds =
      0;  ///< time a kernel launch takes back to back in a graph, without any work
  double latency_seconds = 0;  ///< fill and drain of a kernel: first load to last store

  std::string driver;  ///< CUDA driver version, or the kernel's, for cache keys
  /// Which of several of a kind, "GPU-" and 32 hexadecimal digits in five groups as nvidia-smi has
  /// it; empty where there is none. Not part of any key: equal devices share what was measured.
  std::string uuid;

  bool is_cuda() const { return kind == DeviceKind::cuda; }

  /// "h200", "cpu" ... or a path to a JSON file of the same form (docs/devices.md).
  static Result<DeviceSpec> preset(std::string_view name_or_path);
  static std::vector<std::string> preset_names();
  std::string json() const;
  static Result<DeviceSpec> from_json(std::string_view text);

  /// Text that identifies the device in cache keys: name, architecture, units, threads, driver.
  std::string identity() const;
};

/// Finds a device: "auto" (a CUDA device where there is one, else the CPU), "cpu", "cpu:THREADS",
/// "cuda", "cuda:N". Anything else is taken as a preset name or JSON path, which gives a DeviceSpec
/// with present == false.
Result<DeviceSpec> find_device(std::string_view text);

}  // namespace culet
