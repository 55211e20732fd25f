// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Processes that share a store compile each source once between them. The compiler is a script that
// keeps count and takes its time.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "compile/compiler.h"
#include "culet/tuner.h"

namespace culet {
namespace {

using Clock = std::chrono::steady_clock;

DeviceSpec host_device() {
  DeviceSpec device = *DeviceSpec::preset("cpu");
  device.architecture = "x86-64";
  return device;
}

Source source(int number) {
  return {SourceLanguage::cpp,
          "extern \"C\" int shared_entry() { return " + std::to_string(number) + "; }\n",
          "shared_entry",
          {}};
}

class Processes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Compiler::toolchain(SourceLanguage::cpp, host_device())) GTEST_SKIP() << "no compiler";
    auto folder = TemporaryFolder::make();
    ASSERT_TRUE(folder.has_value());
    folder_ = std::make_unique<TemporaryFolder>(std::move(*folder));
  }
  void TearDown() override { unsetenv("CULET_CXX"); }

  /// Each compile adds a line to "count", does `first`, and goes on as the real compiler.
  void use_compiler(const std::string& first) const {
    const std::string script = file("c++");
    std::ofstream(script) << "#!/bin/sh\ncase $1 in -*version) exec c++ \"$@\";; esac\ncd '"
                          << folder_->path() << "'\necho x >>count\n"
                          << first << "\nexec c++ \"$@\"\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    setenv("CULET_CXX", script.c_str(), 1);
  }
  std::string file(const std::string& name) const { return folder_->path() + "/" + name; }
  std::shared_ptr<Cache> open() const { return open_cache(file("store")).value(); }
  long long compiles() const {
    return read_file(file("count")).value_or("").size() / 2;  // "x\n"
  }
  void wait_for(const std::string& name) const {
    for (int i = 0; i < 2000 && !std::filesystem::exists(file(name)); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_TRUE(std::filesystem::exists(file(name)));
  }

  static pid_t in_child(const std::function<bool()>& work) {
    const pid_t child = fork();
    if (child == 0) _exit(work() ? 0 : 1);
    return child;
  }
  static bool succeeded(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(Processes, CompileEachSourceOnce) {
  use_compiler("sleep 0.3");
  (void)open();  // made beforehand, so that all begin at once
  std::vector<pid_t> children;
  for (int p = 0; p < 4; ++p) {
    children.push_back(in_child([&] {
      const auto cache = open();
      Compiler compiler(cache);
      int good = 0;
      for (int number = 0; number < 3; ++number)
        good += compiler.compile(source(number), host_device()).has_value();
      return good == 3 && cache->take_warning().empty();
    }));
  }
  for (const pid_t child : children) EXPECT_TRUE(succeeded(child));
  EXPECT_EQ(compiles(), 3);
  EXPECT_EQ(open()->stats().code_entries, 3);
}

TEST_F(Processes, WithoutASharedStoreEachCompilesForItself) {
  use_compiler("");
  std::vector<pid_t> children;
  for (int p = 0; p < 2; ++p) {
    children.push_back(in_child([&] {
      return Compiler(*open_cache("none")).compile(source(0), host_device()).has_value();
    }));
  }
  for (const pid_t child : children) EXPECT_TRUE(succeeded(child));
  EXPECT_EQ(compiles(), 2) << "the count means something";
}

TEST_F(Processes, AWaitingOneSaysSo) {
  use_compiler("touch begun; sleep 0.5");
  const pid_t child =
      in_child([&] { return Compiler(open()).compile(source(0), host_device()).has_value(); });
  wait_for("begun");
  Compiler compiler(open());
  Compilation how;
  EXPECT_TRUE(compiler.compile(
      source(0), host_device(), [] { return false; }, &how));
  EXPECT_EQ(how.from, CodeFrom::awaited);
  EXPECT_GT(how.seconds, 0.1);
  EXPECT_EQ(how.entry, "shared_entry");
  EXPECT_EQ(how.key.size(), 32u);
  EXPECT_EQ(compiler.compiled(), 0);
  EXPECT_TRUE(compiler.compile(
      source(0), host_device(), [] { return false; }, &how));
  EXPECT_EQ(how.from, CodeFrom::stored);
  EXPECT_TRUE(succeeded(child));
}

TEST_F(Processes, ADeadOnesWorkIsDoneByTheNext) {
  use_compiler("if mkdir first 2>/dev/null; then sleep 300; fi");
  const pid_t child =
      in_child([&] { return Compiler(open()).compile(source(0), host_device()).has_value(); });
  wait_for("first");
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    kill(child, SIGKILL);
  });
  const auto begin = Clock::now();
  Compilation how;
  Compiler compiler(open());
  EXPECT_TRUE(compiler.compile(
      source(0), host_device(), [] { return false; }, &how));
  EXPECT_EQ(how.from, CodeFrom::compiled);
  EXPECT_GT(Clock::now() - begin, std::chrono::milliseconds(250)) << "it waited";
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(60));
  killer.join();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(compiles(), 2);
}

TEST_F(Processes, WaitingCanBeCancelledByOneOfTwoThreads) {
  use_compiler("touch begun; for i in $(seq 400); do test -e go && break; sleep 0.05; done");
  const pid_t child =
      in_child([&] { return Compiler(open()).compile(source(0), host_device()).has_value(); });
  wait_for("begun");
  Compiler compiler(open());
  std::atomic<bool> stop{false};
  const auto begin = Clock::now();
  std::thread told([&] {
    Compilation how;
    const auto artifact = compiler.compile(
        source(0), host_device(), [&] { return stop.load(); }, &how);
    ASSERT_FALSE(artifact);
    EXPECT_EQ(artifact.error().code, ErrorCode::interrupted);
    EXPECT_NE(how.error, "");
    EXPECT_EQ(how.from, CodeFrom::awaited) << "nothing was compiled";
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30));
    // The other one still waits.
    std::ofstream(file("go")) << "go";
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::thread waits([&] {
    Compilation how;
    EXPECT_TRUE(compiler.compile(
        source(0), host_device(), [] { return false; }, &how));
    EXPECT_EQ(how.from, CodeFrom::awaited);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  stop = true;
  told.join();
  waits.join();
  EXPECT_TRUE(succeeded(child));
  EXPECT_EQ(compiles(), 1);
}

TEST_F(Processes, WhatDoesNotCompileIsTriedByEachAndBlocksNobody) {
  use_compiler("");
  Source bad = source(0);
  bad.text += "nonsense;";
  std::vector<pid_t> children;
  for (int p = 0; p < 3; ++p) {
    children.push_back(in_child([&] {
      const auto artifact = Compiler(open()).compile(bad, host_device());
      return !artifact && artifact.error().code == ErrorCode::build_failed;
    }));
  }
  for (const pid_t child : children) EXPECT_TRUE(succeeded(child));
  EXPECT_EQ(compiles(), 3);
}

}  // namespace
}  // namespace culet
