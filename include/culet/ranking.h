// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The open performance model: from a candidate's Features and plain device data to seconds and the
// limiter.
#pragma once

#include <cstdint>
#include <string_view>

#include "culet/backend.h"
#include "culet/device.h"

namespace culet {

enum class Limiter : std::uint8_t { math, dram, l2, shared, latency, waves };
std::string_view to_string(Limiter limiter);

struct Estimate {
  double seconds = 0;
  Limiter limiter = Limiter::math;
};

/// Roofline over the full configuration; the formula and the source of each constant are in
/// src/ranking/roofline.cpp.
Estimate estimate(const Features& features, const DeviceSpec& device);

}  // namespace culet
