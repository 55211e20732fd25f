// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Figures derived from reports, the same in every view.
#include <fmt/format.h>

#include <cmath>

#include "report/views.h"

namespace culet {

std::optional<double> seconds_of(const Trial& trial) {
  if (trial.outcome != Outcome::measured || !trial.timing || trial.timing->median <= 0) {
    return std::nullopt;
  }
  return trial.timing->median;
}

std::optional<double> tflops(const Problem& problem, std::optional<double> seconds) {
  if (!seconds) return std::nullopt;
  return problem.flops() / *seconds / 1e12;
}

std::optional<double> gbytes_per_s(const Problem& problem, std::optional<double> seconds) {
  if (!seconds) return std::nullopt;
  return problem.compulsory_bytes() / *seconds / 1e9;
}

std::optional<double> ratio_to(const Trial* vendor, std::optional<double> seconds) {
  const auto reference = vendor == nullptr ? std::nullopt : seconds_of(*vendor);
  if (!reference || !seconds) return std::nullopt;
  return *reference / *seconds;
}

Totals totals_of(const std::vector<TuneReport>& reports) {
  Totals totals;
  double log_default = 0, log_best = 0;
  int defaults = 0;
  for (const TuneReport& report : reports) {
    totals.rank += report.rank_seconds;
    totals.compile += report.compile_seconds;
    totals.benchmark += report.benchmark_seconds;
    totals.total += report.total_seconds;
    const Trial* choice = report.choice();
    if (choice == nullptr) {
      ++totals.none;
      continue;
    }
    ++(choice->fallback ? totals.fallback : choice->vendor ? totals.vendor : totals.own);
    if (seconds_of(*choice)) ++totals.measured;
    if (const auto ratio = report.vs_default()) {
      log_default += std::log(*ratio);
      ++defaults;
    }
    if (const auto ratio = report.vs_best()) {
      log_best += std::log(*ratio);
      ++totals.with_vendor;
    }
  }
  if (defaults > 0) totals.vs_default = std::exp(log_default / defaults);
  if (totals.with_vendor > 0) totals.vs_best = std::exp(log_best / totals.with_vendor);
  return totals;
}

double six_digits(double value) {
  if (value == 0) return 0;
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::abs(value))));
  const double rounded = std::round(value * scale) / scale;
  return std::isfinite(rounded) ? rounded : value;
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value)) return "inf";
  if (size >= 1000) return fmt::format("{:.0f}", value);
  if (size >= 100) return fmt::format("{:.1f}", value);
  if (size >= 10) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3f}", value);
}

std::string microseconds(std::optional<double> seconds) {
  return seconds ? short_number(*seconds * 1e6) : "-";
}

std::string times(std::optional<double> ratio) {
  return ratio ? fmt::format("{:.2f}x", *ratio) : "-";
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::vector<std::string> summary_lines(const Totals& totals, const Counts& counts) {
  std::vector<std::string> lines;
  if (totals.vs_best) {
    lines.push_back(fmt::format("Geometric mean over {}: {} the vendor's default, {} its best.",
                                counted(totals.with_vendor, "problem"), times(totals.vs_default),
                                times(totals.vs_best)));
  } else if (totals.measured > 0) {
    lines.emplace_back("No vendor plan to compare with.");
  }
  std::string chosen = fmt::format("Chosen: own kernel {}, vendor {}", totals.own, totals.vendor);
  if (totals.fallback > 0) chosen += fmt::format(", fallback {}", totals.fallback);
  if (totals.none > 0) chosen += fmt::format(", none {}", totals.none);
  lines.push_back(chosen + ".");
  lines.push_back(fmt::format(
      "Compiled {}, timed {} in {:.1f} s (rank {:.1f}, compile {:.1f}, benchmark {:.1f}).",
      counted(counts.compiled, "kernel"), counted(counts.timed, "candidate"), totals.total,
      totals.rank, totals.compile, totals.benchmark));
  return lines;
}

}  // namespace culet
