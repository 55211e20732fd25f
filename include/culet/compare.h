// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Two reports of tuning runs against each other: what became slower beyond the noise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "culet/error.h"
#include "culet/report.h"

namespace culet {

enum class Verdict : std::uint8_t {
  same,  ///< the difference is within the slack, or the intervals overlap
  faster,
  slower,   ///< takes longer by more than the slack, and the intervals do not overlap
  lost,     ///< had a measured choice, and is there without one now
  found,    ///< the other way round
  missing,  ///< not in the newer report
  added,    ///< not in the older report
  none,     ///< has a measured choice in neither
};
std::string_view to_string(Verdict verdict);

struct ComparedProblem {
  std::string problem;
  std::optional<Timing> before, after;  ///< of the choices
  std::string choice_before, choice_after;
  Verdict verdict = Verdict::none;
  /// time(after) / time(before)
  std::optional<double> ratio() const;
};

struct Comparison {
  std::vector<ComparedProblem> problems;  ///< in the order of the older report; then what was added
  std::vector<std::string> notes;         ///< what makes the two hard to compare
  double slack = 0;
  int count(Verdict verdict) const;
  /// Geometric mean of the ratios; nothing where there is none.
  std::optional<double> mean_ratio() const;
  /// Something became slower, or was lost.
  bool regressed() const { return count(Verdict::slower) + count(Verdict::lost) > 0; }
};

/// A report as `culet tune --format json` writes it (docs/json.md), with the name that messages
/// give it.
struct NamedReport {
  std::string_view text;
  std::string name;
};

/// `slack` of 0.02 takes differences up to 2 % for none. Errors (invalid_argument): a text that is
/// no such report.
Result<Comparison> compare_reports(const NamedReport& before, const NamedReport& after,
                                   double slack = 0.02);

/// As a table or JSON.
std::string render(const Comparison& comparison, ReportFormat format);

}  // namespace culet
