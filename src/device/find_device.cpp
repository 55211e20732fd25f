// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// From what a user writes ("auto", "cuda:1", "h200") to a DeviceSpec.
#include "device/find_device.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "base/env.h"
#include "device/cpu_info.h"
#include "device/cuda.h"
#include "device/probe_cuda.h"

namespace culet {

namespace {

/// The number after "cuda:" or "cpu:".
Result<int> number_after(std::string_view text, std::string_view prefix, int low) {
  const std::string_view digits = text.substr(prefix.size());
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < low) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("device '{}': '{}' is not a number of at least {}", text, digits, low));
  }
  return value;
}

/// The CPU with as many threads as CULET_THREADS says; all usable cores where it says nothing.
Result<DeviceSpec> cpu_as_set() {
  const auto threads = env_threads();
  if (!threads) return tl::unexpected<Error>(threads.error());
  if (*threads > cpu_info().cores) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("CULET_THREADS: {}, but this process may use {} cores", *threads,
                            cpu_info().cores));
  }
  return identify_cpu(*threads);
}

/// The device of the caller's context where there is one, else device 0.
int default_ordinal() {
  const auto current = cuda::current_device();
  return current ? *current : 0;
}

}  // namespace

Result<DeviceSpec> identify_device(std::string_view text) {
  if (text == "auto") {
    if (cuda::device_count() > 0) {
      // A GPU that cannot be described is worth an error: falling back silently to the CPU would
      // answer another question than the one asked.
      return probe_cuda(default_ordinal());
    }
    return cpu_as_set();
  }
  if (text == "cpu") return cpu_as_set();
  if (text.starts_with("cpu:")) {
    const auto threads = number_after(text, "cpu:", 1);
    if (!threads) return tl::unexpected<Error>(threads.error());
    if (*threads > cpu_info().cores) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("device '{}': this process may use {} cores", text, cpu_info().cores));
    }
    return identify_cpu(*threads);
  }
  if (text == "cuda") return probe_cuda(default_ordinal());
  if (text.starts_with("cuda:")) {
    const auto ordinal = number_after(text, "cuda:", 0);
    if (!ordinal) return tl::unexpected<Error>(ordinal.error());
    return probe_cuda(*ordinal);
  }
  return DeviceSpec::preset(text);
}

void rate_device(DeviceSpec* device) {
  if (device->present && !device->is_cuda()) rate_cpu(device);
}

Result<DeviceSpec> find_device(std::string_view text) {
  auto device = identify_device(text);
  if (device) rate_device(&*device);
  return device;
}

std::string DeviceSpec::identity() const {
  return fmt::format("{}|{}|{} units|{} threads|{}", name, architecture, units, threads, driver);
}

}  // namespace culet
