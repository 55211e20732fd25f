// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Plans by interval of m.
#include <fmt/format.h>

#include <algorithm>

#include "culet/plan.h"

namespace culet {

Result<PlanTable> PlanTable::make(std::vector<Interval> intervals) {
  if (intervals.empty()) return fail(ErrorCode::invalid_argument, "a plan table without intervals");
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    const MRange& range = intervals[i].range;
    if (range.low < 0 || range.low > range.high) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("m={}..{} is not an interval", range.low, range.high));
    }
    if (i > 0 && range.low != intervals[i - 1].range.high + 1) {
      const MRange& before = intervals[i - 1].range;
      return fail(ErrorCode::invalid_argument,
                  fmt::format("m={}..{} does not follow m={}..{}: intervals leave no gap and do "
                              "not overlap",
                              range.low, range.high, before.low, before.high));
    }
    const MRange& served = intervals[i].plan.problem().m_range;
    if (range.low < served.low || range.high > served.high) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("the plan for m={}..{} serves only m={}..{}", range.low, range.high,
                              served.low, served.high));
    }
  }
  PlanTable table;
  table.intervals_ = std::move(intervals);
  return table;
}

const Plan* PlanTable::find(std::int64_t m) const {
  const auto found = std::lower_bound(
      intervals_.begin(), intervals_.end(), m,
      [](const Interval& interval, std::int64_t value) { return interval.range.high < value; });
  if (found == intervals_.end() || m < found->range.low) return nullptr;
  return &found->plan;
}

Result<void> PlanTable::run(const Arguments& arguments, const RunOptions& options) const {
  if (intervals_.empty()) return fail(ErrorCode::invalid_argument, "an empty plan table");
  const Plan* plan = find(arguments.m);
  if (plan != nullptr) return plan->run(arguments, options);
  return fail(ErrorCode::invalid_argument,
              fmt::format("m: {} is outside {}..{}, which this table is for", arguments.m,
                          intervals_.front().range.low, intervals_.back().range.high));
}

}  // namespace culet
