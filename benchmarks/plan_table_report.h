// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Of bench_plan_table: what was found, as a table and as JSON.
#pragma once

#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "common.h"
#include "culet/culet.h"
#include "plan_table_operands.h"

namespace plan_table {

constexpr double kSlower = 0.98;

struct Options {
  std::string problem = "1x4096x4096:bf16:m=1..8192", device = "cuda", out, command;
  int rounds = 11, top = 5;
};

struct Found {
  std::string candidate;
  int interval = -1;
  double seconds = 0, ratio = 0, low = 0, high = 0;  ///< ratio to the table, with its interval
};

struct Point {
  std::int64_t m = 0;
  int interval = 0;
  double seconds = 0;
  std::optional<Found> other, vendor, vendor_default;
  std::string checked_against;
  double error = 0;  ///< of all checks that ended at this m
  bool slower() const { return other && other->high < kSlower; }
};

struct Summary {
  const Point* worst = nullptr;  ///< null where no other interval can compute anything
  int compared = 0, slower = 0, with_vendor = 0;
  double vendor_geomean = 0, largest_error = 0;
};

inline Summary summarise(const std::vector<Point>& points) {
  Summary all;
  double logs = 0;
  for (const Point& point : points) {
    all.largest_error = std::max(all.largest_error, point.error);
    all.compared += point.other ? 1 : 0;
    all.slower += point.slower() ? 1 : 0;
    if (point.other && (all.worst == nullptr || point.other->ratio < all.worst->other->ratio))
      all.worst = &point;
    if (point.vendor) logs += std::log(point.vendor->ratio);
    all.with_vendor += point.vendor ? 1 : 0;
  }
  if (all.with_vendor > 0) all.vendor_geomean = std::exp(logs / all.with_vendor);
  return all;
}

inline void print(const Point& point) {
  std::printf("%6lld %5d %12.3f", static_cast<long long>(point.m), point.interval,
              point.seconds * 1e6);
  if (const auto& other = point.other) {
    std::printf(" %12.3f %6d %7.3f %6.3f..%-6.3f", other->seconds * 1e6, other->interval,
                other->ratio, other->low, other->high);
  } else {
    std::printf(" %12s %6s %7s %14s", "-", "-", "-", "-");
  }
  if (const auto& vendor = point.vendor) {
    std::printf(" %12.3f %7.3f", vendor->seconds * 1e6, vendor->ratio);
  } else {
    std::printf(" %12s %7s", "-", "-");
  }
  std::printf("%s\n", point.slower() ? "  slower" : "");
  std::fflush(stdout);
}

inline void print(const Summary& all) {
  if (all.worst != nullptr) {
    const Found& other = *all.worst->other;
    std::printf(
        "worst best-other/table: %.3f (%.3f..%.3f) at m=%lld; slower beyond noise at %d of "
        "%d m\n",
        other.ratio, other.low, other.high, static_cast<long long>(all.worst->m), all.slower,
        all.compared);
  } else {
    std::printf("no other interval's candidate can compute any of these m\n");
  }
  if (all.with_vendor > 0) {
    std::printf("vendor best/table: geometric mean %.3f over %d m\n", all.vendor_geomean,
                all.with_vendor);
  } else {
    std::printf("no vendor's plan to compare with\n");
  }
}

inline std::string json(const char* name, const std::optional<Found>& found) {
  if (!found) return text(", \"%s\": null", name);
  std::string out =
      text(", \"%s\": {\"us\": %.4f, \"ratio\": %.4f, \"ratio_interval\": [%.4f, %.4f]", name,
           found->seconds * 1e6, found->ratio, found->low, found->high);
  if (found->interval >= 0) out += text(", \"interval\": %d", found->interval);
  return out + ", \"candidate\": " + bench::quoted(found->candidate) + "}";
}

inline std::string json(const Point& point) {
  return text("{\"m\": %lld, \"interval\": %d, \"table_us\": %.4f", static_cast<long long>(point.m),
              point.interval, point.seconds * 1e6) +
         json("best_other", point.other) + json("vendor_best", point.vendor) +
         json("vendor_default", point.vendor_default) +
         text(", \"largest_difference\": %.3g, \"checked_against\": ", point.error) +
         bench::quoted(point.checked_against) + "}";
}

inline std::string json(const Options& options, const culet::Tuner& tuner, const Problem& problem,
                        const culet::PlanTable& table, double tuned,
                        const std::vector<Point>& points) {
  const Summary all = summarise(points);
  std::string out = "{\"command\": " + bench::quoted(options.command) +
                    ",\n \"problem\": " + bench::quoted(problem.text()) +
                    ",\n \"device\": " + bench::quoted(tuner.device().identity()) +
                    text(",\n \"rounds\": %d, \"top\": %d, \"tune_seconds\": %.2f", options.rounds,
                         options.top, tuned) +
                    text(", \"compiled\": %lld", static_cast<long long>(tuner.counts().compiled)) +
                    ",\n \"intervals\": [";
  const char* separator = "\n  ";
  for (const auto& [range, plan] : table.intervals()) {
    out +=
        separator +
        text("{\"low\": %lld, \"high\": %lld, \"candidate\": ", static_cast<long long>(range.low),
             static_cast<long long>(range.high)) +
        bench::quoted(plan.candidate().text()) + "}";
    separator = ",\n  ";
  }
  out += "],\n \"points\": [";
  separator = "\n  ";
  for (const Point& point : points) {
    out += separator + json(point);
    separator = ",\n  ";
  }
  out += text(
      "],\n \"worst_ratio\": %s, \"slower\": %d, \"vendor_geomean\": %s, "
      "\"largest_difference\": %.3g}\n",
      all.worst ? text("%.4f", all.worst->other->ratio).c_str() : "null", all.slower,
      all.with_vendor > 0 ? text("%.4f", all.vendor_geomean).c_str() : "null", all.largest_error);
  return out;
}

}  // namespace plan_table
