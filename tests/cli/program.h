// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Runs the program with an environment of its own, and a folder that goes away with the test.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace culet::testing_cli {

struct Ended {
  int status = -1;  ///< exit status, or -1 where a signal ended it
  std::string out, err;
  nlohmann::json json() const { return nlohmann::json::parse(out, nullptr, false); }
};

class Cli : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// Runs to the end. Nothing of the caller's environment but PATH is passed on; HOME and the
  /// default store lie in the test's folder.
  Ended run(const std::vector<std::string>& arguments,
            const std::map<std::string, std::string>& environment = {});
  /// The same, but sends SIGINT, or another signal, `times` times once standard error or the store
  /// shows life.
  Ended run_and_interrupt(const std::vector<std::string>& arguments, double after_seconds,
                          int times, int signal = 2,
                          const std::map<std::string, std::string>& environment = {});

  /// Starts it, and waits for its end.
  pid_t start(const std::vector<std::string>& arguments,
              const std::map<std::string, std::string>& environment) const;
  Ended finish(pid_t child) const;

  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const;
  static std::string read(const std::string& path);

  /// One line on standard error that starts with "culet: error: ", nothing on standard output.
  static void expect_error(const Ended& run, int status, const std::string& part);

  std::string folder_;
};

/// A problem the CPU answers at once, by the backend that is always there.
inline std::vector<std::string> quick(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = arguments;
  for (const char* more : {"--device", "cpu:1", "--backends", "reference"}) all.emplace_back(more);
  return all;
}

}  // namespace culet::testing_cli
