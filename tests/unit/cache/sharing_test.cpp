// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// One store used at once by threads, by processes, and across a fork.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "fixtures.h"

namespace culet {
namespace {

using namespace testing_cache;

class Sharing : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::make();
    ASSERT_TRUE(folder.has_value());
    folder_ = std::make_unique<TemporaryFolder>(std::move(*folder));
  }
  std::string path() const { return folder_->path(); }

  static pid_t in_child(const std::function<bool()>& work) {
    const pid_t child = fork();
    if (child == 0) _exit(work() && !::testing::Test::HasFailure() ? 0 : 1);
    return child;
  }
  static bool succeeded(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(Sharing, Threads) {
  const auto cache = must_open(path());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < 80; i += 4) {
        cache->store_code(key_no(i), artifact_no(i));
        cache->store_trial(problem_no(i), trial_no(i), environment_no(i));
        cache->store_selection(problem_no(i), scope_no(i), "device", candidate_no(i), "because");
        check(*cache, 8);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(check(*cache, 80), 240);
  EXPECT_EQ(cache->take_warning(), "");
}

TEST_F(Sharing, ProcessesOpenAndWriteAtOnce) {
  std::vector<pid_t> children;
  for (int p = 0; p < 4; ++p) {
    children.push_back(in_child([&, p] {
      const auto cache = must_open(path());
      if (!cache) return false;
      for (int i = p; i < 60; i += 4) {
        cache->store_code(key_no(i), artifact_no(i));
        cache->store_trial(problem_no(i), trial_no(i), environment_no(i));
        cache->store_selection(problem_no(i), scope_no(i), "device", candidate_no(i), "because");
      }
      return cache->take_warning().empty();
    }));
  }
  for (const pid_t child : children) EXPECT_TRUE(succeeded(child));
  const auto cache = must_open(path());
  EXPECT_EQ(check(*cache, 60), 180);
  EXPECT_TRUE(cache->verify().empty());
}

TEST_F(Sharing, WhatWasStoredIsThereWhenTheWriterIsKilled) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = in_child([&] {
    const auto cache = must_open(path());
    fill(*cache, 5);
    (void)!write(pipes[1], "x", 1);
    pause();  // never closes the store
    return true;
  });
  char byte = 0;
  ASSERT_EQ(read(pipes[0], &byte, 1), 1);
  EXPECT_EQ(check(*must_open(path()), 5), 15);  // published to others at once
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(check(*must_open(path()), 5), 15);
  close(pipes[0]);
  close(pipes[1]);
}

TEST_F(Sharing, AForkedChildStartsAfresh) {
  const auto cache = must_open(path());
  fill(*cache, 3);
  const pid_t child = in_child([&] {
    const bool read = check(*cache, 3) == 9;
    cache->store_code(key_no(9), artifact_no(9));
    return read && cache->take_warning().empty();
  });
  EXPECT_TRUE(succeeded(child));
  ASSERT_TRUE(cache->find_code(key_no(9)).has_value());
  fill(*cache, 5);
  EXPECT_EQ(check(*cache, 5), 15);
  EXPECT_TRUE(cache->verify().empty());
}

TEST_F(Sharing, AStoreMovedAsideByOthersDoesNotHurtTheFreshOne) {
  auto old = must_open(path());
  fill(*old, 3);
  // What another process does with a file it finds damaged, while this one still has it open.
  const std::string file = file_in(path());
  std::filesystem::rename(file, file + ".damaged");
  std::filesystem::rename(file + "-wal", file + ".damaged-wal");
  std::filesystem::remove(file + "-shm");
  const auto fresh = must_open(path());
  fill(*fresh, 5);
  check(*old, 3);
  old.reset();  // must not remove the fresh store's log by its name
  EXPECT_EQ(check(*fresh, 5), 15);
  EXPECT_EQ(check(*must_open(path()), 5), 15);
}

TEST_F(Sharing, ManyOpenersOfADamagedFileMoveItOnce) {
  std::ofstream(file_in(path())) << "garbage";
  std::vector<pid_t> children;
  for (int p = 0; p < 6; ++p) {
    children.push_back(in_child([&, p] {
      const auto cache = must_open(path());
      if (!cache) return false;
      cache->store_code(key_no(p), artifact_no(p));
      return true;
    }));
  }
  for (const pid_t child : children) EXPECT_TRUE(succeeded(child));
  EXPECT_FALSE(std::filesystem::exists(file_in(path()) + ".2.damaged"));
  const auto cache = must_open(path());
  for (int p = 0; p < 6; ++p) EXPECT_TRUE(cache->find_code(key_no(p)).has_value()) << p;
}

}  // namespace
}  // namespace culet
