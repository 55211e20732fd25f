// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// `culet explain`: everything that led to a choice, how far the model can be trusted here, and the
// command that repeats the measurement.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "console.h"
#include "observers.h"
#include "session.h"
#include "stop.h"
#include "verbs.h"

namespace culet::cli {
namespace {

/// Estimate over measurement of the candidates that have both, and where the model put the fastest.
std::string model_lines(const TuneReport& report) {
  double sum = 0, low = 1e30, high = 0;
  int count = 0;
  const Trial* fastest = nullptr;
  for (const Trial& trial : report.trials) {
    if (!trial.estimate || !trial.timing || trial.outcome != Outcome::measured) continue;
    const double ratio = trial.estimate->seconds / trial.timing->median;
    sum += std::log(ratio);
    low = std::min(low, ratio);
    high = std::max(high, ratio);
    ++count;
    if (fastest == nullptr || trial.timing->median < fastest->timing->median) fastest = &trial;
  }
  if (count == 0) return {};
  int better = 0;
  for (const Trial& trial : report.trials) {
    if (trial.estimate && trial.estimate->seconds < fastest->estimate->seconds) ++better;
  }
  return fmt::format(
      "Model: estimates are {:.0f}% of the measured time in the geometric mean of {} candidates "
      "({:.0f}% to {:.0f}%);\nthe fastest of them was ranked number {}.\n",
      100 * std::exp(sum / count), count, 100 * low, 100 * high, better + 1);
}

/// All that were tried, and the best of those that were only ranked: there may be thousands.
int rows_to_show(const TuneReport& report) {
  constexpr int kRanked = 20;
  const auto tried = std::count_if(report.trials.begin(), report.trials.end(),
                                   [](const Trial& t) { return t.outcome != Outcome::ranked; });
  return static_cast<int>(tried) + kRanked;
}

std::string reproduce(const Arguments& arguments, const TuneReport& report) {
  const Trial* choice = report.choice();
  if (choice == nullptr || choice->outcome != Outcome::measured) return {};
  std::string command = "culet bench " + shell_quoted(report.problem.text()) + " --candidate " +
                        shell_quoted(choice->candidate.text());
  if (arguments.device != "auto") command += " --device " + shell_quoted(arguments.device);
  if (!arguments.seed.empty()) command += " --seed " + arguments.seed;
  return "To measure the choice again:\n  " + command + "\n";
}

int explain(const Arguments& arguments, Session& session) {
  const Stop stop(session.budget_seconds);
  session.options.stop = stop.flag();
  Tuner tuner(session.registry, session.device, session.options, session.cache);
  if (const auto begun = begin_log(session, tuner, arguments); !begun)
    return report_error(begun.error());
  const Problem& problem = session.problems.front();
  Result<TuneReport> report = fail(ErrorCode::device, "");
  {
    ProgressLine line(1);
    Both observers(line, session.log.get());
    line.start(1, problem);
    report = session.device.present ? tuner.tune(problem, &observers) : tuner.rank(problem);
  }
  warn_from(session);
  if (!report) {
    if (session.log != nullptr) session.log->failed(problem, report.error());
    return report_error(report.error());
  }
  RenderOptions options = table_options(arguments, 1);
  options.details = true;
  options.rows = arguments.all ? 0 : rows_to_show(*report);
  std::string text = render({*report}, tuner.counts(), session.format, options);
  if (session.format == ReportFormat::table) {
    text += model_lines(*report) + reproduce(arguments, *report);
  }
  if (const auto delivered = deliver(text, arguments.output); !delivered) {
    return report_error(delivered.error());
  }
  if (stop.interrupted()) return exit_status(ErrorCode::interrupted);
  if (stop.out_of_budget()) return exit_status(ErrorCode::out_of_budget);
  return 0;
}

}  // namespace

int run_explain(const Arguments& arguments) {
  auto session = open_session(arguments);
  if (!session) return report_error(session.error());
  return end_log(*session, explain(arguments, *session));
}

}  // namespace culet::cli
