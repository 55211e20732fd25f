// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Candidates are also written by hand: a key that nobody reads is a mistake, not a detail.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "culet/candidate.h"
#include "culet/error.h"

namespace culet {

/// Error (invalid_argument): `given` has a key that `understood`, the same configuration as the
/// backend took it, has not.
inline Result<void> check_keys(std::string_view backend, const Config& given,
                               const Config& understood) {
  for (const auto& [key, value] : given.values()) {
    if (understood.has(key)) continue;
    std::string keys;
    for (const auto& [known, ignored] : understood.values())
      keys += fmt::format("{}{}", keys.empty() ? "" : ", ", known);
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{}: {}={}: it has no such key here, only {}", backend, key, value, keys));
  }
  return {};
}

}  // namespace culet
