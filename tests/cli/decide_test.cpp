// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// pin, deny and forget: what they change of a tuning run, and that taking them back leaves no
// trace.
#include <filesystem>

#include "program.h"

namespace culet::testing_cli {
namespace {

class Decide : public Cli {
 protected:
  static constexpr const char* kProblem = "16x24x32:f32";
  /// Two own backends that need no vendor library: simple kernels from source and the reference.
  Ended tune(std::vector<std::string> more = {}) {
    std::vector<std::string> all{
        "tune",  kProblem, "--device", "cpu:1", "--backends", "cpu_tile,reference",
        "--top", "2",      "--format", "json"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  static std::string backend(const Ended& run) {
    return run.json()["reports"][0]["chosen"]["steps"][0]["backend"];
  }
  static std::string why(const Ended& run) { return run.json()["reports"][0]["why"]; }
  /// Columns of any width.
  static std::string one_blank(const std::string& text) {
    std::string out;
    for (const char c : text) {
      if (c != ' ' || out.empty() || out.back() != ' ') out += c;
    }
    return out;
  }
  static constexpr const char* kReference = "reference{}";
  /// The reference as reports print it.
  std::string reference() {
    const Ended ranked =
        run({"rank", kProblem, "--device", "cpu:1", "--backends", "reference", "--format", "csv"});
    const std::size_t begin = ranked.out.find("reference{");
    return ranked.out.substr(begin, ranked.out.find('}', begin) + 1 - begin);
  }
};

TEST_F(Decide, APinIsVerifiedTimedAndChosenAndLeavesNoTrace) {
  const Ended before = tune();
  ASSERT_EQ(before.status, 0) << before.err;
  if (backend(before) != "cpu_tile") GTEST_SKIP() << "no kernel of our own here";
  EXPECT_EQ(run({"pin"}).out, "Nothing is pinned.\n");
  const Ended pin = run({"pin", kProblem, reference(), "--device", "cpu:1"});
  ASSERT_EQ(pin.status, 0) << pin.err;
  EXPECT_NE(run({"pin"}).out.find(kProblem), std::string::npos);

  const Ended pinned = tune();
  ASSERT_EQ(pinned.status, 0) << pinned.err;
  EXPECT_EQ(backend(pinned), "reference");
  EXPECT_EQ(why(pinned).find("pinned by the user; without the pin: "), 0u) << why(pinned);
  EXPECT_GE(pinned.json()["counts"]["timed"], 1) << "it is timed, though the fallback";
  const auto pinned_root = pinned.json();
  for (const auto& trial : pinned_root["reports"][0]["trials"]) {
    if (trial["steps"][0]["backend"] != "reference") continue;
    EXPECT_EQ(trial["outcome"], "measured");
    EXPECT_LE(trial["error"], 1) << "it is verified";
  }
  const Ended again = tune();
  EXPECT_EQ(again.json()["counts"]["timed"], 0);
  EXPECT_EQ(backend(again), "reference");

  ASSERT_EQ(run({"pin", kProblem, "--remove"}).status, 0);
  const Ended after = tune();
  EXPECT_EQ(backend(after), "cpu_tile");
  EXPECT_EQ(after.json()["counts"]["timed"], 0);
  expect_error(run({"pin", kProblem, "--remove"}), 6, "nothing is pinned to");
}

TEST_F(Decide, WhatIsDeniedIsListedWithTheReasonAndNotTried) {
  ASSERT_EQ(tune().status, 0);
  const std::string fallback = reference();
  ASSERT_EQ(run({"deny", "cpu_tile"}).status, 0);
  EXPECT_EQ(run({"deny"}).out, "cpu_tile\n");
  const Ended denied = tune();
  ASSERT_EQ(denied.status, 0) << denied.err;
  EXPECT_EQ(backend(denied), "reference");
  bool listed = false;
  const auto denied_root = denied.json();
  for (const auto& trial : denied_root["reports"][0]["trials"]) {
    if (trial["steps"][0]["backend"] != "cpu_tile") continue;
    listed = true;
    EXPECT_EQ(trial["outcome"], "ranked");
    EXPECT_NE(trial["reason"].get<std::string>().find("denied by the user"), std::string::npos);
  }
  EXPECT_TRUE(listed);
  ASSERT_EQ(run({"deny", "reference"}).status, 0);
  const Ended nothing = tune();
  EXPECT_EQ(nothing.status, 3);
  EXPECT_NE(nothing.err.find("reference: denied by the user"), std::string::npos) << nothing.err;
  expect_error(run({"pin", kProblem, fallback, "--device", "cpu:1"}), 2, "is denied");
  ASSERT_EQ(run({"deny", "reference", "--remove"}).status, 0);
  ASSERT_EQ(run({"deny", "cpu_tile", "--remove"}).status, 0);
  const Ended after = tune();
  EXPECT_EQ(after.json()["counts"]["timed"], 0) << "the wide answer is still there";
  EXPECT_EQ(backend(after), "cpu_tile");
  EXPECT_EQ(run({"deny"}).out, "Nothing is denied.\n");
}

TEST_F(Decide, ListAndDryRunShowWhatWasDecided) {
  const auto list = [&](std::vector<std::string> more = {}) {
    std::vector<std::string> all{"list", kProblem, "--device", "cpu:1"};
    all.insert(all.end(), more.begin(), more.end());
    return one_blank(run(all).out);
  };
  const auto dry = [&] {
    return run({"tune", kProblem, "--device", "cpu:1", "--backends", "cpu_tile,reference", "--top",
                "2", "--dry-run"})
        .out;
  };
  const std::string before = list(), dry_before = dry();
  EXPECT_EQ(before.find("user"), std::string::npos) << before;
  EXPECT_EQ(dry_before.find("user"), std::string::npos) << dry_before;
  if (before.find("cpu_tile own yes") == std::string::npos)
    GTEST_SKIP() << "no kernel of our own here";

  const std::string pinned = reference();
  ASSERT_EQ(run({"pin", kProblem, pinned, "--device", "cpu:1"}).status, 0);
  EXPECT_NE(list().find("Pinned by the user: " + pinned), std::string::npos) << list();
  EXPECT_NE(dry().find("reference 1 of 1; pinned " + pinned), std::string::npos) << dry();

  ASSERT_EQ(run({"deny", "cpu_tile"}).status, 0);
  const std::string why = list({"--why"});
  EXPECT_NE(why.find("cpu_tile own denied 0 denied by the user: cpu_tile"), std::string::npos)
      << why;
  EXPECT_NE(list().find("Denied by the user: cpu_tile (culet deny cpu_tile --remove allows it)"),
            std::string::npos);
  EXPECT_NE(run({"list"}).out.find("Denied by the user: cpu_tile"), std::string::npos);
  EXPECT_NE(dry().find("more are denied by the user (culet deny) and left out."),
            std::string::npos);
  EXPECT_EQ(dry().find("cpu_tile"), std::string::npos) << dry();
  ASSERT_EQ(run({"deny", pinned}).status, 0);
  EXPECT_NE(dry().find("all candidates are denied by the user"), std::string::npos) << dry();

  for (const std::string& what : {std::string("cpu_tile"), pinned})
    ASSERT_EQ(run({"deny", what, "--remove"}).status, 0);
  ASSERT_EQ(run({"pin", kProblem, "--remove"}).status, 0);
  EXPECT_EQ(list(), before);
  EXPECT_EQ(dry(), dry_before);
}

TEST_F(Decide, AForgottenProblemIsMeasuredAnew) {
  ASSERT_EQ(run(quick({"tune", "8x8x8:f32", "9x9x9:f32"})).status, 0);
  const Ended forgot = run({"forget", "8x8x8:f32"});
  EXPECT_EQ(forgot.out, "Forgot 2 trials and selections of 8x8x8:f32\n") << forgot.err;
  const Ended again = run(quick({"tune", "8x8x8:f32", "9x9x9:f32", "--format", "json"}));
  EXPECT_EQ(again.json()["counts"]["timed"], 1);
}

TEST_F(Decide, WhatIsWrongIsSaidInOneLine) {
  expect_error(run({"pin", kProblem}), 2, "which candidate?");
  expect_error(run({"pin", kProblem, "nobody{a=1}"}), 2, "unknown backend 'nobody'; known are");
  expect_error(run({"pin", kProblem, "reference{a=1}"}), 2, "is not in the space of");
  expect_error(run({"pin", kProblem, "reference{a=1}"}), 2, "has no key a here, only sum; `culet");
  expect_error(run({"pin", kProblem, "reference{sum=f8}"}), 2, "has no sum=f8 here, only f64; `");
  expect_error(run({"pin", kProblem, "reference{"}), 2, "");
  expect_error(run({"pin", "nonsense", kReference}), 2, "");
  expect_error(run({"pin", "--remove"}), 2, "which problem");
  expect_error(run({"deny", "nobody"}), 2, "unknown backend 'nobody'");
  expect_error(run({"deny", "reference{"}), 2, "");
  expect_error(run({"deny", "reference", "--remove"}), 6, "is not denied");
  expect_error(run({"deny", "reference", "--cache", "none"}), 2, "in memory");
  expect_error(run({"forget", "8x8x8:f32"}), 6, "no store at");
  std::filesystem::create_directories(file("s"));
  write("s/overrides.json", "{ 1");
  expect_error(run(quick({"tune", "8x8x8:f32", "--cache", file("s")})), 2,
               "overrides.json: line 1, column 3: this is not JSON");
}

}  // namespace
}  // namespace culet::testing_cli
