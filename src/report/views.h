// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The four views of tuning reports, one file each, and the derived figures they share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "culet/report.h"

namespace culet {

std::string render_table(const std::vector<TuneReport>& reports, const Counts& counts,
                         const RenderOptions& options);
std::string render_json(const std::vector<TuneReport>& reports, const Counts& counts,
                        const RenderOptions& options);
std::string render_csv(const std::vector<TuneReport>& reports, const RenderOptions& options);
std::string render_markdown(const std::vector<TuneReport>& reports, const Counts& counts,
                            const RenderOptions& options);

/// Whether a trial is listed in JSON and CSV. The choice always is, also where it was only ranked.
inline bool shows(const Trial& trial, const TuneReport& report, const RenderOptions& options) {
  return !options.tried_only || trial.outcome != Outcome::ranked || &trial == report.choice();
}

/// Seconds of a trial that was verified and timed; nothing for any other.
std::optional<double> seconds_of(const Trial& trial);
std::optional<double> tflops(const Problem& problem, std::optional<double> seconds);
/// Compulsory bytes over time: what the GEMM would need at least, not what the kernel moved.
std::optional<double> gbytes_per_s(const Problem& problem, std::optional<double> seconds);
/// time(vendor) / seconds.
std::optional<double> ratio_to(const Trial* vendor, std::optional<double> seconds);

/// What a set of reports comes to.
struct Totals {
  int own = 0, vendor = 0, fallback = 0, none = 0;  ///< whose kernel was chosen
  int measured = 0;                                 ///< reports whose choice was timed
  int with_vendor = 0;                              ///< of those, with a vendor plan to compare to
  std::optional<double> vs_default, vs_best;        ///< geometric means
  double rank = 0, compile = 0, benchmark = 0, total = 0;  ///< seconds
};
Totals totals_of(const std::vector<TuneReport>& reports);

/// Six significant digits: more than any measurement has, and no 0.30000000000000004. For finite
/// values.
double six_digits(double value);
/// Three or four significant digits, without an exponent, so that columns read well: 0.123, 12.3.
std::string short_number(double value);
/// short_number of microseconds; "-" for nothing.
std::string microseconds(std::optional<double> seconds);
/// "1.13x"; "-" for nothing.
std::string times(std::optional<double> ratio);
/// `count` with its noun: "1 kernel", "3 kernels".
std::string counted(std::int64_t count, std::string_view noun);
/// The sentence under the summary: geomeans, whose kernels were chosen, counts, seconds.
std::vector<std::string> summary_lines(const Totals& totals, const Counts& counts);

}  // namespace culet
