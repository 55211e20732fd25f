// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// `culet compare` over reports that the program wrote, one of them made slower.
#include "program.h"

namespace culet::testing_cli {
namespace {

class Compare : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    const Ended tuned = run(quick({"tune", "8x8x8:f32", "9x9x9:f32", "--format", "json"}));
    ASSERT_EQ(tuned.status, 0) << tuned.err;
    report_ = tuned.json();
    write("old.json", tuned.out);
  }
  /// The report with the times of its first problem changed.
  void write_new(double factor) {
    auto changed = report_;
    auto& first = changed["reports"][0];
    for (auto& trial : first["trials"]) {
      for (const char* name : {"median_us", "low_us", "high_us"}) {
        if (trial[name].is_number()) trial[name] = trial[name].get<double>() * factor;
      }
    }
    first["chosen"]["median_us"] = first["chosen"]["median_us"].get<double>() * factor;
    write("new.json", changed.dump());
  }
  Ended compare(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"compare", file("old.json"), file("new.json")});
    return run(more);
  }
  nlohmann::json report_;
};

TEST_F(Compare, StatusSevenWhereSomethingBecameSlower) {
  write_new(1);
  const Ended same = compare();
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_EQ(same.err, "");
  EXPECT_NE(same.out.find("2 same"), std::string::npos) << same.out;
  write_new(50);
  const Ended slower = compare();
  EXPECT_EQ(slower.status, 7);
  EXPECT_NE(slower.out.find("1 slower, 1 same"), std::string::npos) << slower.out;
  EXPECT_EQ(slower.err, "culet: error: 1 slower and 0 without a choice that had one\n");
  const Ended slack = compare({"--slack", "10000", "--format", "json"});
  EXPECT_EQ(slack.status, 0) << slack.err;
  EXPECT_EQ(slack.json()["problems"].size(), 2u);
  write_new(0.01);
  EXPECT_EQ(compare().status, 0);
}

TEST_F(Compare, TimesThatNobodyMeasured) {
  auto changed = report_;
  changed["reports"][0]["chosen"]["median_us"] = 1e-308;
  write("new.json", changed.dump());
  const Ended ended = compare({"--format", "json"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_TRUE(ended.json()["problems"].is_array()) << ended.out;
}

TEST_F(Compare, WhatIsWrongIsSaidInOneLine) {
  expect_error(compare(), 6, "new.json");
  write("new.json", "{}");
  expect_error(compare(), 2, "new.json: no report");
  write("new.json", R"({"reports": [], "schema": )" + std::string(200'000, '[') +
                        std::string(200'000, ']') + "}");
  expect_error(compare(), 2, "new.json: line 1, column 126: nested more than 100 deep");
  write_new(1);
  expect_error(compare({"--slack", "much"}), 2, "--slack: 'much' is not a number of per cent");
  expect_error(compare({"--slack", "-1"}), 2, "--slack: '-1'");
  expect_error(compare({"--format", "csv"}), 2, "--format: 'csv' is not table or json");
  expect_error(run({"compare", file("old.json")}), 2, "compare --help");
}

}  // namespace
}  // namespace culet::testing_cli
