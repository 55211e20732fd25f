// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The four views against stored text. A view is an interface, to programs or to people's eyes: a
// change must be meant. CULET_UPDATE_GOLDEN=1 writes the files anew.
#include "culet/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "report/columns.h"

namespace culet {
namespace {

Trial make_trial(const std::string& candidate, double estimate_us, double median_us) {
  Trial trial;
  trial.candidate = Candidate::parse(candidate).value();
  if (estimate_us > 0) trial.estimate = Estimate{estimate_us * 1e-6, Limiter::dram};
  if (median_us > 0) {
    trial.outcome = Outcome::measured;
    trial.timing = Timing{median_us * 1e-6, median_us * 0.99e-6, median_us * 1.02e-6, 9};
    trial.error = 0.125;
  }
  return trial;
}

DeviceSpec device() {
  DeviceSpec spec;
  spec.kind = DeviceKind::cuda;
  spec.present = true;
  spec.name = "Test GPU";
  spec.architecture = "sm_90a";
  spec.units = 132;
  spec.driver = "580.1";
  return spec;
}

/// Everything a report can hold: own and vendor kernels, all outcomes, refusals.
TuneReport full_report() {
  TuneReport report;
  report.problem = Problem::parse("16x4096x4096:bf16").value();
  report.device = device();
  Trial own = make_trial("sm90_dense{tile=64x128x64 cluster=2x1 stages=6}", 9.5, 11.25);
  own.order = 2;
  Trial best = make_trial("cublaslt{algo=66 tile=64x64}", 0, 12.5);
  best.vendor = true;
  best.order = 1;
  Trial first = make_trial("cublaslt{algo=21 tile=128x64}", 0, 13);
  first.vendor = true;
  first.order = 0;
  Trial split = make_trial("sm90_dense{tile=64x64x64}:gemm + pointwise{}:epilogue", 10, 14);
  Trial wrong = make_trial("sm90_dense{tile=64x256x64}", 11, 0);
  wrong.outcome = Outcome::wrong;
  wrong.reason = "D[12,40] of batch 0 is 3.5, should be 7 (tolerance 0.03)";
  wrong.error = 116.7;
  Trial failed = make_trial("sm90_dense{tile=256x256x64}", 12, 0);
  failed.outcome = Outcome::build_failed;
  failed.reason = "error: \"smem\" too large,\nsee the log";
  Trial infinite = make_trial("simt{tile=8x8}", 90, 0);
  infinite.outcome = Outcome::wrong;
  infinite.reason = "D[0,0] is nan";
  infinite.error = std::numeric_limits<double>::infinity();
  Trial ranked = make_trial("simt{tile=16x16}", 100, 0);
  ranked.reason = "ranked below the best 1 of its backend";
  report.trials = {own, best, first, split, wrong, failed, infinite, ranked};
  report.chosen = 0;
  report.why = "10.0% faster than the best vendor plan, beyond the noise";
  report.refusals = {{"cublas_fp8", "A is bf16, not an 8-bit float"}};
  report.rank_seconds = 0.0125;
  report.compile_seconds = 2.5;
  report.benchmark_seconds = 1.25;
  report.verify_seconds = 0.5;
  report.total_seconds = 3.8;
  return report;
}

TuneReport vendor_report() {
  TuneReport report;
  report.problem =
      Problem::parse("512x512x512x8:f16*f16>f32:layout=nt:epi=\"relu(acc + bias[n])\"").value();
  report.device = device();
  Trial vendor = make_trial("cublaslt{algo=1}", 0, 123.4);
  vendor.vendor = true;
  vendor.order = 0;
  report.trials = {vendor, make_trial("simt{tile=16x16}", 100, 1234.5)};
  report.chosen = 0;
  report.why = "no challenger beats the best vendor plan";
  report.from_cache = true;
  report.total_seconds = 0.001;
  return report;
}

TuneReport no_vendor_report() {
  TuneReport report;
  report.problem = Problem::parse("7x9x11:f32").value();
  report.device = device();
  report.trials = {make_trial("simt{tile=8x8}", 2, 2.5)};
  report.chosen = 0;
  report.why = "the only candidate";
  return report;
}

TuneReport empty_report() {
  TuneReport report;
  report.problem = Problem::parse("0x9x11:f32").value();
  report.device = device();
  report.why = "D has no elements: nothing is launched";
  return report;
}

std::vector<TuneReport> all_reports() {
  return {full_report(), vendor_report(), no_vendor_report(), empty_report()};
}

/// The same, nothing measured: what `rank` gives.
std::vector<TuneReport> ranked_reports() {
  TuneReport report = full_report();
  report.device.present = false;
  for (Trial& trial : report.trials) {
    trial.outcome = Outcome::ranked;
    trial.timing.reset();
    trial.reason.clear();
    trial.error = 0;
  }
  report.why = "best by the model; nothing was measured";
  report.compile_seconds = report.benchmark_seconds = report.verify_seconds = 0;
  report.total_seconds = report.rank_seconds;
  return {report};
}

void expect_golden(const std::string& got, const std::string& name) {
  const std::string path = std::filesystem::path(CULET_GOLDEN_DIR) / "report" / name;
  if (std::getenv("CULET_UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    ASSERT_TRUE(write_file_atomically(path, got).has_value());
  }
  const auto wanted = read_file(path);
  ASSERT_TRUE(wanted.has_value()) << wanted.error().message;
  EXPECT_EQ(got, *wanted);
}

const Counts kCounts{5, 6};

TEST(Report, Table) {
  expect_golden(render(all_reports(), kCounts, ReportFormat::table), "all.txt");
  RenderOptions few;
  few.rows = 2;
  expect_golden(render({full_report()}, kCounts, ReportFormat::table, few), "two-rows.txt");
  RenderOptions summary;
  summary.summary_only = true;
  expect_golden(render(all_reports(), kCounts, ReportFormat::table, summary), "summary.txt");
  RenderOptions every;
  every.rows = 0;
  every.details = true;
  every.color = true;
  expect_golden(render({full_report()}, kCounts, ReportFormat::table, every), "color.txt");
  expect_golden(render(ranked_reports(), {}, ReportFormat::table), "ranked.txt");
}

/// The device's fields are another module's, tested there.
std::string without_device(std::string text) {
  const auto begin = text.find(" \"device\": {"), end = text.find(" \"counts\"");
  EXPECT_LT(begin, end);
  return text.replace(begin, end - begin, " \"device\": {},\n");
}

TEST(Report, LongCandidatesShowWhatTheyHaveOtherwise) {
  TuneReport report = full_report();
  const std::string common = " layout_of_shared_memory=swizzled another_parameter=some_value";
  report.trials = {make_trial("long{stages=4 tile=1x2" + common + "}", 1, 2),
                   make_trial("long{stages=4 tile=3x4" + common + "}", 1, 3),
                   make_trial("other{stages=4 tile=3x4" + common + "}", 1, 4)};
  report.chosen = 0;
  const std::string text = render({report}, kCounts, ReportFormat::table);
  EXPECT_NE(text.find("long{.. tile=3x4}"), std::string::npos) << text;
  EXPECT_NE(text.find("other{stages=4 tile=3x4"), std::string::npos) << text;
  RenderOptions all;
  all.details = true;
  EXPECT_EQ(render({report}, kCounts, ReportFormat::table, all).find("{.. "), std::string::npos);
}

TEST(Report, Json) {
  expect_golden(without_device(render(all_reports(), kCounts, ReportFormat::json)), "all.json");
  expect_golden(without_device(render(ranked_reports(), {}, ReportFormat::json)), "ranked.json");
}

TEST(Report, TriedOnly) {
  RenderOptions options;
  options.tried_only = true;
  const auto reports = all_reports();
  const auto root = nlohmann::json::parse(render(reports, kCounts, ReportFormat::json, options));
  const auto& full = root["reports"][0];
  EXPECT_EQ(full["trials"].size(), reports[0].trials.size() - 1);
  EXPECT_EQ(full["trials_left_out"], 1);
  EXPECT_EQ(root["reports"][1]["trials_left_out"], 0);
  const std::string csv = render(reports, kCounts, ReportFormat::csv, options);
  EXPECT_EQ(csv.find(",ranked,"), std::string::npos);
  EXPECT_NE(csv.find(",build_failed,"), std::string::npos) << "what failed was tried";
  // By the model alone, what it chose is left.
  auto ranked = ranked_reports();
  ranked[0].chosen = 3;
  const auto chosen = nlohmann::json::parse(render(ranked, {}, ReportFormat::json, options));
  ASSERT_EQ(chosen["reports"][0]["trials"].size(), 1u);
  EXPECT_EQ(chosen["reports"][0]["trials"][0]["steps"], chosen["reports"][0]["chosen"]["steps"]);
}

TEST(Report, Csv) { expect_golden(render(all_reports(), kCounts, ReportFormat::csv), "all.csv"); }

TEST(Report, Markdown) {
  expect_golden(render(all_reports(), kCounts, ReportFormat::md), "all.md");
}

TEST(Report, TablesFitTheirWidth) {
  std::vector<TuneReport> reports = all_reports();
  Config config;
  for (int i = 0; i < 30; ++i) config.set("parameter" + std::to_string(i), std::int64_t{i});
  reports[0].trials[0].candidate.steps[0].config = config;
  reports[0].trials[5].reason = std::string(500, 'r') + "\nsecond line\x1b[31m";
  reports[0].why = std::string(300, 'w').replace(50, 1, " ").replace(150, 1, " ").substr(0, 200);
  for (const int rows : {0, 1, 8}) {
    RenderOptions options;
    options.rows = rows;
    std::istringstream lines(render(reports, kCounts, ReportFormat::table, options));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 120u) << line;
      EXPECT_EQ(line.find('\x1b'), std::string::npos);
    }
  }
}

TEST(Report, JsonFollowsTheDocumentedForm) {
  const auto root =
      nlohmann::json::parse(render(all_reports(), kCounts, ReportFormat::json), nullptr, false);
  ASSERT_FALSE(root.is_discarded());
  EXPECT_EQ(root["schema"], 1);
  EXPECT_EQ(root["counts"]["compiled"], 5);
  EXPECT_EQ(root["counts"]["timed"], 6);
  EXPECT_TRUE(root["device"].is_object());
  const auto& report = root["reports"][0];
  EXPECT_EQ(report["problem"], "16x4096x4096:bf16");
  EXPECT_NEAR(report["chosen"]["vs_default"].get<double>(), 13 / 11.25, 1e-4);
  EXPECT_NEAR(report["chosen"]["vs_best"].get<double>(), 12.5 / 11.25, 1e-4);
  EXPECT_NEAR(report["chosen"]["median_us"].get<double>(), 11.25, 1e-9);
  EXPECT_NEAR(report["chosen"]["tflops"].get<double>(), 2.0 * 16 * 4096 * 4096 / 11.25e-6 / 1e12,
              1e-3);
  EXPECT_EQ(report["chosen"]["steps"][0]["config"]["stages"], 6);
  EXPECT_EQ(report["chosen"]["steps"][0]["config"]["tile"], "64x128x64");
  EXPECT_EQ(report["chosen"]["steps"][0]["part"], "all");
  EXPECT_EQ(report["trials"].size(), 8u);
  EXPECT_EQ(report["trials"][3]["steps"].size(), 2u);
  EXPECT_TRUE(report["trials"][1]["estimate_us"].is_null());
  EXPECT_TRUE(report["trials"][1]["limiter"].is_null());
  EXPECT_TRUE(report["trials"][5]["median_us"].is_null());
  EXPECT_TRUE(report["trials"][6]["error"].is_null());  // infinite
  EXPECT_EQ(report["refusals"][0]["backend"], "cublas_fp8");
  EXPECT_TRUE(root["reports"][1]["from_cache"].get<bool>());
  EXPECT_TRUE(root["reports"][2]["chosen"]["vs_default"].is_null());
  EXPECT_TRUE(root["reports"][2]["chosen"]["vs_best"].is_null());
  EXPECT_TRUE(root["reports"][3]["chosen"].is_null());
  EXPECT_TRUE(root["reports"][3]["trials"].empty());
}

TEST(Report, JsonSurvivesAnyBytes) {
  TuneReport report = full_report();
  report.trials[5].reason = "\xff\xfe \x01 \"quoted\"";
  report.why = std::string("\0null", 5);
  const auto text = render({report}, kCounts, ReportFormat::json);
  EXPECT_TRUE(nlohmann::json::accept(text));
  EXPECT_TRUE(nlohmann::json::accept(render({}, {}, ReportFormat::json)));
}

TEST(Report, CsvQuotesAndHasTheSameColumnsInEveryLine) {
  const std::string text = render(all_reports(), kCounts, ReportFormat::csv);
  // Counts columns as RFC 4180 has them: a quoted field may hold commas, quotes and line breaks.
  std::vector<int> columns{1};
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == ',') ++columns.back();
    if (c == '\n') columns.push_back(1);
  }
  EXPECT_FALSE(quoted);
  columns.pop_back();
  EXPECT_EQ(columns.size(), 1u + 8 + 2 + 1);
  for (const int count : columns) EXPECT_EQ(count, columns.front());
  EXPECT_NE(text.find("\"error: \"\"smem\"\" too large,\nsee the log\""), std::string::npos);
}

TEST(Report, FormatNames) {
  EXPECT_EQ(parse_report_format("json").value(), ReportFormat::json);
  const auto unknown = parse_report_format("xml");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(unknown.error().message, "unknown format 'xml'; known are table, json, csv, md");
}

TEST(Report, OutcomeNamesParseBack) {
  for (const Outcome outcome : {Outcome::ranked, Outcome::build_failed, Outcome::wrong,
                                Outcome::crashed, Outcome::timed_out, Outcome::measured}) {
    EXPECT_EQ(parse_outcome(to_string(outcome)).value(), outcome);
  }
  EXPECT_FALSE(parse_outcome("fine").has_value());
}

TEST(Report, TheVendorsSecondPlanNeverStandsInForItsDefault) {
  TuneReport report = full_report();
  EXPECT_EQ(report.vendor_default(), &report.trials[2]);
  EXPECT_EQ(report.vendor_best(), &report.trials[1]);
  report.trials[2].outcome = Outcome::crashed;
  report.trials[2].timing.reset();
  EXPECT_EQ(report.vendor_default(), nullptr);
  EXPECT_FALSE(report.vs_default().has_value());
  EXPECT_EQ(report.vendor_best(), &report.trials[1]);
}

TEST(Report, OfSeveralVendorsTheFasterDefaultCounts) {
  TuneReport report = full_report();
  Trial other = make_trial("onednn{}", 0, 12);
  other.vendor = true;
  other.order = 5;
  report.trials.push_back(other);
  EXPECT_EQ(report.vendor_default(), &report.trials.back());
  EXPECT_EQ(report.vendor_best(), &report.trials.back());
}

TEST(Columns, WrapBreaksAtSpaces) {
  EXPECT_EQ(wrapped("aa bb cc", 5, 0, 2), "aa bb\n  cc");
  EXPECT_EQ(wrapped("aaaaaaaa bb", 5, 0, 0), "aaaaaaaa\nbb");
  EXPECT_EQ(wrapped("", 5, 0, 2), "");
  EXPECT_EQ(clipped("one\ntwo   ", 20), "one two");
  EXPECT_EQ(clipped("abcdefgh", 6), "abc...");
}

}  // namespace
}  // namespace culet
