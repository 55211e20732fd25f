// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A CUDA device as plain data.
#pragma once

#include "culet/device.h"

namespace culet {

/// "sm_90a" for compute capability 9.0, "sm_100a" for 10.0 and its kin, "sm_80" for 8.0: parts from
/// Hopper on have instructions that exist only in the architecture-specific target.
std::string cuda_architecture(int major, int minor);

/// Fills in rates per dtype from a table by compute capability, for spec.units and spec.clock_ghz.
void fill_cuda_rates(int major, int minor, DeviceSpec* spec);

/// Describes device `ordinal` of this machine. Error: device.
Result<DeviceSpec> probe_cuda(int ordinal);

}  // namespace culet
