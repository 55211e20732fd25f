// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Places that are not as a store would like them: read-only, full, shared over a network, owned by
// somebody else, written by an earlier version, or about to grow too large.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "cache/database.h"
#include "cache/file_system.h"
#include "cache/records.h"
#include "cache/sqlite_cache.h"
#include "fixtures.h"

namespace culet {
namespace {

using namespace testing_cache;
namespace fs = std::filesystem;

std::shared_ptr<Cache> open_with(const std::string& path, const StoreOptions& options) {
  auto cache = SqliteCache::open(path, options);
  EXPECT_TRUE(cache.has_value()) << (cache ? "" : cache.error().message);
  return cache ? *cache : nullptr;
}

StoreOptions on_network() {
  StoreOptions options;
  options.network = "NFS";
  return options;
}

/// In a child; for root, as a user who may not write everywhere.
bool in_child(const std::function<bool()>& work, bool unprivileged = false) {
  const pid_t child = fork();
  if (child == 0) {
    if (unprivileged && geteuid() == 0 && setuid(65534) != 0) _exit(2);
    _exit(work() && !::testing::Test::HasFailure() ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class Places : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::make();
    ASSERT_TRUE(folder.has_value());
    folder_ = std::make_unique<TemporaryFolder>(std::move(*folder));
  }
  std::string path() const { return folder_->path(); }
  std::string file() const { return file_in(path()); }
  /// Readable by all, writable by nobody (but root).
  void make_read_only() const {
    for (const auto& entry : fs::directory_iterator(path())) chmod(entry.path().c_str(), 0444);
    chmod(path().c_str(), 0555);
  }
  void TearDown() override { chmod(path().c_str(), 0700); }
  /// What a store of version 1 looked like.
  void make_version_1() const {
    auto database = Database::open(file());
    ASSERT_TRUE(database.has_value());
    ASSERT_EQ((*database)->execute("DROP TABLE code_use; DROP TABLE store; DROP TABLE toolchains;"
                                   "ALTER TABLE code RENAME COLUMN made TO last_used;"
                                   "PRAGMA user_version=1"),
              DbStatus::done);
  }
  std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(Places, ReadOnlyIsReadWithOneWarning) {
  fill(*must_open(path()), 5);
  make_read_only();
  EXPECT_TRUE(in_child(
      [&] {
        const auto cache = must_open(path());
        if (!cache) return false;
        const std::string warning = cache->take_warning();
        EXPECT_NE(warning.find("the store is read, and nothing is added to it"), std::string::npos)
            << warning;
        EXPECT_EQ(check(*cache, 5), 15);
        fill(*cache, 6);
        EXPECT_EQ(check(*cache, 6), 15);
        EXPECT_FALSE(cache->clear().has_value());
        EXPECT_FALSE(cache->forget(problem_no(0).text()).has_value());
        EXPECT_FALSE(cache->take({}).has_value());
        EXPECT_EQ(cache->lock_code("a", [] { return false; }), nullptr);
        EXPECT_EQ(cache->contents()->trials.size(), 5u);
        EXPECT_TRUE(cache->verify().empty());
        EXPECT_EQ(cache->take_warning(), "") << "one warning";
        return true;
      },
      true));
}

TEST_F(Places, RemovedWhileOpenIsOneWarning) {
  const auto cache = must_open(path());
  fill(*cache, 3);
  EXPECT_EQ(cache->take_warning(), "");
  for (const auto& entry : fs::directory_iterator(path())) fs::remove_all(entry);
  fill(*cache, 5);
  EXPECT_EQ(cache->take_warning(), "cache: " + file() +
                                       " was removed or replaced while it was open: what is added "
                                       "to it now is lost");
  EXPECT_EQ(cache->take_warning(), "") << "one warning";
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(Places, ReadOnlyWhileAnotherWrites) {
  const auto writer = must_open(path());
  fill(*writer, 5);  // in the log, not yet in the file
  chmod(path().c_str(), 0555);
  for (const auto& entry : fs::directory_iterator(path())) chmod(entry.path().c_str(), 0644);
  EXPECT_TRUE(in_child([&] { return check(*must_open(path()), 5) == 15; }, true));
}

TEST_F(Places, ReadOnlyAndOfAnEarlierVersion) {
  fill(*must_open(path()), 5);
  make_version_1();
  make_read_only();
  EXPECT_TRUE(in_child(
      [&] {
        const auto cache = must_open(path());
        EXPECT_TRUE(cache->toolchains("sm_90a").empty());
        cache->note_toolchain("sm_90a", "compiler 1.2");
        return check(*cache, 5) == 15;
      },
      true));
}

TEST_F(Places, ReadOnlyAndDamagedIsLeftAsItIs) {
  fill(*must_open(path()), 40);
  std::string bytes = read_file(file()).value();
  for (std::size_t i = 4096; i < bytes.size(); ++i) bytes[i] = 'z';
  std::ofstream(file(), std::ios::binary) << bytes;
  fs::remove(file() + "-wal");
  make_read_only();
  EXPECT_TRUE(in_child(
      [&] {
        const auto cache = open_cache(path());
        if (cache) check(**cache, 40);
        return true;
      },
      true));
  EXPECT_TRUE(read_file(file()).value() == bytes);
  EXPECT_FALSE(fs::exists(file() + ".damaged"));
}

TEST_F(Places, UnreadableOrUnwritableWithoutAStoreIsAnError) {
  chmod(path().c_str(), 0555);
  const auto fails = [&](const std::string& where) {
    const auto cache = open_cache(where);
    return !cache && cache.error().code == ErrorCode::io &&
           cache.error().message.find(path()) != std::string::npos;
  };
  EXPECT_TRUE(in_child([&] { return fails(path()) && fails(path() + "/new"); }, true));
  chmod(path().c_str(), 0700);
  fill(*must_open(path()), 2);
  chmod(path().c_str(), 0555);
  for (const auto& entry : fs::directory_iterator(path())) chmod(entry.path().c_str(), 0);
  EXPECT_TRUE(in_child([&] { return fails(path()); }, true));
}

TEST_F(Places, AFullDiskCostsWhatDoesNotFit) {
  fill(*must_open(path()), 5);
  EXPECT_TRUE(in_child([&] {
    const auto cache = must_open(path());
    signal(SIGXFSZ, SIG_IGN);  // writing beyond the limit is an error then, as on a full disk
    const rlimit limit{200'000, 200'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Artifact large = artifact_no(1);
    std::mt19937 random(1);
    large.bytes.resize(500'000);
    for (char& c : large.bytes) c = static_cast<char>(random());
    cache->store_code("large", large);
    cache->store_code("larger", large);
    EXPECT_NE(cache->take_warning().find("cannot write"), std::string::npos);
    EXPECT_EQ(cache->take_warning(), "");
    EXPECT_FALSE(cache->find_code("large").has_value());
    EXPECT_EQ(check(*cache, 5), 15);
    cache->store_trial(problem_no(9), trial_no(9), environment_no(9));
    EXPECT_TRUE(cache->find_trial(problem_no(9), candidate_no(9), environment_no(9)).has_value());
    return true;
  }));
  const auto cache = must_open(path());
  EXPECT_EQ(check(*cache, 5), 15);
  EXPECT_TRUE(cache->verify().empty());
}

TEST_F(Places, NoRoomToMakeAStoreIsAnError) {
  EXPECT_TRUE(in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto cache = open_cache(path() + "/new");
    return !cache && cache.error().code == ErrorCode::io;
  }));
}

TEST_F(Places, OnANetworkNoLogAndOneWarning) {
  auto cache = open_with(path(), on_network());
  EXPECT_NE(cache->take_warning().find("network file system (NFS)"), std::string::npos);
  EXPECT_EQ(cache->take_warning(), "");
  fill(*cache, 5);
  EXPECT_FALSE(fs::exists(file() + "-wal"));
  EXPECT_FALSE(fs::exists(file() + "-shm"));
  cache = open_with(path(), on_network());
  EXPECT_EQ(cache->take_warning(), "") << "it is known by now";
  EXPECT_EQ(check(*cache, 5), 15);
}

TEST_F(Places, AStoreThatMovesToANetworkChangesItsJournal) {
  fill(*must_open(path()), 5);
  {
    const auto cache = open_with(path(), on_network());
    EXPECT_NE(cache->take_warning(), "");
    EXPECT_EQ(check(*cache, 5), 15);
    fill(*cache, 7);
  }
  EXPECT_EQ(check(*must_open(path()), 7), 21);
}

TEST_F(Places, OnANetworkProcessesWriteAtOnce) {
  std::vector<pid_t> children;
  for (int p = 0; p < 4; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      const auto cache = open_with(path(), on_network());
      for (int i = p; i < 40; i += 4) {
        cache->store_code(key_no(i), artifact_no(i));
        cache->store_trial(problem_no(i), trial_no(i), environment_no(i));
        cache->store_selection(problem_no(i), scope_no(i), "device", candidate_no(i), "because");
      }
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const auto cache = open_with(path(), on_network());
  EXPECT_EQ(check(*cache, 40), 120);
  EXPECT_TRUE(cache->verify().empty());
}

TEST(FileSystems, ByTheirNumbers) {
  EXPECT_EQ(network_file_system(0x6969), "NFS");
  EXPECT_EQ(network_file_system(0xff534d42), "CIFS");
  EXPECT_EQ(network_file_system(0x65735546), "FUSE");
  for (const std::uint32_t local : {0xef53u, 0x58465342u, 0x9123683eu, 0x01021994u, 0x794c7630u}) {
    EXPECT_EQ(network_file_system(local), "");  // ext4, XFS, Btrfs, tmpfs, overlay
  }
  EXPECT_EQ(network_file_system_of("/nowhere"), "");
}

TEST_F(Places, CodeOfAnotherUserIsNotUsed) {
  fill(*must_open(path()), 3);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(file().c_str(), 12345, 12345), 0);
  } else {
    chmod(file().c_str(), 0666);  // the other thing that makes it foreign
  }
  const auto cache = must_open(path());
  EXPECT_EQ(check(*cache, 3), 6) << "trials and selections are";
  EXPECT_NE(cache->take_warning().find("CULET_CACHE_FOREIGN=1 uses them"), std::string::npos);
  EXPECT_EQ(cache->take_warning(), "");
  EXPECT_FALSE(cache->save_code(path() + "/out").has_value());
  setenv("CULET_CACHE_FOREIGN", "1", 1);
  EXPECT_EQ(check(*must_open(path()), 3), 9);
  unsetenv("CULET_CACHE_FOREIGN");
}

TEST_F(Places, WhatEverybodyMayWriteToIsNotRun) {
  fill(*must_open(path()), 3);
  chmod(file().c_str(), 0666);
  EXPECT_FALSE(must_open(path())->find_code(key_no(0)).has_value());
  chmod(file().c_str(), 0660);
  EXPECT_TRUE(must_open(path())->find_code(key_no(0)).has_value()) << "a group is one's own";
}

TEST_F(Places, AnEarlierVersionIsBroughtUpToDate) {
  fill(*must_open(path()), 5);
  make_version_1();
  auto cache = must_open(path());
  EXPECT_EQ(cache->take_warning(), "");
  EXPECT_EQ(check(*cache, 5), 15);
  EXPECT_TRUE(cache->verify().empty());
  EXPECT_EQ(cache->contents()->damaged, 0);
  cache->store_code(key_no(7), artifact_no(7));
  EXPECT_TRUE(cache->find_code(key_no(7)).has_value());
  EXPECT_FALSE(fs::exists(file() + ".damaged"));
  cache = must_open(path());
  EXPECT_EQ(check(*cache, 5), 15);
}

TEST_F(Places, ManyUpdateAnEarlierVersionAtOnce) {
  fill(*must_open(path()), 5);
  make_version_1();
  std::vector<pid_t> children;
  for (int p = 0; p < 6; ++p) {
    const pid_t child = fork();
    if (child == 0) _exit(check(*must_open(path()), 5) == 15 ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_FALSE(fs::exists(file() + ".damaged"));
}

/// Kernels 0..count-1 that a store still has.
std::vector<int> kept(Cache& cache, int count) {
  std::vector<int> list;
  for (int i = 0; i < count; ++i) {
    if (const auto found = cache.find_code(key_no(i))) {
      expect_equal(*found, artifact_no(i));
      list.push_back(i);
    }
  }
  return list;
}

TEST_F(Places, WhatWasUsedLongestAgoMakesRoom) {
  StoreOptions options;
  options.code_limit = 12 * static_cast<std::int64_t>(compress(artifact_no(0).bytes).size());
  const auto cache = open_with(path(), options);
  for (int i = 0; i < 10; ++i) cache->store_code(key_no(i), artifact_no(i));
  ASSERT_EQ(kept(*cache, 10).size(), 10u) << "ten of some twelve fit";
  {  // an hour has to pass before a use is written down
    auto database = Database::open(file());
    ASSERT_TRUE(database.has_value());
    ASSERT_EQ((*database)->execute("UPDATE code_use SET last_used=last_used-90000"),
              DbStatus::done);
  }
  EXPECT_TRUE(cache->find_code(key_no(2)).has_value());
  EXPECT_TRUE(cache->find_code(key_no(5)).has_value());
  for (int i = 10; i < 20; ++i) cache->store_code(key_no(i), artifact_no(i));
  const std::vector<int> left = kept(*cache, 20);
  EXPECT_LT(left.size(), 14u);
  EXPECT_GT(left.size(), 9u);
  for (const int used : {2, 5, 19}) {
    EXPECT_TRUE(std::count(left.begin(), left.end(), used) == 1) << used;
  }
  EXPECT_EQ(cache->take_warning(), "");
  EXPECT_TRUE(cache->verify().empty());
  Artifact huge = artifact_no(0);
  std::mt19937 random(1);
  huge.bytes.resize(9'000);
  for (char& c : huge.bytes) c = static_cast<char>(random());
  cache->store_code("huge", huge);
  EXPECT_FALSE(cache->find_code("huge").has_value()) << "larger than all there may be";
  EXPECT_EQ(kept(*cache, 20), left);
}

TEST_F(Places, TheLimitComesFromTheEnvironment) {
  for (const char* wrong : {"0", "-3", "much"}) {
    setenv("CULET_CACHE_MB", wrong, 1);
    const auto cache = open_cache(path());
    ASSERT_FALSE(cache.has_value()) << wrong;
    EXPECT_NE(cache.error().message.find("CULET_CACHE_MB"), std::string::npos);
  }
  setenv("CULET_CACHE_MB", "1", 1);
  const auto cache = must_open(path());
  std::mt19937 random(1);
  for (int i = 0; i < 6; ++i) {
    Artifact artifact = artifact_no(i);
    artifact.bytes.resize(400'000);
    for (char& c : artifact.bytes) c = static_cast<char>(random());
    cache->store_code(key_no(i), artifact);
  }
  unsetenv("CULET_CACHE_MB");
  EXPECT_EQ(cache->stats().code_entries, 2);
  EXPECT_LT(fs::file_size(file()), 2'000'000u) << "room that became free is used";
}

TEST_F(Places, LookUpAmongAHundredThousandSelections) {
  constexpr int kCount = 100'000;
  const auto cache = must_open(path());
  StoreContents contents;
  for (int i = 0; i < kCount; ++i) {
    contents.selections.push_back({std::to_string(1 + i) + "x4096x4096:bf16", "device", scope_no(i),
                                   candidate_no(i), "because", 1 + i, false});
  }
  const auto taken = cache->take(contents);
  ASSERT_TRUE(taken.has_value()) << taken.error().message;
  ASSERT_EQ(taken->selections, kCount);
  std::vector<double> times;
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const int which = static_cast<int>(random() % kCount);
    const auto problem = Problem::parse(std::to_string(1 + which) + "x4096x4096:bf16");
    const auto begin = std::chrono::steady_clock::now();
    const auto found = cache->find_any_selection(*problem, "device");
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    ASSERT_TRUE(found.has_value());
    ASSERT_EQ(*found, candidate_no(which));
  }
  std::sort(times.begin(), times.end());
  RecordProperty("median_us", std::to_string(times[times.size() / 2] * 1e6));
#if !defined(__SANITIZE_THREAD__)  // which makes all code five to fifteen times slower
  EXPECT_LT(times[times.size() / 2], 0.2e-3);
#endif
}

}  // namespace
}  // namespace culet
