// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// What one store found, used by another: export, import and merge as a user runs them.
#include <filesystem>

#include "program.h"

namespace culet::testing_cli {
namespace {

namespace fs = std::filesystem;

class CacheExchange : public Cli {
 protected:
  /// Two problems on the CPU; by a backend that needs no compiler, or by one that does.
  Ended tune(const std::string& store, const std::string& backends = "reference",
             std::vector<std::string> more = {}) {
    std::vector<std::string> all{"tune",     "16x24x32:f32", "8x40x16:f32", "--device",
                                 "cpu:1",    "--backends",   backends,      "--top",
                                 "2",        "--format",     "json",        "--cache",
                                 file(store)};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  static constexpr const char* kCompiled = "cpu_tile,reference";
  Ended cache(const std::string& verb, const std::string& store, std::vector<std::string> more) {
    more.insert(more.begin(), {"cache", verb});
    more.insert(more.end(), {"--cache", file(store)});
    return run(more);
  }
  static std::vector<nlohmann::json> choices(const Ended& run) {
    std::vector<nlohmann::json> list;
    const auto root = run.json();
    for (const auto& report : root["reports"]) list.push_back(report["chosen"]);
    return list;
  }
};

TEST_F(CacheExchange, AnotherStoreCompilesAndTimesNothingAndChoosesTheSame) {
  const Ended first = tune("a", kCompiled);
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_GT(first.json()["counts"]["timed"], 0);
  const auto compiled = first.json()["counts"]["compiled"];
  const std::string exported = file("tuned.json");
  const Ended out = cache("export", "a", {"-o", exported, "--code"});
  ASSERT_EQ(out.status, 0) << out.err;
  EXPECT_NE(out.out.find("and 2 selections to " + exported), std::string::npos) << out.out;
  ASSERT_TRUE(fs::exists(exported + ".code.sqlite"));

  const Ended in = cache("import", "b", {exported, "--allow-code"});
  ASSERT_EQ(in.status, 0) << in.err;
  EXPECT_EQ(in.err, "");
  EXPECT_NE(in.out.find("and 2 selections from"), std::string::npos) << in.out;
  EXPECT_EQ(in.out.find("Skipped"), std::string::npos) << in.out;
  const Ended second = tune("b", kCompiled);
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_EQ(second.json()["counts"]["timed"], 0);
  EXPECT_EQ(second.json()["counts"]["compiled"], 0);
  // The times went through twelve digits; the report has six.
  EXPECT_EQ(choices(second), choices(first));

  // The code serves, too: what is timed anew is not compiled anew. The CPU's model measures the
  // machine, so a candidate may enter the shortlist that was not on it before.
  const Ended fresh = tune("b", kCompiled, {"--fresh"});
  EXPECT_GT(fresh.json()["counts"]["timed"], 0);
  EXPECT_LE(fresh.json()["counts"]["compiled"].get<int>(), compiled.get<int>() / 2);
}

TEST_F(CacheExchange, ExportImportExportIsByteIdentical) {
  ASSERT_EQ(tune("a").status, 0);
  const Ended out = cache("export", "a", {});
  ASSERT_EQ(out.status, 0) << out.err;
  write("f.json", out.out);
  ASSERT_EQ(cache("import", "b", {file("f.json")}).status, 0);
  EXPECT_EQ(cache("export", "b", {}).out, out.out);
  const Ended again = cache("import", "b", {file("f.json")});
  EXPECT_NE(again.out.find("0 trials and 0 selections"), std::string::npos) << again.out;
  const Ended one = cache("export", "a", {"8x40x16:f32"});
  EXPECT_EQ(one.json()["selections"].size(), 1u) << one.err;
  EXPECT_EQ(one.json()["selections"][0]["problem"], "8x40x16:f32");
}

TEST_F(CacheExchange, CodeOfAnotherStoreIsRefusedInOneLine) {
  const Ended first = tune("a", kCompiled);
  if (first.json()["counts"]["compiled"] == 0) GTEST_SKIP() << "no compiler here";
  ASSERT_EQ(cache("export", "a", {"-o", file("f.json"), "--code"}).status, 0);
  const Ended in = cache("import", "b", {file("f.json")});
  EXPECT_EQ(in.status, 0);
  EXPECT_NE(in.err.find("refused: another store made the code"), std::string::npos) << in.err;
  EXPECT_EQ(in.err.find('\n'), in.err.size() - 1) << in.err;
  EXPECT_GT(tune("b", kCompiled, {"--fresh"}).json()["counts"]["compiled"], 0);
}

TEST_F(CacheExchange, AnotherDriverIsSkippedOrRelaxed) {
  ASSERT_EQ(tune("a").status, 0);
  std::string text = cache("export", "a", {}).out;
  const std::string from = "|1 threads|", to = "|1 threads|other ";
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1)) {
    text.replace(at, from.size(), to);
  }
  write("f.json", text);
  const Ended exact = cache("import", "b", {file("f.json")});
  EXPECT_EQ(exact.status, 0) << exact.err;
  EXPECT_NE(exact.out.find("Imported 0 trials and 0 selections"), std::string::npos) << exact.out;
  EXPECT_NE(exact.out.find("(--relax driver takes them)"), std::string::npos) << exact.out;
  EXPECT_GT(tune("b").json()["counts"]["timed"], 0);
  ASSERT_EQ(cache("import", "c", {file("f.json"), "--relax", "driver"}).status, 0);
  EXPECT_EQ(tune("c").json()["counts"]["timed"], 0);
  ASSERT_EQ(cache("import", "d", {file("f.json"), "--any"}).status, 0);
  EXPECT_EQ(cache("export", "d", {}).out, text);
}

TEST_F(CacheExchange, MergeTakesTheUnion) {
  ASSERT_EQ(run(quick({"tune", "8x8x8:f32", "--cache", file("a")})).status, 0);
  ASSERT_EQ(run(quick({"tune", "9x9x9:f32", "--cache", file("b")})).status, 0);
  const Ended merged = cache("merge", "c", {file("a"), file("b")});
  ASSERT_EQ(merged.status, 0) << merged.err;
  const auto root = cache("export", "c", {}).json();
  EXPECT_EQ(root["trials"].size(), 2u);
  EXPECT_EQ(root["selections"].size(), 2u);
  EXPECT_EQ(cache("verify", "c", {}).status, 0);
  expect_error(cache("merge", "c", {file("c")}), 2, "is the store itself");
  expect_error(cache("merge", "c", {file("nowhere")}), 6, "no store at");
}

TEST_F(CacheExchange, WhatIsWrongIsSaidInOneLineAndNothingIsKept) {
  ASSERT_EQ(tune("a").status, 0);
  const std::string text = cache("export", "a", {}).out;
  write("cut.json", text.substr(0, text.size() / 2));
  std::string last = text;
  const std::size_t at = last.rfind("\"why\"");
  write("name.json", last.replace(at, 5, "\"who\""));
  write("list.json", "[]");
  fs::create_directory(file("folder"));
  expect_error(cache("import", "b", {file("cut.json")}), 2, "this is not JSON");
  expect_error(cache("import", "b", {file("name.json")}), 2, "selections[1]: 'why' is missing");
  expect_error(cache("import", "b", {file("list.json")}), 2, "must be an object");
  expect_error(cache("import", "b", {file("missing.json")}), 6, "missing.json");
  expect_error(cache("import", "b", {file("folder")}), 6, "folder");
  expect_error(cache("import", "b", {file("cut.json"), "--relax", "colour"}), 2, "JSON");
  write("whole.json", text);
  expect_error(cache("import", "b", {file("whole.json"), "--relax", "colour"}), 2,
               "--relax: unknown field 'colour'; known are driver");
  expect_error(cache("import", "b", {file("whole.json"), "--allow-code"}), 6, "there is no");
  write("whole.json.code.sqlite", "garbage");
  expect_error(cache("import", "b", {file("whole.json"), "--allow-code"}), 6, "code.sqlite");
  EXPECT_EQ(cache("export", "b", {}).json()["trials"].size(), 0u);
  expect_error(cache("export", "a", {"--code"}), 2, "-o");
  expect_error(cache("export", "a", {"5x5x5:f32"}), 6, "nothing is stored for 5x5x5:f32");
  expect_error(cache("export", "nowhere", {}), 6, "no store at");
  expect_error(run({"cache", "import", file("whole.json"), "--cache", "none"}), 2, "no store");
}

}  // namespace
}  // namespace culet::testing_cli
