// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Reads two reports in their JSON form and compares the times of what was chosen. Both the size of
// a difference and its interval have to speak for it: a small one is real but nobody's concern, and
// a large one of two noisy measurements may be none.
#include "culet/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_limits.h"
#include "base/table.h"
#include "base/text.h"
#include "report/views.h"

namespace culet {
namespace {

using json = nlohmann::ordered_json;

constexpr std::array<std::pair<Verdict, std::string_view>, 8> kVerdicts{{
    {Verdict::slower, "slower"},
    {Verdict::lost, "lost"},
    {Verdict::faster, "faster"},
    {Verdict::same, "same"},
    {Verdict::found, "found"},
    {Verdict::missing, "missing"},
    {Verdict::added, "added"},
    {Verdict::none, "none"},
}};

struct Chosen {
  std::string problem, candidate;
  std::optional<Timing> timing;
};

struct Read {
  std::vector<Chosen> problems;
  std::map<std::string, std::size_t> places;  ///< of problems; of one that comes twice, the first
  std::string device;
  bool from_cache = true;  ///< all of it

  const Chosen* find(const std::string& problem) const {
    const auto at = places.find(problem);
    return at == places.end() ? nullptr : &problems[at->second];
  }
};

/// The candidate as `culet bench --candidate` takes it, as far as a report tells.
std::string candidate_text(const json& steps) {
  std::string text;
  for (const json& step : steps) {
    std::string config;
    for (const auto& [key, value] : step.at("config").items()) {
      config += fmt::format("{}{}={}", config.empty() ? "" : " ", key,
                            value.is_string() ? value.get<std::string>() : value.dump());
    }
    const auto part = step.at("part").get<std::string>();
    text += fmt::format("{}{}{{{}}}{}{}", text.empty() ? "" : " + ",
                        step.at("backend").get<std::string>(), config, part == "all" ? "" : ":",
                        part == "all" ? "" : part);
  }
  return text;
}

Chosen chosen_of(const json& report) {
  Chosen chosen;
  chosen.problem = report.at("problem").get<std::string>();
  const json& choice = report.at("chosen");
  if (choice.is_null()) return chosen;
  chosen.candidate = candidate_text(choice.at("steps"));
  if (choice.at("median_us").is_null()) return chosen;
  const auto seconds = [](const json& value, double otherwise) {
    return value.is_null() ? otherwise : value.get<double>() / 1e6;
  };
  Timing timing;
  timing.median = timing.low = timing.high = choice.at("median_us").get<double>() / 1e6;
  for (const json& trial : report.at("trials")) {
    if (trial.at("steps") != choice.at("steps")) continue;
    timing.low = seconds(trial.at("low_us"), timing.median);
    timing.high = seconds(trial.at("high_us"), timing.median);
  }
  if (timing.median > 0) chosen.timing = timing;
  return chosen;
}

Result<Read> read(const NamedReport& report) {
  const auto no_report = [&](std::string_view why) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: no report of `culet tune --format json`: {}", report.name, why));
  };
  if (const std::string why = beyond_json_limits(report.text); !why.empty()) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", report.name, why));
  }
  try {
    const json root = json::parse(report.text);
    if (!root.is_object() || !root.contains("reports")) return no_report("it has no 'reports'");
    if (root.at("schema") != 1) {
      return no_report(fmt::format("schema {} is not 1", shown(root.at("schema").dump())));
    }
    Read result;
    const json& device = root.at("device");
    if (!device.is_null()) result.device = device.value("name", std::string());
    for (const json& item : root.at("reports")) {
      result.problems.push_back(chosen_of(item));
      result.places.emplace(result.problems.back().problem, result.problems.size() - 1);
      result.from_cache = result.from_cache && item.at("from_cache").get<bool>();
    }
    return result;
  } catch (const json::parse_error& error) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: {}: this is not JSON", report.name,
                            line_and_column(report.text, error.byte == 0 ? 0 : error.byte - 1)));
  } catch (const json::exception& error) {
    return no_report(shown(error.what(), 120));
  }
}

Verdict judge(const std::optional<Timing>& before, const std::optional<Timing>& after,
              double slack) {
  if (!before && !after) return Verdict::none;
  if (!after) return Verdict::lost;
  if (!before) return Verdict::found;
  if (after->median > before->median * (1 + slack) && after->low > before->high)
    return Verdict::slower;
  if (before->median > after->median * (1 + slack) && before->low > after->high)
    return Verdict::faster;
  return Verdict::same;
}

std::string choice_column(const ComparedProblem& problem) {
  if (problem.choice_before == problem.choice_after) return "same";
  const auto backend = [](const std::string& text) {
    return text.empty() ? std::string("-") : text.substr(0, text.find('{'));
  };
  const std::string before = backend(problem.choice_before), after = backend(problem.choice_after);
  return before == after ? before + ", another" : before + " -> " + after;
}

std::optional<double> median(const std::optional<Timing>& timing) {
  return timing ? std::optional(timing->median) : std::nullopt;
}

std::string summary(const Comparison& comparison) {
  std::string text;
  for (const auto& [verdict, name] : kVerdicts) {
    if (const int count = comparison.count(verdict); count > 0) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
    }
  }
  if (const auto mean = comparison.mean_ratio()) {
    text += fmt::format("; geometric mean of new / old {:.3f}", *mean);
  }
  return text + fmt::format(" (slack {:g} %)\n", comparison.slack * 100);
}

std::string compared_table(const Comparison& comparison) {
  using Align = TextTable::Align;
  TextTable table(
      {"problem", "old us", "new us", "new/old", "verdict", "choice"},
      {Align::left, Align::right, Align::right, Align::right, Align::left, Align::left});
  for (const ComparedProblem& problem : comparison.problems) {
    const auto ratio = problem.ratio();
    table.add_row({shown(problem.problem, 200), microseconds(median(problem.before)),
                   microseconds(median(problem.after)),
                   ratio ? fmt::format("{:.3f}", *ratio) : std::string("-"),
                   std::string(to_string(problem.verdict)), shown(choice_column(problem), 80)});
  }
  std::string out = table.text();
  out += "\n" + summary(comparison);
  for (const std::string& note : comparison.notes) out += "Note: " + note + "\n";
  return out;
}

std::string compared_json(const Comparison& comparison) {
  const auto number = [](std::optional<double> value) {
    return value && std::isfinite(*value) ? json(six_digits(*value)) : json(nullptr);
  };
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? json(nullptr) : json(text);
  };
  const auto us = [&](const std::optional<Timing>& timing) {
    return timing ? number(timing->median * 1e6) : json(nullptr);
  };
  json root{{"schema", 1}, {"slack", comparison.slack}, {"regressed", comparison.regressed()}};
  root["mean_ratio"] = number(comparison.mean_ratio());
  root["counts"] = json::object();
  for (const auto& [verdict, name] : kVerdicts) root["counts"][name] = comparison.count(verdict);
  root["notes"] = comparison.notes;
  root["problems"] = json::array();
  for (const ComparedProblem& problem : comparison.problems) {
    root["problems"].push_back({{"problem", problem.problem},
                                {"verdict", to_string(problem.verdict)},
                                {"old_us", us(problem.before)},
                                {"new_us", us(problem.after)},
                                {"ratio", number(problem.ratio())},
                                {"old_choice", text_or_null(problem.choice_before)},
                                {"new_choice", text_or_null(problem.choice_after)}});
  }
  return root.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  for (const auto& [value, name] : kVerdicts) {
    if (value == verdict) return name;
  }
  return "";
}

std::optional<double> ComparedProblem::ratio() const {
  if (!before || !after) return std::nullopt;
  return after->median / before->median;
}

int Comparison::count(Verdict verdict) const {
  return static_cast<int>(
      std::count_if(problems.begin(), problems.end(),
                    [&](const ComparedProblem& problem) { return problem.verdict == verdict; }));
}

std::optional<double> Comparison::mean_ratio() const {
  double logs = 0;
  int count = 0;
  for (const ComparedProblem& problem : problems) {
    if (const auto ratio = problem.ratio()) {
      logs += std::log(*ratio);
      ++count;
    }
  }
  return count == 0 ? std::nullopt : std::optional(std::exp(logs / count));
}

Result<Comparison> compare_reports(const NamedReport& before, const NamedReport& after,
                                   double slack) {
  const auto old_report = read(before);
  if (!old_report) return tl::unexpected(old_report.error());
  const auto new_report = read(after);
  if (!new_report) return tl::unexpected(new_report.error());
  Comparison comparison;
  comparison.slack = slack;
  for (const Chosen& was : old_report->problems) {
    ComparedProblem problem{was.problem, was.timing, {}, was.candidate, {}, Verdict::missing};
    if (const Chosen* now = new_report->find(was.problem)) {
      problem.after = now->timing;
      problem.choice_after = now->candidate;
      problem.verdict = judge(was.timing, now->timing, slack);
    }
    comparison.problems.push_back(std::move(problem));
  }
  for (const Chosen& now : new_report->problems) {
    if (old_report->find(now.problem) != nullptr) continue;
    comparison.problems.push_back({now.problem, {}, now.timing, {}, now.candidate, Verdict::added});
  }
  if (old_report->device != new_report->device) {
    comparison.notes.push_back(fmt::format("the reports are of different devices: '{}' and '{}'",
                                           shown(old_report->device, 80),
                                           shown(new_report->device, 80)));
  }
  if (!new_report->problems.empty() && new_report->from_cache) {
    comparison.notes.push_back(
        after.name + ": all from the store: nothing was timed for it (tune --fresh does)");
  }
  return comparison;
}

std::string render(const Comparison& comparison, ReportFormat format) {
  return format == ReportFormat::json ? compared_json(comparison) : compared_table(comparison);
}

}  // namespace culet
