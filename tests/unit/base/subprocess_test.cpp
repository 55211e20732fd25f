// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Programs run with a time limit: output, exit status, signals, and nothing left behind.
#include "base/subprocess.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace culet {
namespace {

double seconds_of(const std::vector<std::string>& argv, const ProcessOptions& options,
                  ProcessResult* out) {
  const auto start = std::chrono::steady_clock::now();
  auto result = run_process(argv, options);
  EXPECT_TRUE(result);
  if (result) *out = *result;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Subprocess, OutputOfBothStreamsAndStatus) {
  const auto result = run_process({"sh", "-c", "echo out; echo err >&2; exit 7"});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, "out\nerr\n");
  EXPECT_EQ(result->exit_code, 7);
  EXPECT_FALSE(result->ok());
  EXPECT_FALSE(result->timed_out);
  EXPECT_EQ(result->how_it_ended({}), "exit status 7");
}

TEST(Subprocess, ArgumentsArePassedAsTheyAre) {
  const auto result = run_process({"printf", "%s|", "a b", "$HOME", "", "'\""});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, "a b|$HOME||'\"|");
}

TEST(Subprocess, WhatRunsCanBeKilledFromASignalHandler) {
  ProcessResult result;
  double seconds = 60;
  std::thread runner([&] {
    // The grandchild holds the pipe open: it must end too.
    seconds = seconds_of({"sh", "-c", "sleep 50 & wait"}, {60, 100}, &result);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  kill_running_processes();
  runner.join();
  EXPECT_LT(seconds, 30);
  EXPECT_EQ(result.signal, 9);
  // Nothing runs any more: nothing is killed.
  kill_running_processes();
  EXPECT_TRUE(run_process({"true"})->ok());
}

TEST(Subprocess, WhatRunsEndsWithAKilledParent) {
  // A child process of this test runs a shell with a child of its own, and is killed.
  const std::string folder = ::testing::TempDir() + "/subprocess-" + std::to_string(getpid());
  ASSERT_TRUE(run_process({"mkdir", "-p", folder})->ok());
  const std::string file = folder + "/alive";
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    (void)run_process({"sh", "-c", "(while :; do echo >>\"$0\"; sleep 0.05; done) & wait", file},
                      {60, 100});
    _exit(0);
  }
  const auto size = [&] {
    struct stat info {};
    return stat(file.c_str(), &info) == 0 ? info.st_size : 0;
  };
  for (int i = 0; i < 400 && size() < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_GE(size(), 3);
  kill(parent, SIGKILL);
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  auto before = size();
  bool grows = true;
  for (int i = 0; i < 20 && grows; ++i) {  // within ten seconds it writes no more
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    grows = size() != before;
    before = size();
  }
  EXPECT_FALSE(grows);
  EXPECT_TRUE(run_process({"rm", "-r", folder})->ok());
}

TEST(Subprocess, InputIsEmpty) {
  const auto result = run_process({"cat"}, {5, 100});
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->ok());
  EXPECT_EQ(result->output, "");
}

TEST(Subprocess, SignalsAreSeen) {
  const auto result = run_process({"sh", "-c", "kill -9 $$"});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->exit_code, -1);
  EXPECT_EQ(result->signal, 9);
  EXPECT_EQ(result->how_it_ended({}), "killed by signal 9");
}

TEST(Subprocess, TheTimeLimitEndsChildrenToo) {
  const ProcessOptions options{0.3, 1000};
  ProcessResult result;
  // The grandchild holds the pipe open; output before the limit is kept.
  const double took = seconds_of({"sh", "-c", "echo early; sleep 20 & sleep 20"}, options, &result);
  EXPECT_TRUE(result.timed_out);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.output, "early\n");
  EXPECT_LT(took, 5);
  EXPECT_EQ(result.how_it_ended(options), "killed after 0.3 s");
  // Output closed, but still running.
  EXPECT_LT(seconds_of({"sh", "-c", "exec >&- 2>&-; sleep 20"}, options, &result), 5);
  EXPECT_TRUE(result.timed_out);
}

TEST(Subprocess, MuchOutputIsReadAndCut) {
  const auto result = run_process({"sh", "-c", "head -c 3000000 /dev/zero"}, {20, 1000});
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->ok());
  EXPECT_EQ(result->output.size(), 1000u);
}

TEST(Subprocess, MissingPrograms) {
  for (const char* name : {"culet-no-such-program", "/nonexistent/program", "/", ""}) {
    const auto result = run_process({name});
    ASSERT_FALSE(result) << name;
    EXPECT_EQ(result.error().code, ErrorCode::io);
  }
  EXPECT_FALSE(run_process({}));
  EXPECT_EQ(find_program("culet-no-such-program"), "");
  EXPECT_NE(find_program("sh"), "");
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
}

TEST(Subprocess, ManyAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto result = run_process({"sh", "-c", "echo " + std::to_string(i)}, {20, 100});
      good += result && result->output == std::to_string(i) + "\n";
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good.load(), 8);
}

}  // namespace
}  // namespace culet
