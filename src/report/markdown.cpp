// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The Markdown view, for issues and documents: the summary, then the best candidates of each
// problem.
#include <fmt/format.h>

#include "culet/version.h"
#include "report/columns.h"
#include "report/views.h"

namespace culet {
namespace {

/// Text in a table cell as code: on one line, bars escaped (they end a cell even in code).
std::string code(std::string_view text) {
  std::string out = "`";
  for (const char c : clipped(text, text.size())) {
    if (c == '|') out += '\\';
    out += c == '`' ? '\'' : c;
  }
  return out + "`";
}

std::string figure(std::optional<double> value) { return value ? short_number(*value) : "-"; }

std::string summary(const std::vector<TuneReport>& reports) {
  std::string out =
      "| problem | us | TFLOP/s | GB/s | x default | x best | chosen |\n"
      "|---|---:|---:|---:|---:|---:|---|\n";
  for (const TuneReport& report : reports) {
    const Trial* choice = report.choice();
    const auto seconds = choice == nullptr ? std::nullopt : seconds_of(*choice);
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", code(report.problem.text()),
                       microseconds(seconds), figure(tflops(report.problem, seconds)),
                       figure(gbytes_per_s(report.problem, seconds)), times(report.vs_default()),
                       times(report.vs_best()),
                       choice == nullptr ? report.why : code(choice->candidate.text()));
  }
  return out;
}

std::string details(const TuneReport& report, int rows) {
  std::string out = fmt::format("\n### {}\n\n{}\n\n", code(report.problem.text()),
                                clipped(report.why, report.why.size()));
  if (report.trials.empty()) return out;
  out +=
      "| candidate | outcome | median us | low us | high us | estimate us | limiter |\n"
      "|---|---|---:|---:|---:|---:|---|\n";
  std::size_t shown = 0;
  for (const Trial& trial : report.trials) {
    if (rows > 0 && shown == static_cast<std::size_t>(rows)) break;
    ++shown;
    const auto seconds = seconds_of(trial);
    out += fmt::format("| {}{} | {} | {} | {} | {} | {} | {} |\n", code(trial.candidate.text()),
                       &trial == report.choice() ? " **chosen**" : "", to_string(trial.outcome),
                       microseconds(seconds), seconds ? microseconds(trial.timing->low) : "-",
                       seconds ? microseconds(trial.timing->high) : "-",
                       trial.estimate ? microseconds(trial.estimate->seconds) : "-",
                       trial.estimate ? to_string(trial.estimate->limiter) : std::string_view("-"));
  }
  if (shown < report.trials.size()) {
    out += fmt::format("\n... and {} more.\n", report.trials.size() - shown);
  }
  return out;
}

}  // namespace

std::string render_markdown(const std::vector<TuneReport>& reports, const Counts& counts,
                            const RenderOptions& options) {
  std::string out = fmt::format("## culet {}", CULET_VERSION);
  if (!reports.empty()) {
    out += fmt::format(" on {} ({})", reports.front().device.name,
                       reports.front().device.architecture);
  }
  out += "\n\n" + summary(reports);
  for (const std::string& line : summary_lines(totals_of(reports), counts))
    out += "\n" + line + "\n";
  if (!options.summary_only) {
    for (const TuneReport& report : reports) out += details(report, options.rows);
  }
  return out;
}

}  // namespace culet
