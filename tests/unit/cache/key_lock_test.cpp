// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Who compiles a key, and who waits: threads, processes, and processes that die.
#include "cache/key_lock.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "cache/sqlite_cache.h"
#include "fixtures.h"

namespace culet {
namespace {

using namespace testing_cache;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

class KeyLocks : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::make();
    ASSERT_TRUE(folder.has_value());
    folder_ = std::make_unique<TemporaryFolder>(std::move(*folder));
  }
  std::string file() const { return folder_->path() + "/lock"; }
  std::unique_ptr<CodeLock> lock(const std::string& key, milliseconds patience) const {
    return KeyLock::acquire(
        file(), key, [] { return false; }, patience);
  }
  bool is_free(const std::string& key) const { return lock(key, milliseconds(0)) != nullptr; }

  std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(KeyLocks, OneHolderForEachKey) {
  const auto first = lock("a", milliseconds(0));
  ASSERT_NE(first, nullptr);
  EXPECT_FALSE(is_free("a")) << "the same process may not have it twice";
  EXPECT_TRUE(is_free("b"));
  EXPECT_EQ(std::filesystem::file_size(file()), 0u);
}

TEST_F(KeyLocks, TheNextGetsItWhenTheFirstIsDone) {
  auto first = lock("a", milliseconds(0));
  std::atomic<bool> done{false};
  std::thread other([&] {
    const auto second = lock("a", std::chrono::seconds(60));
    EXPECT_NE(second, nullptr);
    EXPECT_TRUE(done.load());
  });
  std::this_thread::sleep_for(milliseconds(50));
  done = true;
  first.reset();
  other.join();
}

TEST_F(KeyLocks, WaitingEndsWithPatienceOrOnDemand) {
  const auto first = lock("a", milliseconds(0));
  const auto begin = Clock::now();
  EXPECT_EQ(lock("a", milliseconds(100)), nullptr);
  EXPECT_GE(Clock::now() - begin, milliseconds(100));
  int asked = 0;
  EXPECT_EQ(KeyLock::acquire(
                file(), "a", [&] { return ++asked == 3; }, std::chrono::hours(1)),
            nullptr);
  EXPECT_EQ(asked, 3);
}

TEST_F(KeyLocks, AProcessThatDiesLeavesItsKeyFree) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto held = lock("a", milliseconds(0));
    (void)!write(pipes[1], held ? "y" : "n", 1);
    pause();
  }
  char byte = 0;
  ASSERT_EQ(read(pipes[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_FALSE(is_free("a"));
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(is_free("a"));
  close(pipes[0]);
  close(pipes[1]);
}

TEST_F(KeyLocks, AForkedChildDoesNotKeepWhatItsParentGaveUp) {
  auto held = lock("a", milliseconds(0));
  const pid_t child = fork();
  if (child == 0) {
    pause();  // with the parent's descriptors
    _exit(0);
  }
  held.reset();
  EXPECT_TRUE(is_free("a"));
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
}

TEST_F(KeyLocks, WhereNoFileCanBeThereIsNoLock) {
  EXPECT_EQ(KeyLock::acquire(
                folder_->path() + "/none/lock", "a", [] { return false; }, std::chrono::hours(1)),
            nullptr);
}

TEST_F(KeyLocks, OfAStore) {
  const auto no = [] { return false; };
  const auto store = must_open(folder_->path());
  const auto held = store->lock_code("a", no);
  EXPECT_NE(held, nullptr);
  EXPECT_NE(must_open(folder_->path())->lock_code("b", no), nullptr);
  EXPECT_EQ(must_open(folder_->path())->lock_code("a", [] { return true; }), nullptr);
  struct stat info {};
  ASSERT_EQ(stat((file_in(folder_->path()) + ".compiling").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  EXPECT_EQ(info.st_size, 0);
}

TEST_F(KeyLocks, NoneWhereCodeIsNotShared) {
  const auto no = [] { return false; };
  EXPECT_EQ((*open_cache("none"))->lock_code("a", no), nullptr);
  StoreOptions network;
  network.network = "NFS";
  const auto remote = SqliteCache::open(folder_->path(), network);
  ASSERT_TRUE(remote) << remote.error().message;
  EXPECT_EQ((*remote)->lock_code("a", no), nullptr);
  chmod(file_in(folder_->path()).c_str(), 0666);  // code in it is not used
  const auto foreign = SqliteCache::open(folder_->path());
  ASSERT_TRUE(foreign) << foreign.error().message;
  EXPECT_EQ((*foreign)->lock_code("a", no), nullptr);
  EXPECT_FALSE(std::filesystem::exists(file_in(folder_->path()) + ".compiling"));
}

}  // namespace
}  // namespace culet
