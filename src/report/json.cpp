// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The JSON view, documented in docs/json.md. Within schema 1 names are added and never renamed or
// removed.
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "culet/version.h"
#include "report/views.h"

namespace culet {
namespace {

using json = nlohmann::ordered_json;

constexpr int kSchema = 1;

json number(double value) { return std::isfinite(value) ? json(six_digits(value)) : json(nullptr); }
json number(std::optional<double> value) { return value ? number(*value) : json(nullptr); }
json microseconds_json(std::optional<double> seconds) {
  return seconds ? number(*seconds * 1e6) : json(nullptr);
}
json text_or_null(std::string_view text) { return text.empty() ? json(nullptr) : json(text); }

/// Values that are integers are numbers; the config's text can be put together again from both.
json config_json(const Config& config) {
  json object = json::object();
  for (const auto& [key, value] : config.values()) {
    std::int64_t integer = 0;
    const char* end = value.data() + value.size();
    const auto parsed = std::from_chars(value.data(), end, integer);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == end;
    if (whole && std::to_string(integer) == value) {
      object[key] = integer;
    } else {
      object[key] = value;
    }
  }
  return object;
}

json steps_json(const Candidate& candidate) {
  json steps = json::array();
  for (const Step& step : candidate.steps) {
    steps.push_back({{"backend", step.backend},
                     {"config", config_json(step.config)},
                     {"part", to_string(step.part)}});
  }
  return steps;
}

json trial_to_json(const Trial& trial) {
  const bool verified = trial.outcome == Outcome::measured || trial.outcome == Outcome::wrong;
  json object{{"steps", steps_json(trial.candidate)}};
  object["estimate_us"] =
      trial.estimate ? microseconds_json(trial.estimate->seconds) : json(nullptr);
  object["limiter"] = trial.estimate ? json(to_string(trial.estimate->limiter)) : json(nullptr);
  object["outcome"] = to_string(trial.outcome);
  object["reason"] = text_or_null(trial.reason);
  const bool timed = seconds_of(trial).has_value();
  object["median_us"] = timed ? microseconds_json(trial.timing->median) : json(nullptr);
  object["low_us"] = timed ? microseconds_json(trial.timing->low) : json(nullptr);
  object["high_us"] = timed ? microseconds_json(trial.timing->high) : json(nullptr);
  object["error"] = verified ? number(trial.error) : json(nullptr);
  object["vendor"] = trial.vendor;
  return object;
}

json chosen_json(const TuneReport& report) {
  const Trial* choice = report.choice();
  if (choice == nullptr) return nullptr;
  const auto seconds = seconds_of(*choice);
  return {{"steps", steps_json(choice->candidate)},
          {"median_us", microseconds_json(seconds)},
          {"tflops", number(tflops(report.problem, seconds))},
          {"vs_default", number(report.vs_default())},
          {"vs_best", number(report.vs_best())}};
}

json report_json(const TuneReport& report, const RenderOptions& options) {
  json object{{"problem", report.problem.text()},
              {"from_cache", report.from_cache},
              {"chosen", chosen_json(report)},
              {"why", report.why}};
  object["seconds"] = {{"rank", number(report.rank_seconds)},
                       {"compile", number(report.compile_seconds)},
                       {"benchmark", number(report.benchmark_seconds)},
                       {"verify", number(report.verify_seconds)},
                       {"total", number(report.total_seconds)}};
  object["trials"] = json::array();
  std::int64_t left_out = 0;
  for (const Trial& trial : report.trials) {
    if (shows(trial, report, options)) {
      object["trials"].push_back(trial_to_json(trial));
    } else {
      ++left_out;
    }
  }
  object["trials_left_out"] = left_out;
  object["refusals"] = json::array();
  for (const Refusal& refusal : report.refusals) {
    object["refusals"].push_back({{"backend", refusal.backend}, {"reason", refusal.reason}});
  }
  return object;
}

}  // namespace

std::string render_json(const std::vector<TuneReport>& reports, const Counts& counts,
                        const RenderOptions& options) {
  json root{{"schema", kSchema}, {"culet", CULET_VERSION}};
  root["device"] = reports.empty()
                       ? json(nullptr)
                       : json::parse(reports.front().device.json(), nullptr, /*throw=*/false);
  root["counts"] = {{"compiled", counts.compiled}, {"timed", counts.timed}};
  root["reports"] = json::array();
  for (const TuneReport& report : reports) root["reports"].push_back(report_json(report, options));
  // Reasons may quote a compiler or a driver, which may write any bytes.
  return root.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace culet
