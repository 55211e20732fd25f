// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The key `threads` of backends on the CPU. Candidates are also written by hand, and read from
// files that somebody else wrote.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "culet/candidate.h"
#include "culet/device.h"
#include "culet/error.h"

namespace culet {

/// The value of `threads`, `otherwise` where the configuration has none. Error (invalid_argument):
/// it is no number of threads that the device has.
inline Result<int> parse_threads(std::string_view backend, const Config& config,
                                 const DeviceSpec& device, int otherwise) {
  if (!config.has("threads")) return otherwise;
  const std::string_view text = config.get("threads");
  const int most = std::max(device.threads, 1);
  std::int64_t threads = 0;
  if (parse_int(text, &threads) == IntParse::ok && threads >= 1 && threads <= most)
    return static_cast<int>(threads);
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("{}: threads={}: 1..{}, as the device has, is expected", backend, text, most));
}

}  // namespace culet
