// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// NVML, the driver's management library, loaded when first asked for: what clocks, temperature and
// throttling a measurement was made at.
#pragma once

#include <cstdint>
#include <string>

#include "culet/error.h"

namespace culet {

/// The state of a GPU at one moment. Values that a device does not report are -1.
struct GpuState {
  int sm_clock_mhz = -1, max_sm_clock_mhz = -1;
  int memory_clock_mhz = -1;
  int temperature_c = -1;
  double power_watts = -1, power_limit_watts = -1;
  std::uint64_t throttle_reasons = 0;  ///< NVML's bits

  /// The reasons that slow a kernel down, in words ("power cap, thermal"); empty if there are none
  /// (an idle clock is not one).
  std::string throttling() const;
  /// "1980 MHz, 41 C, 310 W of 700 W" and throttling, if any.
  std::string text() const;
};

/// The state of a CUDA device. It is matched by PCI address, since CUDA_VISIBLE_DEVICES renumbers
/// CUDA's devices but not NVML's. Error: no NVML, or the device is not known to it.
Result<GpuState> gpu_state(int ordinal);

/// The driver's version, "580.159.03": from the kernel module's own file, else from NVML, which
/// says the same and takes milliseconds to start. Error: neither.
Result<std::string> gpu_driver_version(const std::string& file = "/sys/module/nvidia/version");

}  // namespace culet
