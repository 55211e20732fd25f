// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// find_device() in two steps: a choice that is stored is found and run by who the device is, and
// only ranking asks how fast it is, which for a CPU takes measuring.
#pragma once

#include <string_view>

#include "culet/device.h"

namespace culet {

/// As find_device(), but a CPU here has no rates.
Result<DeviceSpec> identify_device(std::string_view text);
/// Puts in what identify_device() left out, about 20 ms for the first CPU of a process.
void rate_device(DeviceSpec* device);

}  // namespace culet
