// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What each verb prints and leaves behind, with the backend that is always there, so that the tests
// pass on a machine without any vendor library.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "program.h"

namespace culet::testing_cli {
namespace {

class Verbs : public Cli {};

void expect_report(const nlohmann::json& root, std::size_t reports) {
  ASSERT_FALSE(root.is_discarded());
  EXPECT_EQ(root["schema"], 1);
  EXPECT_TRUE(root["culet"].is_string());
  EXPECT_TRUE(root["device"].is_object());
  EXPECT_TRUE(root["counts"]["compiled"].is_number_integer());
  EXPECT_TRUE(root["counts"]["timed"].is_number_integer());
  ASSERT_EQ(root["reports"].size(), reports);
  for (const auto& report : root["reports"]) {
    for (const char* key : {"problem", "from_cache", "chosen", "why", "seconds", "trials"}) {
      EXPECT_TRUE(report.contains(key)) << key;
    }
    for (const auto& trial : report["trials"]) {
      for (const char* key : {"steps", "estimate_us", "limiter", "outcome", "reason", "median_us",
                              "low_us", "high_us", "error"}) {
        EXPECT_TRUE(trial.contains(key)) << key;
      }
    }
  }
}

TEST_F(Verbs, TuneMeasuresAndTheSecondTimeRemembers) {
  const auto arguments = quick({"tune", "16x24x32:f32", "--format", "json"});
  const Ended first = run(arguments);
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.err, "") << "nothing is shown where nobody watches";
  expect_report(first.json(), 1);
  EXPECT_EQ(first.json()["counts"]["timed"], 1);
  const auto report = first.json()["reports"][0];
  EXPECT_EQ(report["problem"], "16x24x32:f32");
  EXPECT_FALSE(report["from_cache"].get<bool>());
  EXPECT_EQ(report["chosen"]["steps"][0]["backend"], "reference");
  EXPECT_GT(report["chosen"]["median_us"].get<double>(), 0);
  EXPECT_TRUE(report["chosen"]["vs_default"].is_null());

  const Ended second = run(arguments);
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_EQ(second.json()["counts"]["timed"], 0);
  EXPECT_EQ(second.json()["counts"]["compiled"], 0);
  EXPECT_TRUE(second.json()["reports"][0]["from_cache"].get<bool>());
  EXPECT_EQ(second.json()["reports"][0]["chosen"], report["chosen"]);

  auto again = arguments;
  again.emplace_back("--fresh");
  EXPECT_EQ(run(again).json()["counts"]["timed"], 1);
}

TEST_F(Verbs, NothingIsKeptWithoutAStore) {
  const auto arguments = quick({"tune", "8x8x8:f32", "--format", "json", "--cache", "none"});
  EXPECT_EQ(run(arguments).json()["counts"]["timed"], 1);
  EXPECT_EQ(run(arguments).json()["counts"]["timed"], 1);
  EXPECT_FALSE(std::filesystem::exists(file(".cache")));
}

TEST_F(Verbs, EmptySizes) {
  const Ended result =
      run(quick({"tune", "0x8x8:f32", "8x0x8:f32", "8x8x0:f32", "--format", "json"}));
  ASSERT_EQ(result.status, 0) << result.err;
  expect_report(result.json(), 3);
  const auto reports = result.json()["reports"];
  EXPECT_TRUE(reports[0]["chosen"].is_null());  // nothing is launched
  EXPECT_TRUE(reports[1]["chosen"].is_null());
  EXPECT_FALSE(reports[2]["chosen"].is_null());  // k = 0 still writes D
}

TEST_F(Verbs, ShapesAtEachM) {
  write("my.shapes", "16x24x32:f32  # first\n16x8x8:f32\n16x24x32:f32\n");
  const Ended result = run(quick(
      {"tune", "--shapes", file("my.shapes"), "--m", "1,3", "--format", "json", "--no-measure"}));
  ASSERT_EQ(result.status, 0) << result.err;
  std::vector<std::string> problems;
  const auto root = result.json();
  for (const auto& report : root["reports"]) problems.push_back(report["problem"]);
  EXPECT_EQ(problems,
            (std::vector<std::string>{"1x24x32:f32", "3x24x32:f32", "1x8x8:f32", "3x8x8:f32"}));
}

TEST_F(Verbs, FormatsAndFiles) {
  for (const char* format : {"table", "json", "csv", "md"}) {
    const std::string path = file(format);
    const Ended result = run(quick({"tune", "8x8x8:f32", "--format", format, "-o", path}));
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(read(path).find("8x8x8:f32"), std::string::npos) << format;
    EXPECT_EQ(read(path).find('\x1b'), std::string::npos) << "colour in a file";
  }
  EXPECT_TRUE(nlohmann::json::accept(read(file("json"))));
  // What is not a file is written to, not replaced.
  const Ended null = run(quick({"tune", "8x8x8:f32", "-o", "/dev/null"}));
  EXPECT_EQ(null.status, 0) << null.err;
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(Verbs, RankNeedsNoDeviceAndNoStore) {
  const Ended result = run({"rank", "16x4096x4096:bf16", "--device", "h200", "--format", "json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  expect_report(result.json(), 1);
  EXPECT_EQ(result.json()["device"]["architecture"], "sm_90a");
  const auto report = result.json()["reports"][0];
  EXPECT_TRUE(report["chosen"]["median_us"].is_null());
  EXPECT_GT(report["trials"].size(), 10u);
  for (const auto& trial : report["trials"]) EXPECT_EQ(trial["outcome"], "ranked");
  EXPECT_FALSE(std::filesystem::exists(file(".cache")));
}

TEST_F(Verbs, RankCompilesForADeviceThatIsNotHere) {
  const Ended result = run({"rank", "16x4096x4096:bf16", "--device", "h200", "--compile",
                            "--backends", "gemv,sm90_stream", "--top", "2", "--format", "json"});
  if (result.err.find("NVRTC") != std::string::npos) GTEST_SKIP() << result.err;
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("culet: compiled "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(" s of CPU time each"), std::string::npos) << result.err;
  const auto json = result.json();
  EXPECT_GE(json["counts"]["compiled"].get<int>(), 2);
  for (const auto& trial : json["reports"][0]["trials"]) EXPECT_EQ(trial["outcome"], "ranked");
}

TEST_F(Verbs, AnyPositiveTopIsTaken) {
  const auto with = [&](const char* top) {
    return run({"rank", "16x24x32:f32", "--device", "cpu:1", "--backends", "cpu_tile", "--format",
                "json", "--top", top});
  };
  const auto left_out = [](const Ended& result) {
    EXPECT_EQ(result.status, 0) << result.err;
    const auto json = result.json();
    int count = 0;
    for (const auto& trial : json["reports"][0]["trials"])
      count += trial["reason"].is_null() ? 0 : 1;
    return count;
  };
  EXPECT_GT(left_out(with("2")), 0);
  EXPECT_EQ(left_out(with("2147483647")), 0);
  EXPECT_EQ(with("2147483648").status, 2);
}

TEST_F(Verbs, DryRunCountsAndTouchesNothing) {
  const Ended result = run(quick({"tune", "8x8x8:f32", "0x8x8:f32", "--dry-run"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("reference 1 of 1"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("up to 0 compiled and 1 timed"), std::string::npos) << result.out;
  EXPECT_FALSE(std::filesystem::exists(file(".cache")));
}

TEST_F(Verbs, JsonWithoutWhatWasOnlyRanked) {
  const auto tune = [&](std::vector<std::string> more) {
    std::vector<std::string> all{"tune",       "16x24x32:f32",       "--device", "cpu:1",
                                 "--backends", "cpu_tile,reference", "--top",    "2",
                                 "--format"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const auto everything = tune({"json"}).json(), tried = tune({"json", "--trials", "tried"}).json();
  const auto &all = everything["reports"][0], &some = tried["reports"][0];
  std::size_t ranked = 0;
  for (const auto& trial : all["trials"]) ranked += trial["outcome"] == "ranked" ? 1 : 0;
  ASSERT_GE(ranked, 1u);
  EXPECT_EQ(all["trials_left_out"], 0);
  EXPECT_EQ(some["trials_left_out"], ranked);
  EXPECT_EQ(some["trials"].size(), all["trials"].size() - ranked);
  EXPECT_EQ(some["chosen"], all["chosen"]);
  for (const auto& trial : some["trials"]) EXPECT_NE(trial["outcome"], "ranked");
  const auto lines = [](const std::string& text) {
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  };
  EXPECT_EQ(lines(tune({"csv", "--trials", "tried"}).out), 1 + some["trials"].size());
  // The choice is listed also where nothing was tried.
  const auto model = tune({"json", "--trials", "tried", "--no-measure"}).json();
  EXPECT_EQ(model["reports"][0]["trials"].size(), 1u);
  EXPECT_EQ(model["reports"][0]["trials"][0]["steps"], model["reports"][0]["chosen"]["steps"]);
}

TEST_F(Verbs, NoCandidateListsEveryReason) {
  const Ended result = run({"tune", "8x8x8:f32", "--device", "cpu", "--backends", "cublaslt"});
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.err.rfind("culet: error: 8x8x8:f32: ", 0), 0u) << result.err;
  EXPECT_NE(result.err.find("  reference: "), std::string::npos) << result.err;
}

TEST_F(Verbs, ADisabledCuletUsesVendorsOnly) {
  const Ended result =
      run({"tune", "8x8x8:f32", "--device", "cpu", "--format", "json"}, {{"CULET_DISABLE", "1"}});
  if (result.status == 3) GTEST_SKIP() << "no vendor library here: " << result.err;
  ASSERT_EQ(result.status, 0) << result.err;
  const auto report = result.json()["reports"][0];
  for (const auto& trial : report["trials"]) {
    EXPECT_TRUE(trial["estimate_us"].is_null());  // ranked, hence no vendor's
  }
  EXPECT_EQ(result.json()["counts"]["compiled"], 0);
}

TEST_F(Verbs, List) {
  const Ended all = run({"list"});
  EXPECT_EQ(all.status, 0);
  for (const char* name : {"cublaslt", "sm90_dense", "simt", "cpu_tile", "reference"}) {
    EXPECT_NE(all.out.find(name), std::string::npos) << name;
  }
  const Ended why = run({"list", "100x101x103:bf16", "--why", "--device", "h200"});
  EXPECT_EQ(why.status, 0) << why.err;
  EXPECT_NE(why.out.find("sm90_dense"), std::string::npos);
  EXPECT_NE(why.out.find("16 bytes"), std::string::npos) << "the rule it refuses by:\n" << why.out;
}

TEST_F(Verbs, BenchTimesWhatIsNamed) {
  const Ended ranked =
      run({"rank", "8x8x8:f32", "--device", "cpu:1", "--backends", "reference", "--format", "csv"});
  ASSERT_EQ(ranked.status, 0) << ranked.err;
  const std::size_t begin = ranked.out.find("reference{");
  ASSERT_NE(begin, std::string::npos) << ranked.out;
  const std::string candidate = ranked.out.substr(begin, ranked.out.find('}', begin) + 1 - begin);
  const Ended result = run(
      {"bench", "8x8x8:f32", "--device", "cpu:1", "--candidate", candidate, "--format", "json"});
  ASSERT_EQ(result.status, 0) << result.err;
  bool timed = false;
  const auto report = result.json()["reports"][0];
  for (const auto& trial : report["trials"]) {
    timed |= trial["steps"][0]["backend"] == "reference" && trial["outcome"] == "measured";
  }
  EXPECT_TRUE(timed);
}

TEST_F(Verbs, ExplainShowsEverythingAndHowToRepeatIt) {
  const Ended result = run(quick({"explain", "8x8x8:f32"}));
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* part : {"chosen", "why", "estimate us", "refused", "Model: estimates are",
                           "culet bench 8x8x8:f32 --candidate 'reference{", "--device cpu:1"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
}

TEST_F(Verbs, Cache) {
  ASSERT_EQ(run(quick({"tune", "8x8x8:f32"})).status, 0);
  const Ended path = run({"cache", "path"});
  EXPECT_EQ(path.out, file(".cache/culet/culet.sqlite") + "\n");
  EXPECT_NE(run({"cache", "ls"}).out.find("8x8x8:f32"), std::string::npos);
  const Ended show = run({"cache", "show", "8x8x8:f32"});
  EXPECT_EQ(show.status, 0);
  EXPECT_NE(show.out.find("measured"), std::string::npos) << show.out;
  expect_error(run({"cache", "show", "9x9x9:f32"}), 6, "nothing is stored for 9x9x9:f32");
  const Ended verify = run({"cache", "verify"});
  EXPECT_EQ(verify.status, 0);
  EXPECT_NE(verify.out.find("1 trials, 1 selections: all whole"), std::string::npos) << verify.out;
  const Ended measurements = run({"cache", "clear", "--measurements"});
  EXPECT_EQ(measurements.out,
            "Deleted 1 trials and 1 selections from " + file(".cache/culet/culet.sqlite") + "\n");
  ASSERT_EQ(run(quick({"tune", "8x8x8:f32"})).status, 0);
  EXPECT_EQ(run({"cache", "clear"}).status, 0);
  EXPECT_NE(run({"cache", "ls"}).out.find("No selections"), std::string::npos);
}

TEST_F(Verbs, DoctorSaysWhatIsThereAndWhatIsNot) {
  const Ended result = run({"doctor"}, {{"CULET_THREADS", "1"}});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* part : {"culet 0", "cpu", "NVRTC", "cuBLASLt", "OpenBLAS", "oneDNN", "C++",
                           ".cache/culet/culet.sqlite", "CULET_THREADS", "CULET_BACKENDS"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
}

TEST_F(Verbs, HelpOfEveryVerbHasExamples) {
  for (const char* verb : {"tune", "rank", "list", "bench", "explain", "cache", "pin", "deny",
                           "forget", "compare", "doctor"}) {
    const Ended result = run({verb, "--help"});
    EXPECT_EQ(result.status, 0) << verb;
    EXPECT_EQ(result.err, "");
    const std::string example = std::string("\n  culet ") + verb;
    EXPECT_NE(result.out.find("Examples:" + example), std::string::npos) << result.out;
  }
  EXPECT_EQ(run({"--help"}).status, 0);
  EXPECT_EQ(run({"--version"}).out.rfind("culet ", 0), 0u);
  const Ended nothing = run({});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_NE(nothing.err.find("Usage: culet"), std::string::npos);
}

std::vector<std::string> many_problems() {
  std::vector<std::string> arguments{"tune", "--format", "json"};
  for (int i = 0; i < 60; ++i) arguments.push_back(std::to_string(8 + i) + "x8x8:f32");
  return quick(arguments);
}

TEST_F(Verbs, ABudgetEndsTheRunWithWhatWasFound) {
  auto arguments = many_problems();
  arguments.insert(arguments.end(), {"--budget", "1"});
  const Ended result = run(arguments);
  EXPECT_EQ(result.status, 124) << result.err;
  EXPECT_NE(result.err.find("--budget 1: used up after"), std::string::npos) << result.err;
  const auto reports = result.json()["reports"];
  EXPECT_GT(reports.size(), 0u);
  EXPECT_LT(reports.size(), 60u);
}

TEST_F(Verbs, AnInterruptKeepsWhatWasFinished) {
  const Ended result = run_and_interrupt(many_problems(), 1.5, 1);
  EXPECT_EQ(result.status, 130) << result.err;
  EXPECT_NE(result.err.find("interrupted after"), std::string::npos) << result.err;
  const auto root = result.json();
  ASSERT_FALSE(root.is_discarded()) << result.out;
  ASSERT_GT(root["reports"].size(), 0u);
  EXPECT_LT(root["reports"].size(), 60u);
  // A finished trial is in the store: the same run finds it there.
  const std::string first = root["reports"][0]["problem"];
  const Ended again = run(quick({"tune", first, "--format", "json"}));
  EXPECT_EQ(again.json()["counts"]["timed"], 0) << again.out;
}

TEST_F(Verbs, AClosedTerminalIsAnInterrupt) {
  const Ended result = run_and_interrupt(many_problems(), 1.5, 1, SIGHUP);
  EXPECT_EQ(result.status, 130) << result.err;
  EXPECT_NE(result.err.find("interrupted after"), std::string::npos) << result.err;
}

TEST_F(Verbs, ASecondInterruptEndsAtOnce) {
  const Ended result = run_and_interrupt(many_problems(), 1.0, 2);
  EXPECT_EQ(result.status, 130);
  EXPECT_EQ(run({"cache", "verify"}).status, 0);
}

}  // namespace
}  // namespace culet::testing_cli
