// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// `culet compare OLD NEW`: for a machine, the status says it; for people, the table.
#include "culet/compare.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "console.h"
#include "verbs.h"

namespace culet::cli {
namespace {

Result<double> parse_slack(const std::string& text) {
  if (text.empty()) return 0.02;
  double percent = -1;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, percent);
  if (error != std::errc() || at != end || !std::isfinite(percent) || percent < 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--slack: '{}' is not a number of per cent", shown(text)));
  }
  return percent / 100;
}

Result<Comparison> compare(const Arguments& arguments) {
  const auto slack = parse_slack(arguments.slack);
  if (!slack) return tl::unexpected(slack.error());
  const auto before = load(arguments.before);
  if (!before) return tl::unexpected(before.error());
  const auto after = load(arguments.after);
  if (!after) return tl::unexpected(after.error());
  return compare_reports({*before, arguments.before}, {*after, arguments.after}, *slack);
}

}  // namespace

int run_compare(const Arguments& arguments) {
  if (arguments.format != "table" && arguments.format != "json") {
    return report_error(
        {ErrorCode::invalid_argument,
         fmt::format("--format: '{}' is not table or json", shown(arguments.format)),
         {}});
  }
  const auto comparison = compare(arguments);
  if (!comparison) return report_error(comparison.error());
  const auto format = arguments.format == "json" ? ReportFormat::json : ReportFormat::table;
  if (auto done = deliver(render(*comparison, format), arguments.output); !done) {
    return report_error(done.error());
  }
  if (!comparison->regressed()) return 0;
  return report_error(
      {ErrorCode::regression,
       fmt::format("{} slower and {} without a choice that had one",
                   comparison->count(Verdict::slower), comparison->count(Verdict::lost)),
       {}});
}

}  // namespace culet::cli
