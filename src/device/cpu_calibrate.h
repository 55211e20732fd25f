// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Rates of one core, measured in a short burst, because neither clock nor memory bandwidth of a
// (virtual) CPU can be looked up.
#pragma once

namespace culet {

/// Rates of one core.
struct CpuRates {
  double clock_ghz = 0;     ///< while it runs wide multiply-adds
  double f32_ops = 0;       ///< fused multiply-adds in the widest registers, 2 operations each
  double bf16_dot_ops = 0;  ///< the bf16 dot product in 512-bit registers; 0 without
  double l1_bytes_per_s = 0;
  double l2_bytes_per_s = 0;
  double dram_bytes_per_s = 0;  ///< reading far more than the second-level cache
};

/// Measured at the first call, about 20 ms; the same for the rest of the process.
const CpuRates& cpu_rates();

}  // namespace culet
