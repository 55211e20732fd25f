// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The CSV view: one line a trial, for spreadsheets and data frames. Columns are only ever added, at
// the end.
#include <fmt/format.h>

#include "report/views.h"

namespace culet {
namespace {

constexpr std::string_view kHeader =
    "problem,m,n,k,batch,device,candidate,vendor,chosen,outcome,estimate_us,limiter,median_us,"
    "low_us,high_us,tflops,gbytes_per_s,vs_default,vs_best,error,from_cache,reason\n";

/// RFC 4180: quoted where it holds a comma, a quote or a line break, quotes doubled.
std::string quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

std::string number(std::optional<double> value, double scale = 1) {
  return value ? fmt::format("{:.6g}", *value * scale) : "";
}

std::string line(const TuneReport& report, const Trial& trial) {
  const Problem& p = report.problem;
  const auto seconds = seconds_of(trial);
  std::optional<double> estimate, low, high, error;
  if (trial.estimate) estimate = trial.estimate->seconds;
  if (seconds) {
    low = trial.timing->low;
    high = trial.timing->high;
  }
  if (trial.outcome == Outcome::measured || trial.outcome == Outcome::wrong) error = trial.error;
  std::string out = fmt::format(
      "{},{},{},{},{},{},{},{},{},{},{},{},", quoted(p.text()), p.m, p.n, p.k, p.batch,
      quoted(report.device.name), quoted(trial.candidate.text()), trial.vendor ? 1 : 0,
      &trial == report.choice() ? 1 : 0, to_string(trial.outcome), number(estimate, 1e6),
      trial.estimate ? to_string(trial.estimate->limiter) : std::string_view());
  out +=
      fmt::format("{},{},{},{},{},{},{},{},{},{}\n", number(seconds, 1e6), number(low, 1e6),
                  number(high, 1e6), number(tflops(p, seconds)), number(gbytes_per_s(p, seconds)),
                  number(ratio_to(report.vendor_default(), seconds)),
                  number(ratio_to(report.vendor_best(), seconds)), number(error),
                  trial.from_cache ? 1 : 0, quoted(trial.reason));
  return out;
}

}  // namespace

std::string render_csv(const std::vector<TuneReport>& reports, const RenderOptions& options) {
  std::string out(kHeader);
  for (const TuneReport& report : reports) {
    for (const Trial& trial : report.trials) {
      if (shows(trial, report, options)) out += line(report, trial);
    }
  }
  return out;
}

}  // namespace culet
