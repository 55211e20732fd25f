// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The view for people: a block for each problem (what was chosen, how fast, against what, why, and
// the best of the others), then one line a problem and what it all comes to.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/columns.h"
#include "report/views.h"

namespace culet {
namespace {

constexpr std::size_t kWidth = 120;
constexpr std::size_t kIndent = 2;
constexpr std::size_t kLabel = 9;
/// Candidates up to this length are shown in full.
constexpr std::size_t kShortName = 48;
/// From this many problems on the summary says more than the blocks.
constexpr std::size_t kSummaryFrom = 2;

std::string field(std::string_view label, std::string_view text) {
  const std::size_t begin = kIndent + kLabel;
  return fmt::format("{:>{}}{:<{}}{}\n", "", kIndent, label, kLabel,
                     wrapped(text, kWidth, begin, begin));
}

std::string name_of_vendor(const Trial& trial) {
  return fmt::format("{} us, {}", microseconds(seconds_of(trial)),
                     trial.candidate.steps.front().backend);
}

std::string against(const TuneReport& report) {
  const Trial *first = report.vendor_default(), *best = report.vendor_best();
  if (best == nullptr) return "no vendor plan";
  std::string text;
  if (first != nullptr) {
    text = fmt::format("{} the vendor's default ({}), ", times(report.vs_default()),
                       name_of_vendor(*first));
  }
  return text + fmt::format("{} its best ({})", times(report.vs_best()), name_of_vendor(*best));
}

std::string speed(const TuneReport& report, const Trial& choice) {
  const auto seconds = seconds_of(choice);
  if (!seconds) {
    if (!choice.estimate) return "not measured";
    return fmt::format("{} us estimated, limited by {}", microseconds(choice.estimate->seconds),
                       to_string(choice.estimate->limiter));
  }
  std::string text =
      fmt::format("{} us ({} to {}), {} TFLOP/s, {} GB/s", microseconds(seconds),
                  microseconds(choice.timing->low), microseconds(choice.timing->high),
                  short_number(*tflops(report.problem, seconds)),
                  short_number(*gbytes_per_s(report.problem, seconds)));
  if (choice.estimate) {
    text += fmt::format(
        ", {:.0f}% of the roofline estimate ({} us, {})", 100 * choice.estimate->seconds / *seconds,
        microseconds(choice.estimate->seconds), to_string(choice.estimate->limiter));
  }
  return text;
}

/// The first rows, and in any case the choice and the vendor's default.
std::vector<std::size_t> rows_to_show(const TuneReport& report, int rows) {
  std::vector<std::size_t> shown;
  const Trial* first = report.vendor_default();
  for (std::size_t i = 0; i < report.trials.size(); ++i) {
    const Trial* trial = &report.trials[i];
    if (rows <= 0 || i < static_cast<std::size_t>(rows) || trial == report.choice() ||
        trial == first) {
      shown.push_back(i);
    }
  }
  return shown;
}

bool failed(const Trial& trial) {
  return trial.outcome != Outcome::measured && trial.outcome != Outcome::ranked;
}

/// Half the interval's width as a share of the median.
std::string spread(const Trial& trial) {
  if (!seconds_of(trial)) return "-";
  const double half = (trial.timing->high - trial.timing->low) / 2;
  return fmt::format("{:.1f}%", 100 * half / trial.timing->median);
}

/// Rows of one backend mostly differ in a value or two: the first of each is shown in full, the
/// others by what they have otherwise.
class CandidateNames {
 public:
  std::string next(const Candidate& candidate) {
    const Step& step = candidate.steps.front();
    const auto [at, first] = firsts_.emplace(step.backend, &candidate);
    if (first || candidate.steps.size() != 1 || at->second->steps.size() != 1 ||
        candidate.text().size() <= kShortName) {
      return candidate.text();
    }
    const Config& reference = at->second->steps.front().config;
    std::string text;
    for (const auto& [key, value] : step.config.values()) {
      if (reference.get(key) != value) text += fmt::format(" {}={}", key, value);
    }
    return text.empty() ? candidate.text() : fmt::format("{}{{..{}}}", step.backend, text);
  }

 private:
  std::map<std::string, const Candidate*> firsts_;
};

Columns trial_columns(const TuneReport& report, const std::vector<std::size_t>& shown,
                      bool details) {
  const bool timed = std::any_of(report.trials.begin(), report.trials.end(),
                                 [](const Trial& trial) { return seconds_of(trial).has_value(); });
  Columns table;
  table.column("", Columns::Align::left);
  if (timed) {
    for (const char* name : {"median us", "+-", "x best"}) table.column(name);
  }
  table.column("estimate us");
  table.column("limiter", Columns::Align::left);
  table.column("outcome", Columns::Align::left);
  table.column("candidate", Columns::Align::left);
  const Trial* best = report.vendor_best();
  CandidateNames names;
  std::string last_reason;  // hundreds of rows may have the same
  for (const std::size_t i : shown) {
    const Trial& trial = report.trials[i];
    const bool chosen = &trial == report.choice();
    const auto seconds = seconds_of(trial);
    std::vector<std::string> cells{chosen ? ">" : " "};
    if (timed) {
      cells.insert(cells.end(),
                   {microseconds(seconds), spread(trial), times(ratio_to(best, seconds))});
    }
    cells.push_back(trial.estimate ? microseconds(trial.estimate->seconds) : "-");
    cells.emplace_back(trial.estimate ? to_string(trial.estimate->limiter) : "-");
    cells.emplace_back(to_string(trial.outcome));
    const std::string short_name = names.next(trial.candidate);
    const bool full = details && trial.outcome != Outcome::ranked;
    cells.push_back(full ? trial.candidate.text() : short_name);
    // The choice stands in full above the table.
    table.row(std::move(cells),
              chosen          ? Shade::good
              : failed(trial) ? Shade::bad
                              : Shade::plain,
              !chosen);
    if (!trial.reason.empty() && (details || failed(trial)) && trial.reason != last_reason) {
      table.note(trial.reason, Shade::dim);
    }
    last_reason = trial.reason;
  }
  return table;
}

/// "... and 12 more: 10 ranked, 2 build_failed"
std::string others(const TuneReport& report, const std::vector<std::size_t>& shown) {
  std::map<Outcome, int, std::greater<>> hidden;
  int count = 0;
  for (std::size_t i = 0; i < report.trials.size(); ++i) {
    if (std::binary_search(shown.begin(), shown.end(), i)) continue;
    ++hidden[report.trials[i].outcome];
    ++count;
  }
  if (count == 0) return {};
  std::string text = fmt::format("... and {} more", count);
  const char* separator = ": ";
  for (const auto& [outcome, number] : hidden) {
    text += fmt::format("{}{} {}", separator, number, to_string(outcome));
    separator = ", ";
  }
  return std::string(kIndent, ' ') + text + "\n";
}

std::string block(const TuneReport& report, const RenderOptions& options) {
  std::string out = shaded(report.problem.text(), Shade::bold, options.color);
  if (report.from_cache) out += shaded("  (from the cache)", Shade::dim, options.color);
  out += "\n";
  if (const Trial* choice = report.choice(); choice != nullptr) {
    out += field("chosen", choice->candidate.text());
    out += field("time", speed(report, *choice));
    if (seconds_of(*choice)) out += field("against", against(report));
  }
  out += field("why", report.why);
  if (!report.trials.empty()) {
    const auto shown = rows_to_show(report, options.rows);
    out += trial_columns(report, shown, options.details).text(kWidth, kIndent, options.color);
    out += others(report, shown);
  }
  if (options.details) {
    for (const Refusal& refusal : report.refusals) {
      out += field("refused", fmt::format("{}: {}", refusal.backend, refusal.reason));
    }
  }
  return out;
}

std::string summary(const std::vector<TuneReport>& reports, bool color) {
  const bool measured = std::any_of(reports.begin(), reports.end(), [](const TuneReport& r) {
    return r.choice() != nullptr && seconds_of(*r.choice());
  });
  Columns table;
  table.column("problem", Columns::Align::left, 48);
  if (measured) {
    for (const char* name : {"us", "TFLOP/s", "GB/s", "x default", "x best"}) table.column(name);
  } else {
    table.column("estimate us");
    table.column("limiter", Columns::Align::left);
  }
  table.column("chosen", Columns::Align::left);
  for (const TuneReport& report : reports) {
    std::vector<std::string> cells{report.problem.text()};
    const Trial* choice = report.choice();
    const auto seconds = choice == nullptr ? std::nullopt : seconds_of(*choice);
    const auto estimate = choice == nullptr ? std::nullopt : choice->estimate;
    if (measured) {
      const auto figure = [](std::optional<double> value) {
        return value ? short_number(*value) : "-";
      };
      cells.insert(cells.end(), {microseconds(seconds), figure(tflops(report.problem, seconds)),
                                 figure(gbytes_per_s(report.problem, seconds)),
                                 times(report.vs_default()), times(report.vs_best())});
    } else {
      cells.push_back(estimate ? microseconds(estimate->seconds) : "-");
      cells.emplace_back(estimate ? to_string(estimate->limiter) : "-");
    }
    cells.push_back(choice == nullptr ? report.why : choice->candidate.text());
    const auto ratio = report.vs_default();
    table.row(std::move(cells), !ratio ? Shade::plain : *ratio > 1 ? Shade::good : Shade::plain);
  }
  return table.text(kWidth, 0, color);
}

}  // namespace

std::string render_table(const std::vector<TuneReport>& reports, const Counts& counts,
                         const RenderOptions& options) {
  if (reports.empty()) return "No problems.\n";
  const DeviceSpec& device = reports.front().device;
  std::string out =
      shaded(fmt::format("{} ({}{})", device.name, device.architecture,
                         device.present ? "" : ", a description: nothing is measured"),
             Shade::dim, options.color) +
      "\n\n";
  if (!options.summary_only) {
    for (const TuneReport& report : reports) out += block(report, options) + "\n";
  }
  if (options.summary_only || reports.size() >= kSummaryFrom) {
    out += summary(reports, options.color) + "\n";
  }
  for (const std::string& line : summary_lines(totals_of(reports), counts)) out += line + "\n";
  return out;
}

}  // namespace culet
