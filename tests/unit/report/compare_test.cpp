// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Verdicts over reports written by hand; tests/cli compares reports that the program wrote.
#include "culet/compare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

namespace culet {
namespace {

/// A problem's report with a choice of these times in microseconds.
std::string one(const std::string& problem, double low, double median, double high,
                const std::string& backend = "family", bool from_cache = false) {
  const std::string steps = fmt::format(
      R"([{{"backend": "{}", "config": {{"tile": "8x8", "n": 3}}, "part": "all"}}])", backend);
  return fmt::format(
      R"({{"problem": "{0}", "from_cache": {5}, "chosen": {{"steps": {1}, "median_us": {3}}},
 "trials": [{{"steps": [], "low_us": 0.5, "high_us": 9999}},
            {{"steps": {1}, "low_us": {2}, "median_us": {3}, "high_us": {4}}}]}})",
      problem, steps, low, median, high, from_cache);
}
std::string without_choice(const std::string& problem) {
  return fmt::format(R"({{"problem": "{}", "from_cache": false, "chosen": null, "trials": []}})",
                     problem);
}
std::string root(const std::vector<std::string>& reports, const std::string& device = "GPU") {
  return fmt::format(R"({{"schema": 1, "device": {{"name": "{}"}}, "reports": [{}]}})", device,
                     fmt::join(reports, ", "));
}

Comparison compared(const std::string& before, const std::string& after, double slack = 0.02) {
  auto result = compare_reports({before, "old.json"}, {after, "new.json"}, slack);
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().message);
  return result ? *result : Comparison{};
}
Verdict verdict(const std::string& before, const std::string& after, double slack = 0.02) {
  const Comparison comparison = compared(root({before}), root({after}), slack);
  EXPECT_EQ(comparison.problems.size(), 1u);
  return comparison.problems.front().verdict;
}

TEST(Compare, BothSizeAndIntervalHaveToSpeakForADifference) {
  const std::string base = one("p", 9.9, 10, 10.1);
  EXPECT_EQ(verdict(base, base), Verdict::same);
  EXPECT_EQ(verdict(base, one("p", 10.3, 10.4, 10.5)), Verdict::slower);
  EXPECT_EQ(verdict(base, one("p", 10.3, 10.4, 10.5), 0.05), Verdict::same) << "within the slack";
  EXPECT_EQ(verdict(base, one("p", 10.0, 10.4, 10.9)), Verdict::same) << "intervals overlap";
  EXPECT_EQ(verdict(base, one("p", 10.11, 10.15, 10.2)), Verdict::same) << "real, but small";
  EXPECT_EQ(verdict(base, one("p", 9.4, 9.5, 9.6)), Verdict::faster);
  EXPECT_EQ(verdict(base, one("p", 9.4, 9.5, 9.95)), Verdict::same);
  EXPECT_EQ(verdict(one("p", 9, 10, 20), one("p", 14, 15, 16)), Verdict::same) << "noisy before";
}

TEST(Compare, ProblemsOfOneReportOnly) {
  const std::string p = one("p", 9, 10, 11);
  EXPECT_EQ(verdict(p, without_choice("p")), Verdict::lost);
  EXPECT_EQ(verdict(without_choice("p"), p), Verdict::found);
  EXPECT_EQ(verdict(without_choice("p"), without_choice("p")), Verdict::none);
  const Comparison comparison =
      compared(root({p, one("q", 1, 2, 3)}), root({one("r", 1, 2, 3), one("q", 1, 2, 3)}));
  ASSERT_EQ(comparison.problems.size(), 3u);
  EXPECT_EQ(comparison.problems[0].verdict, Verdict::missing);
  EXPECT_EQ(comparison.problems[1].verdict, Verdict::same);
  EXPECT_EQ(comparison.problems[2].verdict, Verdict::added);
  EXPECT_EQ(comparison.problems[2].problem, "r");
  EXPECT_FALSE(comparison.regressed()) << "what was not run again is not slower";
  EXPECT_TRUE(compared(root({p}), root({without_choice("p")})).regressed());
  EXPECT_FALSE(compared(root({}), root({})).regressed());
}

TEST(Compare, MeanNotesAndViews) {
  const Comparison comparison =
      compared(root({one("p", 9.9, 10, 10.1), one("q", 9.9, 10, 10.1)}),
               root({one("p", 19, 20, 21, "other"), one("q", 4.9, 5, 5.1)}, "GPU 2"));
  EXPECT_NEAR(*comparison.mean_ratio(), 1, 1e-12);
  EXPECT_TRUE(comparison.regressed());
  ASSERT_EQ(comparison.notes.size(), 1u);
  EXPECT_EQ(comparison.problems[0].choice_after, "other{tile=8x8 n=3}");
  EXPECT_EQ(render(comparison, ReportFormat::table),
            "problem  old us  new us  new/old  verdict  choice\n"
            "-------  ------  ------  -------  -------  ---------------\n"
            "p         10.00   20.00    2.000  slower   family -> other\n"
            "q         10.00   5.000    0.500  faster   same\n"
            "\n"
            "1 slower, 1 faster; geometric mean of new / old 1.000 (slack 2 %)\n"
            "Note: the reports are of different devices: 'GPU' and 'GPU 2'\n");
  const auto json = nlohmann::json::parse(render(comparison, ReportFormat::json));
  EXPECT_EQ(json["regressed"], true);
  EXPECT_EQ(json["counts"]["slower"], 1);
  EXPECT_EQ(json["problems"][0]["verdict"], "slower");
  EXPECT_EQ(json["problems"][0]["new_us"], 20.0);
  EXPECT_EQ(json["problems"][0]["ratio"], 2.0);
  const std::string stored = root({one("p", 1, 2, 3, "family", true)});
  EXPECT_EQ(compared(stored, stored).notes.size(), 1u) << "the newer one says nothing new";
}

TEST(Compare, WhatIsNoReportIsNamed) {
  const std::string good = root({one("p", 1, 2, 3)});
  const auto message = [&](const std::string& text) {
    const auto result = compare_reports({good, "old.json"}, {text, "new.json"});
    EXPECT_FALSE(result.has_value()) << text;
    return result ? std::string() : result.error().message;
  };
  EXPECT_EQ(message("{\n]"), "new.json: line 2, column 1: this is not JSON");
  EXPECT_EQ(message("[]").find("new.json: no report of `culet tune --format json`: "), 0u);
  EXPECT_EQ(message(R"({"reports": []})").find("new.json: no report"), 0u);
  EXPECT_NE(message(R"({"schema": 2, "reports": []})").find("schema 2 is not 1"),
            std::string::npos);
  EXPECT_EQ(message(R"({"schema": 1, "device": null, "reports": [3]})").find("new.json: no report"),
            0u);
  EXPECT_EQ(message(R"({"schema": 1, "device": 3, "reports": []})").find("new.json: no report"),
            0u);
}

TEST(Compare, DeepAndWideJsonIsRefused) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  std::string wide;
  for (int i = 0; i < 300; ++i) wide += fmt::format("\"k{}\": 1, ", i);
  const std::string good = root({one("p", 1, 2, 3)});
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const auto result = compare_reports({good, "old.json"}, {text, "new.json"});
    EXPECT_FALSE(result.has_value());
    return result ? std::string() : result.error().message;
  };
  // A schema that is printed, a value of a choice that is printed, steps that are compared.
  EXPECT_EQ(message("\"schema\": 1", "\"schema\": " + deep),
            "new.json: line 1, column 111: nested more than 100 deep");
  EXPECT_NE(message("\"n\": 3", "\"n\": " + deep).find("nested more than 100 deep"),
            std::string::npos);
  EXPECT_NE(message("\"steps\": []", "\"steps\": " + deep).find("nested more than 100 deep"),
            std::string::npos);
  EXPECT_NE(message("\"n\": 3", wide + "\"n\": 3").find("an object of more than 256 names"),
            std::string::npos);
}

TEST(Compare, TimesAtTheEndsOfWhatANumberHolds) {
  const auto at = [](double us) { return root({one("p", us, us, us)}); };
  const auto problem = [](const Comparison& comparison) {
    return nlohmann::json::parse(render(comparison, ReportFormat::json))["problems"][0];
  };
  const auto small = problem(compared(at(1e-308), at(1e-308)));
  EXPECT_NEAR(small["new_us"].get<double>() / 1e-308, 1, 1e-5);
  EXPECT_EQ(small["ratio"], 1);
  const auto both = problem(compared(at(1e-308), at(1e308)));
  EXPECT_TRUE(both["ratio"].is_null()) << both["ratio"] << ": more than a number holds";
  EXPECT_EQ(both["verdict"], "slower");
}

TEST(Compare, ReportsOfManyProblems) {
  constexpr int kCount = 100'000;
  std::vector<std::string> reports;
  for (int i = 0; i < kCount; ++i) reports.push_back(without_choice(fmt::format("{:08}", i)));
  const std::string all = root(reports);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(compared(all, all).count(Verdict::none), kCount);
  // Looking each up from the front takes half a minute and more.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
}

}  // namespace
}  // namespace culet
