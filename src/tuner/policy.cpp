// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The measuring policy as text: part of every stored trial's key, so that times taken in different
// ways never meet. And names of other values: isolation is no part of it, a worker takes the same
// times.
#include <fmt/format.h>

#include "culet/tuner.h"

namespace culet {

std::string MeasurePolicy::text() const {
  // "v4" stands for what has no parameter: random operands, interleaved rounds without what all of
  // one share, and the statistic (docs/measuring.md).
  return fmt::format(
      "v4 target={:g} rounds={}..{} drop={:g} rotate={} noise={:g} trial={:g} settle={:g} "
      "final={:g}",
      target_seconds, min_rounds, max_rounds, drop_ratio, rotate_bytes, noise_floor, trial_seconds,
      settle_seconds, final_ratio);
}

Result<Isolation> parse_isolation(std::string_view text) {
  if (text == "process") return Isolation::process;
  if (text == "none") return Isolation::none;
  return fail(ErrorCode::invalid_argument,
              fmt::format("'{}' is not process or none", text.substr(0, 80)));
}

std::string_view to_string(CodeFrom from) {
  switch (from) {
    case CodeFrom::compiled:
      return "compiled";
    case CodeFrom::stored:
      return "stored";
    case CodeFrom::awaited:
      return "awaited";
  }
  return "?";
}

}  // namespace culet
