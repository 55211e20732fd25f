// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// --log and CULET_LOG: a run as JSON lines, or an error before anything is tuned.
#include <filesystem>
#include <sstream>

#include "program.h"

namespace culet::testing_cli {
namespace {

class RunLogCli : public Cli {
 protected:
  std::vector<nlohmann::json> events() const {
    std::vector<nlohmann::json> all;
    std::istringstream lines(read(file("runs.jsonl")));
    for (std::string line; std::getline(lines, line);)
      all.push_back(nlohmann::json::parse(line, nullptr, false));
    for (const auto& event : all) EXPECT_TRUE(event.is_object());
    return all;
  }
  /// The kinds of events in order, "+" between them.
  static std::string kinds(const std::vector<nlohmann::json>& events) {
    std::string text;
    for (const auto& event : events) {
      if (!text.empty()) text += "+";
      text += event["event"].get<std::string>();
    }
    return text;
  }
};

TEST_F(RunLogCli, ARunFromStartToEndAndAnotherBehindIt) {
  const auto arguments = quick({"tune", "8x8x8:f32", "--log", file("runs.jsonl")});
  const Ended first = run(arguments);
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.err, "");
  auto all = events();
  ASSERT_EQ(kinds(all), "run_started+problem_started+trial+chosen+run_finished");
  EXPECT_EQ(all[0]["arguments"], nlohmann::json(arguments));
  EXPECT_EQ(all[0]["device"]["kind"], "cpu");
  EXPECT_EQ(all[0]["backends"].size(), 1u);
  EXPECT_EQ(all[2]["outcome"], "measured");
  EXPECT_GT(all[2]["median_us"].get<double>(), 0);
  EXPECT_EQ(all[3]["candidate"], all[2]["candidate"]);
  EXPECT_FALSE(all[3]["from_cache"].get<bool>());
  EXPECT_EQ(all[4]["status"], 0);
  EXPECT_EQ(all[4]["timed"], 1);

  ASSERT_EQ(run(arguments).status, 0);
  all = events();
  ASSERT_EQ(kinds(all),
            "run_started+problem_started+trial+chosen+run_finished+"
            "run_started+problem_started+chosen+run_finished");
  EXPECT_TRUE(all[7]["from_cache"].get<bool>());
  EXPECT_NE(all[0]["run"], all[5]["run"]);
}

TEST_F(RunLogCli, WhatTheStoreWarnsOfIsLoggedToo) {
  std::filesystem::create_directories(file("store"));
  write("store/culet.sqlite", "this is not a database");
  const auto arguments =
      quick({"tune", "8x8x8:f32", "--cache", file("store"), "--log", file("runs.jsonl")});
  // A worker whose start takes the store away.
  write("worker", "#!/bin/sh\nrm -f '" + file("store/culet.sqlite") + "'\nexec '" +
                      CULET_PROGRAM "' \"$@\"\n");
  std::filesystem::permissions(file("worker"), std::filesystem::perms::owner_all);
  const Ended ended = run(arguments, {{"CULET_WORKER", file("worker")}});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const auto all = events();
  ASSERT_EQ(kinds(all), "run_started+warning+problem_started+trial+chosen+warning+run_finished");
  for (const auto& event : {all[1], all[5]}) {
    const std::string text = event["text"];
    EXPECT_NE(ended.err.find("culet: warning: " + text + "\n"), std::string::npos) << ended.err;
  }
  EXPECT_NE(all[1]["text"].get<std::string>().find("damaged file"), std::string::npos);
  EXPECT_NE(all[5]["text"].get<std::string>().find("was removed"), std::string::npos);
}

TEST_F(RunLogCli, TheVariableAndTheOptionThatReplacesIt) {
  ASSERT_EQ(run(quick({"bench", "8x8x8:f32"}), {}).status, 2) << "bench takes no --backends";
  const std::map<std::string, std::string> variable{{"CULET_LOG", file("runs.jsonl")}};
  ASSERT_EQ(run({"bench", "8x8x8:f32", "--device", "cpu:1"}, variable).status, 0);
  auto all = events();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0]["environment"]["CULET_LOG"], file("runs.jsonl"));
  EXPECT_EQ(all.back()["event"], "run_finished");
  const std::size_t before = all.size();
  ASSERT_EQ(run(quick({"explain", "9x8x8:f32"}), variable).status, 0);
  EXPECT_GT(events().size(), before);
  const std::size_t then = events().size();
  ASSERT_EQ(run(quick({"tune", "8x8x8:f32", "--log", file("other")}), variable).status, 0);
  EXPECT_EQ(events().size(), then);
  EXPECT_NE(read(file("other")), "");
  // What tries nothing out logs nothing.
  ASSERT_EQ(run({"rank", "8x8x8:f32", "--device", "cpu:1"}, variable).status, 0);
  ASSERT_EQ(run(quick({"tune", "8x8x8:f32", "--dry-run"}), variable).status, 0);
  EXPECT_EQ(events().size(), then);
}

TEST_F(RunLogCli, FailuresAreInIt) {
  const Ended none = run({"tune", "8x8x8:f32", "--device", "cpu", "--backends", "cublaslt", "--log",
                          file("runs.jsonl")});
  EXPECT_EQ(none.status, 3);
  const auto all = events();
  ASSERT_EQ(kinds(all), "run_started+problem_started+problem_failed+run_finished");
  EXPECT_EQ(all[2]["status"], 3);
  EXPECT_NE(all[2]["detail"].get<std::string>().find("reference: "), std::string::npos);
  EXPECT_EQ(all[3]["status"], 3);
}

TEST_F(RunLogCli, AnInterruptedRunSaysSo) {
  std::vector<std::string> arguments{"tune", "--log", file("runs.jsonl")};
  for (int i = 0; i < 60; ++i) arguments.push_back(std::to_string(8 + i) + "x8x8:f32");
  EXPECT_EQ(run_and_interrupt(quick(arguments), 1.5, 1).status, 130);
  const auto all = events();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back()["event"], "run_finished");
  EXPECT_EQ(all.back()["status"], 130);
}

TEST_F(RunLogCli, APlaceThatCannotBeWrittenEndsBeforeAnythingIsTuned) {
  const std::string nowhere = file("no/such/file");
  expect_error(run(quick({"tune", "8x8x8:f32", "--log", nowhere})), 6,
               "--log: cannot write '" + nowhere + "': No such file or directory");
  expect_error(run(quick({"tune", "8x8x8:f32"}), {{"CULET_LOG", folder_}}), 6,
               "CULET_LOG: cannot write '" + folder_ + "': Is a directory");
  EXPECT_FALSE(std::filesystem::exists(file(".cache")));
  expect_error(run(quick({"tune", "8x8x8:f32", "--log", "/dev/full"})), 6,
               "cannot write '/dev/full': No space left on device");
  expect_error(run(quick({"tune", "8x8x8:f32", "--log", ""})), 2, "--log: the value is empty");
}

TEST_F(RunLogCli, AReportDoesNotTakeItsPlace) {
  const std::string log = file("runs.jsonl");
  ASSERT_EQ(run(quick({"tune", "8x8x8:f32", "--log", log})).status, 0);
  const std::string before = read(log);
  expect_error(run(quick({"tune", "8x8x8:f32", "-o", log}), {{"CULET_LOG", log}}), 2,
               "--output: '" + log + "' is the log");
  EXPECT_EQ(read(log), before);
}

}  // namespace
}  // namespace culet::testing_cli
