// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Worker processes as the program starts them: asked for or not, and never left behind.
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "program.h"

namespace culet::testing_cli {
namespace {

class IsolationCli : public Cli {
 protected:
  /// Processes that have this test's folder in their environment, and still run.
  std::vector<std::string> running() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string place = entry.path();
      if (place.find_first_of("0123456789") == std::string::npos) continue;
      if (read(place + "/environ").find("HOME=" + folder_) == std::string::npos) continue;
      const std::string command = read(place + "/cmdline");  // empty: it has ended
      if (!command.empty()) found.push_back(command);
    }
    return found;
  }

  void expect_nothing_left() const {
    for (int i = 0; i < 200 && !running().empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (const std::string& command : running()) ADD_FAILURE() << "left running: " << command;
  }
};

TEST_F(IsolationCli, BothWaysGiveAMeasuredChoice) {
  for (const char* isolation : {"process", "none"}) {
    const Ended ended = run(quick(
        {"tune", "8x8x8:f32", "--cache", "none", "--format", "json", "--isolation", isolation}));
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(ended.err, "");
    EXPECT_EQ(ended.json()["counts"]["timed"], 1) << ended.out;
  }
  expect_nothing_left();
}

TEST_F(IsolationCli, AWorkerThatCannotBeStartedIsOneWarning) {
  const Ended ended = run(quick({"tune", "8x8x8:f32", "9x8x8:f32", "--cache", "none"}),
                          {{"CULET_WORKER", "/nonexistent/culet"}});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.err.rfind("culet: warning: candidates run in this process", 0), 0u) << ended.err;
  EXPECT_EQ(ended.err.find('\n'), ended.err.size() - 1) << ended.err;
}

TEST_F(IsolationCli, StandardStreamsMayBeClosed) {
  const std::string command = "exec '" CULET_PROGRAM
                              "' tune 8x8x8:f32 --device cpu:1 --backends reference --cache none "
                              "--format json -o '" +
                              file("report") + "' <&- >&- 2>&-";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_NE(read(file("report")).find("\"measured\""), std::string::npos);
}

TEST_F(IsolationCli, OtherValuesAreRefused) {
  expect_error(run(quick({"tune", "8x8x8:f32", "--isolation", "thread"})), 2,
               "--isolation: 'thread' is not process or none");
  expect_error(run(quick({"tune", "8x8x8:f32"}), {{"CULET_ISOLATION", "yes"}}), 2,
               "CULET_ISOLATION: 'yes' is not process or none");
  EXPECT_EQ(
      run(quick({"tune", "8x8x8:f32", "--isolation", "none"}), {{"CULET_ISOLATION", "yes"}}).status,
      0);
}

TEST_F(IsolationCli, CtrlCEndsTheWaitForAnotherProcessesCompiler) {
  // Not a test of workers, but of what is left of processes all the same.
  if (std::system("c++ --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no compiler";
  write("c++", "#!/bin/sh\ncase $1 in -*version) exec c++ \"$@\";; esac\ntouch '" + file("begun") +
                   "'\nsleep 30\nexec c++ \"$@\"\n");
  std::filesystem::permissions(file("c++"), std::filesystem::perms::owner_all);
  const std::map<std::string, std::string> variables{{"CULET_CXX", file("c++")}};
  // One candidate for both: each would rank this CPU a little differently.
  const std::string problem = "8x64x64:f32:epi=\"relu(acc)\"";
  const Ended ranked = run({"rank", problem, "--device", "cpu:1", "--backends", "cpu_tile", "--top",
                            "1", "--format", "csv"});
  const std::size_t at = ranked.out.find("cpu_tile{code=jit");
  ASSERT_NE(at, std::string::npos) << ranked.out << ranked.err;
  const std::string candidate = ranked.out.substr(at, ranked.out.find('}', at) + 1 - at);
  const std::vector<std::string> bench{"bench", problem,       "--device",
                                       "cpu:1", "--candidate", candidate};
  const pid_t first = start(bench, variables);
  for (int i = 0; i < 500 && !std::filesystem::exists(file("begun")); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(std::filesystem::exists(file("begun")));
  const auto begin = std::chrono::steady_clock::now();
  const Ended second = run_and_interrupt(bench, 1.5, 1, SIGINT, variables);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  EXPECT_EQ(second.status, 130) << second.err;
  EXPECT_NE(second.err.find("interrupted after"), std::string::npos) << second.err;
  kill(first, SIGKILL);
  (void)finish(first);
  expect_nothing_left();
}

TEST_F(IsolationCli, NothingIsLeftWhenItIsStoppedAtOnce) {
  const std::vector<std::string> tune{"tune", "--shapes", file("many.shapes"), "--device", "cpu:1"};
  std::string shapes;
  for (int m = 1; m < 200; ++m) shapes += std::to_string(m) + "x64x64:f32\n";
  write("many.shapes", shapes);
  for (const double after : {0.3, 1.0, 2.5}) {
    EXPECT_EQ(run_and_interrupt(tune, after, 2).status, 130);  // Ctrl-C twice
    expect_nothing_left();
    EXPECT_EQ(run_and_interrupt(tune, after, 1, SIGKILL).status, -1);
    expect_nothing_left();
  }
}

}  // namespace
}  // namespace culet::testing_cli
