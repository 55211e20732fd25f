// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Names of outcomes and limiters, and the derived values of a TuneReport. They live this low
// because the store, the benchmark and the selection speak of trials, long before a report is
// rendered.
#include <array>
#include <map>
#include <utility>

#include "base/text.h"
#include "culet/report.h"

namespace culet {
namespace {

constexpr std::array<std::pair<Outcome, std::string_view>, 6> kOutcomes{{
    {Outcome::ranked, "ranked"},
    {Outcome::build_failed, "build_failed"},
    {Outcome::wrong, "wrong"},
    {Outcome::crashed, "crashed"},
    {Outcome::timed_out, "timed_out"},
    {Outcome::measured, "measured"},
}};

bool is_timed(const Trial& trial) {
  return trial.outcome == Outcome::measured && trial.timing.has_value() && trial.timing->median > 0;
}

std::optional<double> ratio(const Trial* vendor, const Trial* chosen) {
  if (vendor == nullptr || chosen == nullptr || !is_timed(*chosen)) return std::nullopt;
  return vendor->timing->median / chosen->timing->median;
}

}  // namespace

std::string_view to_string(Outcome outcome) {
  for (const auto& [value, name] : kOutcomes) {
    if (value == outcome) return name;
  }
  return "unknown";
}

std::string_view to_string(Limiter limiter) {
  switch (limiter) {
    case Limiter::math:
      return "math";
    case Limiter::dram:
      return "dram";
    case Limiter::l2:
      return "l2";
    case Limiter::shared:
      return "shared";
    case Limiter::latency:
      return "latency";
    case Limiter::waves:
      return "waves";
  }
  return "";
}

Result<Outcome> parse_outcome(std::string_view text) {
  std::string known;
  for (const auto& [value, name] : kOutcomes) {
    if (name == text) return value;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  return fail(ErrorCode::invalid_argument,
              "unknown outcome '" + shown(text) + "'; known are " + known);
}

const Trial* TuneReport::vendor_default() const {
  // A backend's default is its first plan in its own order, whether or not that one could be timed:
  // the second plan never stands in for it.
  std::map<std::string_view, const Trial*> firsts;
  for (const Trial& trial : trials) {
    if (!trial.vendor || trial.order < 0 || trial.candidate.steps.empty()) continue;
    const Trial*& first = firsts[trial.candidate.steps.front().backend];
    if (first == nullptr || trial.order < first->order) first = &trial;
  }
  const Trial* fastest = nullptr;
  for (const auto& [backend, trial] : firsts) {
    if (!is_timed(*trial)) continue;
    if (fastest == nullptr || trial->timing->median < fastest->timing->median) fastest = trial;
  }
  return fastest;
}

const Trial* TuneReport::vendor_best() const {
  const Trial* fastest = nullptr;
  for (const Trial& trial : trials) {
    if (!trial.vendor || !is_timed(trial)) continue;
    if (fastest == nullptr || trial.timing->median < fastest->timing->median) fastest = &trial;
  }
  return fastest;
}

std::optional<double> TuneReport::vs_default() const { return ratio(vendor_default(), choice()); }
std::optional<double> TuneReport::vs_best() const { return ratio(vendor_best(), choice()); }

}  // namespace culet
